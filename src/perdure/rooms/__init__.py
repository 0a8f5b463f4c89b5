"""Always-on agents in rooms: what a wake is given, how it goes, and what it may declare."""
