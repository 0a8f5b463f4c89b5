"""The HTTP routes, by who calls them."""
