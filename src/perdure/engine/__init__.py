"""The use cases: one file, one operation, one transaction. Synchronous; knows rows and rules, no network and no clock."""
