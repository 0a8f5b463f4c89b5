"""Ways in for programs that speak other protocols than ours: into rooms by MCP, to published agents by A2A."""
