"""The process that runs tools: takes tasks from a source, keeps their leases, reports how they ended."""
