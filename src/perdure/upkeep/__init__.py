"""The care of a store that nobody runs on: migrate, check, back up, restore, copy. Runs no execution."""
