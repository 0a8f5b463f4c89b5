-- name: insert_task
-- Put a tool call on its queue.
INSERT INTO tasks (
    shard, execution, address, company, agent, tool, queue, state, delivery, fence, attempt, max_attempts, pause_ms,
    timeout_ms, scheduled_seq, approval, run_at_ms, claims, lease_ms, updated_ms, rules
) VALUES (
    :shard, :execution, :address, :company, :agent, :tool, :queue, :state, :delivery, 0, 0, :max_attempts, :pause_ms,
    :timeout_ms, :scheduled_seq, :approval, :now_ms, 0, 0, :now_ms, :rules
);

-- name: task
-- One task.
SELECT * FROM tasks WHERE shard = :shard AND execution = :execution AND address = :address;

-- name: tasks_named
-- Many tasks, given as {execution: {address: shard}}.
SELECT t.* FROM json_each(:wanted) w CROSS JOIN json_each(w.value) a
JOIN tasks t ON t.shard = CAST(CAST(a.value AS TEXT) AS INTEGER) AND t.execution = w.key AND t.address = a.key;

-- name: ready_tasks
-- Candidates of one lane, the longest due first, with what their scheduling said.
SELECT t.*, v.data FROM tasks t
JOIN executions e ON e.shard = t.shard AND e.id = t.execution
JOIN events v ON v.shard = t.shard AND v.execution = t.execution AND v.seq = t.scheduled_seq
WHERE t.company = :company AND t.queue = :queue AND t.agent = :agent AND t.tool = :tool
  AND t.state = 'ready' AND t.run_at_ms <= :now_ms AND e.state NOT IN ('paused', 'stuck')
ORDER BY t.run_at_ms LIMIT :limit;

-- name: tasks_of_nonce
-- What a worker was given in answer to one request, should it ask again.
SELECT t.*, v.data FROM tasks t
JOIN events v ON v.shard = t.shard AND v.execution = t.execution AND v.seq = t.scheduled_seq
WHERE t.worker = :worker AND t.company = :company AND t.state IN ('leased', 'begun') AND t.state = 'leased'
  AND t.nonce = :nonce;

-- name: lease_task
-- Reserve a task that is still free; the same reservation again changes nothing but its end.
UPDATE tasks SET
    state = 'leased', fence = fence + :raised, attempt = attempt + :raised,
    worker = :worker, nonce = :nonce, started_ms = :now_ms, first_ms = COALESCE(first_ms, :now_ms),
    lease_ms = :lease_ms, lease_until_ms = :lease_until_ms, updated_ms = :now_ms
WHERE shard = :shard AND execution = :execution AND address = :address AND fence = :fence AND state = :state
RETURNING fence, attempt;

-- name: begin_task
-- Make the claim of an at_most_once task.
UPDATE tasks SET
    state = 'begun', begin_nonce = :begin_nonce, claims = claims + 1, started_ms = :now_ms,
    lease_until_ms = :now_ms + lease_ms, updated_ms = :now_ms
WHERE shard = :shard AND execution = :execution AND address = :address;

-- name: prolong_task
-- A heartbeat, if the fence still holds.
UPDATE tasks SET lease_until_ms = :now_ms + lease_ms
WHERE shard = :shard AND execution = :execution AND address = :address
  AND fence = :fence AND company = :company AND worker = :worker AND state IN ('leased', 'begun')
RETURNING (
    SELECT e.state FROM executions e WHERE e.shard = tasks.shard AND e.id = tasks.execution
) AS execution_state;

-- name: set_task
-- Move a task to another state.
UPDATE tasks SET
    state = :state, run_at_ms = :run_at_ms, worker = :worker, attempt = :attempt, updated_ms = :now_ms
WHERE shard = :shard AND execution = :execution AND address = :address;

-- name: rule_task
-- Mark a ruled task; `raised` shuts out whoever held it.
UPDATE tasks SET fence = fence + :raised, max_attempts = max_attempts + :raised
WHERE shard = :shard AND execution = :execution AND address = :address;

-- name: kill_ready_tasks
-- End the tasks of an execution that nobody was given yet.
UPDATE tasks SET state = 'dead', updated_ms = :now_ms
WHERE shard = :shard AND execution = :execution AND state = 'ready';

-- name: held_task
-- Any task of an execution that a worker holds.
SELECT address FROM tasks
WHERE shard = :shard AND execution = :execution AND state IN ('leased', 'begun') LIMIT 1;

-- name: shrink_leases
-- Cut a silent worker's leases short.
UPDATE tasks SET lease_until_ms = :until_ms
WHERE worker = :worker AND company = :company AND state IN ('leased', 'begun') AND lease_until_ms > :until_ms;

-- name: tasks_expired
-- Held tasks whose lease ran out.
SELECT shard, execution, address, fence FROM tasks
WHERE state IN ('leased', 'begun') AND lease_until_ms < :now_ms ORDER BY lease_until_ms LIMIT :limit;

-- name: tasks_held_by_prefix
-- Held tasks of workers of one kind: read when the owner of a file changes.
SELECT shard, execution, address, fence FROM tasks
WHERE state IN ('leased', 'begun') AND worker LIKE :prefix;

-- name: tasks_of
-- All tasks of an execution, in the order they were scheduled.
SELECT * FROM tasks WHERE shard = :shard AND execution = :execution ORDER BY scheduled_seq;

-- name: claimed_tasks
-- Tasks that ever made a claim; empty filters match all.
SELECT * FROM tasks
WHERE company = :company AND claims > 0
  AND (:execution = '' OR execution = :execution)
  AND (:state = '' OR state = :state)
ORDER BY updated_ms DESC LIMIT :limit;

-- name: next_due_task
-- When the next delayed task of a queue is due.
SELECT MIN(run_at_ms) AS due_ms FROM tasks
WHERE company = :company AND queue = :queue AND state = 'ready' AND run_at_ms > :now_ms;
