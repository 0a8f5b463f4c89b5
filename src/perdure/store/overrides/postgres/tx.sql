-- name: lock_executions
-- differs because: SQLite has one writer and needs no row lock; here other servers write too.
SELECT e.shard, e.id, e.company, e.agent, e.definition, e.state, e.reason, e.ownership, e.fence, e.next_seq,
    e.log_format, e.active_ms, e.created_ms, e.updated_ms, e.finished_ms, e.chain, e.lane, e.build, e.cancel_seq,
    e.origin, e.kept_by, e.priority, e.limit_key
FROM json_each(:wanted) w JOIN executions e ON e.shard = CAST(CAST(w.value AS TEXT) AS INTEGER) AND e.id = w.key
ORDER BY e.shard, e.id
FOR UPDATE OF e;
