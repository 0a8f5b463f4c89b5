-- name: waitpoint
-- One wait by its address.
SELECT * FROM waitpoints WHERE shard = :shard AND execution = :execution AND address = :address;

-- name: waitpoint_by_id
-- One wait of a company by its id.
SELECT shard, execution, address FROM waitpoints WHERE id = :id AND company = :company AND kind = 'approval';

-- name: cancel_waitpoints
-- Close the open waits of an execution that ends.
UPDATE waitpoints SET state = 'cancelled'
WHERE shard = :shard AND execution = :execution AND state = 'open';

-- name: list_waitpoints
-- A company's waits with what was shown, oldest first; empty filters match all.
SELECT w.*, e.agent, v.data FROM waitpoints w
JOIN executions e ON e.shard = w.shard AND e.id = w.execution
JOIN events v ON v.shard = w.shard AND v.execution = w.execution AND v.seq = w.opened_seq
WHERE w.company = :company AND w.kind = 'approval'
  AND (:execution = '' OR w.execution = :execution)
  AND (:state = '' OR w.state = :state)
  AND (:id = '' OR w.id = :id)
ORDER BY w.opened_ms, w.execution, w.opened_seq LIMIT :limit;

-- name: open_waitpoints_of
-- The open waits of an execution with what was shown.
SELECT w.*, v.data FROM waitpoints w
JOIN events v ON v.shard = w.shard AND v.execution = w.execution AND v.seq = w.opened_seq
WHERE w.shard = :shard AND w.execution = :execution AND w.state = 'open' ORDER BY w.opened_seq;

-- name: insert_timer
-- Set a timer.
INSERT INTO timers (shard, execution, address, due_ms) VALUES (:shard, :execution, :address, :due_ms);

-- name: timers_due
-- Timers whose time has come.
SELECT shard, execution, address FROM timers WHERE due_ms <= :now_ms ORDER BY due_ms LIMIT :limit;

-- name: timers_of
-- The timers of an execution.
SELECT address, due_ms FROM timers WHERE shard = :shard AND execution = :execution;

-- name: next_timer
-- When the next timer is due.
SELECT MIN(due_ms) AS due_ms FROM timers;

-- name: delete_timer
-- Take a timer off, once.
DELETE FROM timers WHERE shard = :shard AND execution = :execution AND address = :address;

-- name: delete_timers
-- Take all timers of an execution off.
DELETE FROM timers WHERE shard = :shard AND execution = :execution;
