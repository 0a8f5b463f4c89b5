-- name: lock_execution
-- differs because: SQLite has one writer and needs no row lock; here other servers write too.
SELECT shard, id, company, agent, definition, state, reason, ownership, fence, next_seq, log_format, active_ms,
    created_ms, updated_ms, finished_ms
FROM executions WHERE shard = :shard AND id = :id
FOR UPDATE;
