"""The asynchronous edge: one node over one store, its executor, and the HTTP app that stands on it."""
