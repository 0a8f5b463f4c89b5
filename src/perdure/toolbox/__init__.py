"""Ready-made tools: skills."""
