-- name: lock_executions
-- Read the executions that this transaction is about to change, given as {id: shard}. They come, and are locked, in
-- (shard, id) order, before any other row.
SELECT e.shard, e.id, e.company, e.agent, e.definition, e.state, e.reason, e.ownership, e.fence, e.next_seq,
    e.log_format, e.active_ms, e.created_ms, e.updated_ms, e.finished_ms, e.chain, e.lane, e.build, e.cancel_seq,
    e.origin, e.kept_by, e.priority, e.limit_key
FROM json_each(:wanted) w JOIN executions e ON e.shard = CAST(CAST(w.value AS TEXT) AS INTEGER) AND e.id = w.key
ORDER BY e.shard, e.id;

-- name: insert_execution
-- Make an execution.
INSERT INTO executions (
    shard, id, company, agent, definition, state, reason, ownership, fence, next_seq, log_format, active_ms,
    created_ms, updated_ms, finished_ms, chain, lane, build, cancel_seq, origin, kept_by,
    priority, limit_key
) VALUES (
    :shard, :id, :company, :agent, :definition, :state, :reason, :ownership, :fence, :next_seq, :log_format, :active_ms,
    :created_ms, :updated_ms, :finished_ms, :chain, :lane, :build, :cancel_seq, :origin, :kept_by,
    :priority, :limit_key
);

-- name: update_execution
-- Write a locked execution back: what may change of it.
UPDATE executions SET
    state = :state, reason = :reason, ownership = :ownership, fence = :fence, next_seq = :next_seq,
    log_format = :log_format, active_ms = :active_ms, updated_ms = :updated_ms, finished_ms = :finished_ms,
    chain = :chain, build = :build, cancel_seq = :cancel_seq, kept_by = :kept_by
WHERE shard = :shard AND id = :id;

-- name: advance_execution
-- Write back a locked execution of which only the log went on. No index has these columns.
UPDATE executions SET next_seq = :next_seq, log_format = :log_format, updated_ms = :updated_ms, chain = :chain
WHERE shard = :shard AND id = :id;

-- name: insert_event
-- Append to a log. A `seq` that is taken fails the transaction.
INSERT INTO events (shard, execution, seq, kind, address, digest, data, at_ms, hash)
VALUES (:shard, :execution, :seq, :kind, :address, :digest, :data, :at_ms, :hash);

-- name: insert_evidence
-- Keep what is said of an ended execution.
INSERT INTO evidence (shard, execution, seq, kind, address, data, at_ms, hash)
VALUES (:shard, :execution, :seq, :kind, :address, :data, :at_ms, :hash);

-- name: last_evidence
-- The number of the last row of an ended execution's evidence.
SELECT MAX(seq) AS seq FROM evidence WHERE shard = :shard AND execution = :execution;
