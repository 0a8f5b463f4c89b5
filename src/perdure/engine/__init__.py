"""The use cases: one file, one operation, one transaction. Sync; knows rows and rules, no network, no clock."""
