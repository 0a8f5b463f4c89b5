"""The crash demo: an agent's run whose client and server are killed, and which ends right. Shown by `perdure demo`."""
