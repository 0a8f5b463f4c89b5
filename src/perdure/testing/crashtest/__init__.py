"""The crash test for users' own agents: `perdure crashtest agent.py`. Real processes, real kills, at every boundary."""
