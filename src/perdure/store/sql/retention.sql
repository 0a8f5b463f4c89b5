-- name: first_over
-- When the execution that ended first is past its time, by what the store was told, or else by the default.
SELECT MIN(e.finished_ms) + COALESCE(
    (SELECT CAST(m.value AS BIGINT) FROM meta m WHERE m.key = 'retention_ms'), CAST(:default_ms AS BIGINT)
) AS over_ms FROM executions e WHERE e.finished_ms IS NOT NULL;

-- name: executions_over
-- Executions past their time that nobody needs: no task of theirs is held, uncertain or still to be made, and no
-- parent, child or fork of theirs goes on. The longest ended first.
SELECT e.shard, e.id AS execution, e.next_seq FROM executions e
WHERE e.finished_ms <= :now_ms - COALESCE(
    (SELECT CAST(m.value AS BIGINT) FROM meta m WHERE m.key = 'retention_ms'), CAST(:default_ms AS BIGINT)
) AND NOT EXISTS (
    SELECT 1 FROM tasks t WHERE t.shard = e.shard AND t.execution = e.id AND t.state NOT IN ('done', 'dead')
) AND NOT EXISTS (
    SELECT 1 FROM lineage l JOIN executions p ON p.company = e.company AND p.id = l.parent
    WHERE l.shard = e.shard AND l.execution = e.id AND p.finished_ms IS NULL
) AND NOT EXISTS (
    SELECT 1 FROM lineage l JOIN executions c ON c.shard = l.shard AND c.id = l.execution
    WHERE l.parent = e.id AND c.finished_ms IS NULL
) AND NOT EXISTS (
    SELECT 1 FROM lineage l JOIN executions f ON f.shard = l.shard AND f.id = l.execution
    WHERE l.origin = e.id AND f.finished_ms IS NULL
)
ORDER BY e.finished_ms LIMIT :limit;

-- name: forget_execution
-- Delete an execution's row. What belongs to it is deleted by the queries below, in the same transaction.
DELETE FROM executions WHERE shard = :shard AND id = :execution;

-- name: forget_start_keys
-- The key that began it may begin another.
DELETE FROM start_keys WHERE execution = :execution;

-- name: forget_events
-- Its log.
DELETE FROM events WHERE shard = :shard AND execution = :execution;

-- name: forget_evidence
-- What was said after its end.
DELETE FROM evidence WHERE shard = :shard AND execution = :execution;

-- name: forget_ready
-- A row that says that it may be claimed.
DELETE FROM ready WHERE shard = :shard AND execution = :execution;

-- name: forget_owned
-- A row that says who holds it.
DELETE FROM owned WHERE shard = :shard AND execution = :execution;

-- name: forget_tasks
-- Its tasks, and with them its part of the ledger of effects.
DELETE FROM tasks WHERE shard = :shard AND execution = :execution;

-- name: forget_waitpoints
-- Its waits.
DELETE FROM waitpoints WHERE shard = :shard AND execution = :execution;

-- name: forget_votes
-- Who spoke on its approvals.
DELETE FROM votes WHERE shard = :shard AND execution = :execution;

-- name: forget_timers
-- Its timers.
DELETE FROM timers WHERE shard = :shard AND execution = :execution;

-- name: forget_deadlines
-- Its deadlines.
DELETE FROM deadlines WHERE shard = :shard AND execution = :execution;

-- name: forget_inbox_keys
-- The messages that it had accepted.
DELETE FROM inbox_keys WHERE shard = :shard AND execution = :execution;

-- name: forget_tagged
-- What finds it by its tags.
DELETE FROM tagged WHERE shard = :shard AND execution = :execution;

-- name: forget_lineage
-- Where it came from, and its tags.
DELETE FROM lineage WHERE shard = :shard AND execution = :execution;

-- name: forget_blob_uses
-- What its log referred to. The content goes later, if no other log refers to it.
DELETE FROM blob_uses WHERE shard = :shard AND execution = :execution;
