-- name: hold_queue
-- Make a queue's row, or lock the one that there is, and return it.
INSERT INTO queues (company, name, paused, credit, credit_ms, changed_by, changed_ms)
VALUES (:company, :name, 0, 0, :now_ms, '', :now_ms)
ON CONFLICT (company, name) DO UPDATE SET paused = queues.paused
RETURNING *;

-- name: lock_queues
-- Those that have limits, or keys that take turns, among some queues, locked in one order; given as {company: {name: 0}}.
SELECT q.* FROM json_each(:wanted) c CROSS JOIN json_each(c.value) n
JOIN queues q ON q.company = c.key AND q.name = n.key
WHERE q.concurrency IS NOT NULL OR q.rate IS NOT NULL OR q.per_key IS NOT NULL OR q.turn IS NOT NULL
ORDER BY q.company, q.name;

-- name: lock_free_queues
-- Likewise, without those that somebody else has locked.
SELECT q.* FROM json_each(:wanted) c CROSS JOIN json_each(c.value) n
JOIN queues q ON q.company = c.key AND q.name = n.key
WHERE q.concurrency IS NOT NULL OR q.rate IS NOT NULL OR q.per_key IS NOT NULL OR q.turn IS NOT NULL
ORDER BY q.company, q.name;

-- name: count_held
-- How many tasks of a queue are leased or begun.
SELECT COUNT(*) AS held FROM tasks
WHERE company = :company AND queue = :queue AND state IN ('leased', 'begun');

-- name: keys_held
-- How many tasks of each key of a queue are leased or begun.
SELECT limit_key, COUNT(*) AS held FROM tasks
WHERE company = :company AND queue = :queue AND state IN ('leased', 'begun') AND limit_key <> ''
GROUP BY limit_key;

-- name: take_turns
-- From now on the keys of a queue take turns, and its row says whose was the last.
INSERT INTO queues (company, name, paused, credit, credit_ms, changed_by, changed_ms, turn)
VALUES (:company, :name, 0, 0, :now_ms, '', 0, '')
ON CONFLICT (company, name) DO UPDATE SET turn = COALESCE(queues.turn, '');

-- name: next_keys
-- Of one lane the keys after one, in order, that have something due, without those given as {key: 0}. Goes from key to key,
-- however many tasks each has.
WITH RECURSIVE keys (limit_key) AS (
    SELECT (
        SELECT MIN(t.limit_key) FROM tasks t
        WHERE t.company = :company AND t.queue = :queue AND t.agent = :agent AND t.tool = :tool AND t.limit_key > :after
          AND t.state = 'ready'
    )
    UNION ALL
    SELECT (
        SELECT MIN(t.limit_key) FROM tasks t
        WHERE t.company = :company AND t.queue = :queue AND t.agent = :agent AND t.tool = :tool
          AND t.limit_key > keys.limit_key AND t.state = 'ready'
    ) FROM keys WHERE keys.limit_key IS NOT NULL
)
SELECT keys.limit_key FROM keys
WHERE keys.limit_key IS NOT NULL AND keys.limit_key NOT IN (SELECT f.key FROM json_each(:full) f) AND EXISTS (
    SELECT 1 FROM tasks d
    WHERE d.company = :company AND d.queue = :queue AND d.agent = :agent AND d.tool = :tool
      AND d.limit_key = keys.limit_key AND d.state = 'ready' AND d.run_at_ms - d.ahead_ms <= :now_ms
)
LIMIT :limit;

-- name: pass_turn
-- Keep which key of a queue had the last turn.
UPDATE queues SET turn = :turn WHERE company = :company AND name = :name;

-- name: spend_queue
-- Keep what is left of a queue's rate.
UPDATE queues SET credit = :credit, credit_ms = :now_ms WHERE company = :company AND name = :name;

-- name: set_queue
-- Change what is said of a queue.
UPDATE queues SET
    paused = :paused, concurrency = :concurrency, rate = :rate, period_ms = :period_ms, per_key = :per_key, credit = :credit,
    credit_ms = :now_ms, changed_by = :by, changed_ms = :now_ms
WHERE company = :company AND name = :name;

-- name: limit_held
-- Have it told when tasks end that were leased before their queue had limits.
UPDATE tasks SET limited = 1
WHERE company = :company AND queue = :queue AND state IN ('leased', 'begun') AND limited = 0;

-- name: queues_of
-- What people say of a company's queues; an empty name matches all. Some rows only keep the turns of keys.
SELECT * FROM queues WHERE company = :company AND changed_ms > 0 AND (:name = '' OR name = :name) ORDER BY name;

-- name: queue_backlogs
-- How many tasks of a company's queues are due, and since when the first is; an empty name matches all.
SELECT queue, COUNT(*) AS backlog, MIN(run_at_ms) AS oldest_ms FROM tasks
WHERE company = :company AND state = 'ready' AND run_at_ms <= :now_ms AND (:name = '' OR queue = :name)
GROUP BY queue;

-- name: queues_held
-- How many tasks of a company's queues are leased or begun; an empty name matches all. Steps that no queue has are none.
SELECT queue, COUNT(*) AS held FROM tasks
WHERE company = :company AND state IN ('leased', 'begun') AND queue <> '' AND (:name = '' OR queue = :name)
GROUP BY queue;

-- name: dead_tasks
-- Calls that failed for good in executions that go on, and how: the newest first; empty filters match all. Durable
-- functions were told, and have gone on from there.
SELECT t.execution, t.address, t.agent, t.tool, t.queue, t.attempt, t.updated_ms, (
    SELECT v.data FROM events v
    WHERE v.shard = t.shard AND v.execution = t.execution AND v.address = t.address AND v.kind = 'task_failed'
    ORDER BY v.seq DESC LIMIT 1
) AS failed
FROM tasks t JOIN executions e ON e.shard = t.shard AND e.id = t.execution
WHERE t.company = :company AND t.state = 'dead' AND t.updated_ms >= :since_ms AND t.probe_of IS NULL
  AND (t.updated_ms, t.execution, t.address) < (:before_ms, :before_execution, :before_address)
  AND e.lane = '' AND e.state NOT IN ('completed', 'failed', 'cancelled', 'cancelling')
  AND (:agent = '' OR t.agent = :agent) AND (:tool = '' OR t.tool = :tool) AND (:queue = '' OR t.queue = :queue)
ORDER BY t.updated_ms DESC, t.execution DESC, t.address DESC LIMIT :limit;
