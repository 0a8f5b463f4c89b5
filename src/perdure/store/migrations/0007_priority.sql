-- Priorities: who is more urgent stands further ahead, as if it had been waiting that much longer.

-- priority: given at the start, handed down to its tasks and to what it begins. ahead_ms: the same as time.
ALTER TABLE executions ADD COLUMN priority INTEGER NOT NULL DEFAULT 0;
ALTER TABLE ready ADD COLUMN ahead_ms BIGINT NOT NULL DEFAULT 0;
ALTER TABLE tasks ADD COLUMN ahead_ms BIGINT NOT NULL DEFAULT 0;

-- In the place of those that were in order of time alone: as many as before, and as large.
DROP INDEX ready_by_lane;
CREATE INDEX ready_by_lane ON ready (lane, (since_ms - ahead_ms));
DROP INDEX tasks_ready;
CREATE INDEX tasks_ready ON tasks (company, queue, agent, tool, (run_at_ms - ahead_ms)) WHERE state = 'ready';
