"""The HTTP client: the verbs of `wire.api` for whoever is not in the server's process."""
