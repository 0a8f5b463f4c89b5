-- Whose turn it is: priorities, companies that take turns, keys that take turns and have limits of their own.

-- priority: given at the start, handed down to its tasks and to what it begins. ahead_ms: the same as time, by which who is
-- more urgent stands further ahead in a line, as if it had been waiting that much longer.
-- limit_key: whose it is, in the words of whoever started it, handed down likewise; '' is nobody's.
ALTER TABLE executions ADD COLUMN priority INTEGER NOT NULL DEFAULT 0;
ALTER TABLE executions ADD COLUMN limit_key TEXT NOT NULL DEFAULT '';
ALTER TABLE ready ADD COLUMN ahead_ms BIGINT NOT NULL DEFAULT 0;
ALTER TABLE tasks ADD COLUMN ahead_ms BIGINT NOT NULL DEFAULT 0;
ALTER TABLE tasks ADD COLUMN limit_key TEXT NOT NULL DEFAULT '';

-- In the place of those that were in order of time alone: as many as before. What takes turns stands before the order.
DROP INDEX ready_by_lane;
CREATE INDEX ready_by_lane ON ready (lane, company, (since_ms - ahead_ms));
DROP INDEX tasks_ready;
CREATE INDEX tasks_ready ON tasks (company, queue, agent, tool, limit_key, (run_at_ms - ahead_ms)) WHERE state = 'ready';

-- per_key: tasks of one key leased or begun at once. turn: the key that had the last turn; NULL while no task of the queue
-- has had a key.
ALTER TABLE queues ADD COLUMN per_key INTEGER;
ALTER TABLE queues ADD COLUMN turn TEXT;
