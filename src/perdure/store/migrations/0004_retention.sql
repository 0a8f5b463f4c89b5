-- Ended executions by their age, and the start key that began one: for the sweep that deletes what ended long ago. An
-- execution enters the first index once, when it ends.
CREATE INDEX executions_ended ON executions (finished_ms) WHERE finished_ms IS NOT NULL;
CREATE INDEX start_keys_of ON start_keys (execution);
