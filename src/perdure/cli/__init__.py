"""The command line. One module per noun; nothing of the library imports it."""
