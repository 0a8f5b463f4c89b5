"""The means of proof: a world that counts, a checker that reads, clocks and schedules that only a test moves.

`world`, `world_client`, `evidence`, `client_log` and `checker` share no code with the engine they judge.
"""
