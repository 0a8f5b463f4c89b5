"""Durable functions: plain `async def` whose steps are recorded, and which are run again from their log."""
