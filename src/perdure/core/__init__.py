"""The vocabulary and the pure rules. No I/O, no clock, no async."""
