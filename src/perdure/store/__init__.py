"""Rows that survive. Synchronous; knows SQL and transactions, and nothing of what the rows mean."""
