-- name: steps_applied
-- The migrations that a database has had.
SELECT number, name, checksum, perdure FROM migrations ORDER BY number;

-- name: meta_value
-- One of the facts that a store keeps of itself.
SELECT value FROM meta WHERE key = :key;

-- name: set_meta
-- Write one of them.
INSERT INTO meta (key, value) VALUES (:key, :value) ON CONFLICT (key) DO UPDATE SET value = excluded.value;

-- name: delete_meta
-- Forget one of them.
DELETE FROM meta WHERE key = :key;

-- name: chain_heads
-- Executions and where their logs should end, a page at a time.
SELECT shard, id, next_seq, chain FROM executions WHERE (shard, id) > (:shard, :execution)
ORDER BY shard, id LIMIT :limit;

-- name: rows_without_execution
-- Rows of an execution that is not there.
SELECT * FROM (
    SELECT 'events' AS name, r.shard, r.execution FROM events r
    WHERE NOT EXISTS (SELECT 1 FROM executions e WHERE e.shard = r.shard AND e.id = r.execution)
    UNION SELECT 'evidence', r.shard, r.execution FROM evidence r
    WHERE NOT EXISTS (SELECT 1 FROM executions e WHERE e.shard = r.shard AND e.id = r.execution)
    UNION SELECT 'ready', r.shard, r.execution FROM ready r
    WHERE NOT EXISTS (SELECT 1 FROM executions e WHERE e.shard = r.shard AND e.id = r.execution)
    UNION SELECT 'owned', r.shard, r.execution FROM owned r
    WHERE NOT EXISTS (SELECT 1 FROM executions e WHERE e.shard = r.shard AND e.id = r.execution)
    UNION SELECT 'tasks', r.shard, r.execution FROM tasks r
    WHERE NOT EXISTS (SELECT 1 FROM executions e WHERE e.shard = r.shard AND e.id = r.execution)
    UNION SELECT 'waitpoints', r.shard, r.execution FROM waitpoints r
    WHERE NOT EXISTS (SELECT 1 FROM executions e WHERE e.shard = r.shard AND e.id = r.execution)
    UNION SELECT 'votes', r.shard, r.execution FROM votes r
    WHERE NOT EXISTS (SELECT 1 FROM executions e WHERE e.shard = r.shard AND e.id = r.execution)
    UNION SELECT 'timers', r.shard, r.execution FROM timers r
    WHERE NOT EXISTS (SELECT 1 FROM executions e WHERE e.shard = r.shard AND e.id = r.execution)
    UNION SELECT 'deadlines', r.shard, r.execution FROM deadlines r
    WHERE NOT EXISTS (SELECT 1 FROM executions e WHERE e.shard = r.shard AND e.id = r.execution)
    UNION SELECT 'inbox_keys', r.shard, r.execution FROM inbox_keys r
    WHERE NOT EXISTS (SELECT 1 FROM executions e WHERE e.shard = r.shard AND e.id = r.execution)
    UNION SELECT 'lineage', r.shard, r.execution FROM lineage r
    WHERE NOT EXISTS (SELECT 1 FROM executions e WHERE e.shard = r.shard AND e.id = r.execution)
    UNION SELECT 'tagged', r.shard, r.execution FROM tagged r
    WHERE NOT EXISTS (SELECT 1 FROM executions e WHERE e.shard = r.shard AND e.id = r.execution)
    UNION SELECT 'blob_uses', r.shard, r.execution FROM blob_uses r
    WHERE NOT EXISTS (SELECT 1 FROM executions e WHERE e.shard = r.shard AND e.id = r.execution)
) lost ORDER BY 1, 2, 3 LIMIT :limit;

-- name: ownership_without_row
-- Executions that are ready or owned by their own word and have no row that says so, or one under another fence.
SELECT * FROM (
    SELECT 'ready' AS name, e.shard, e.id AS execution, e.fence FROM executions e
    WHERE e.ownership = 'ready'
      AND NOT EXISTS (SELECT 1 FROM ready r WHERE r.shard = e.shard AND r.execution = e.id)
    UNION ALL SELECT 'owned', e.shard, e.id, e.fence FROM executions e
    WHERE e.ownership = 'owned'
      AND NOT EXISTS (SELECT 1 FROM owned o WHERE o.shard = e.shard AND o.execution = e.id AND o.fence = e.fence)
) lost ORDER BY 1, 2, 3 LIMIT :limit;

-- name: row_without_ownership
-- Rows in `ready` and `owned` of executions that are not, by their own word.
SELECT * FROM (
    SELECT 'ready' AS name, r.shard, r.execution, e.ownership FROM ready r
    JOIN executions e ON e.shard = r.shard AND e.id = r.execution WHERE e.ownership <> 'ready'
    UNION ALL SELECT 'owned', o.shard, o.execution, e.ownership FROM owned o
    JOIN executions e ON e.shard = o.shard AND e.id = o.execution WHERE e.ownership <> 'owned'
) lost ORDER BY 1, 2, 3 LIMIT :limit;

-- name: ended_and_claimable
-- Executions that have ended, or that nobody may claim, and that are on the ready list; and ended ones without an end.
SELECT shard, id AS execution, state, ownership FROM executions
WHERE (state IN ('completed', 'failed', 'cancelled') AND (ownership <> 'parked' OR finished_ms IS NULL))
   OR (state IN ('paused', 'stuck') AND ownership = 'ready')
   OR (state NOT IN ('completed', 'failed', 'cancelled') AND finished_ms IS NOT NULL)
ORDER BY shard, id LIMIT :limit;

-- name: tagged_otherwise
-- Tags that say of their execution that it goes on, or how it ended, and are wrong.
SELECT t.shard, t.execution, t.tag, t.ended, e.state FROM tagged t
JOIN executions e ON e.shard = t.shard AND e.id = t.execution
WHERE (e.state IN ('completed', 'failed', 'cancelled') AND t.ended <> e.state)
   OR (e.state NOT IN ('completed', 'failed', 'cancelled') AND t.ended <> '')
ORDER BY t.shard, t.execution, t.tag LIMIT :limit;

-- name: held_by_nobody
-- Tasks that are held, and do not say by whom or until when. A step that its execution's holder runs has no lease.
SELECT shard, execution, address, state FROM tasks
WHERE state IN ('leased', 'begun') AND (worker IS NULL OR (lease_until_ms IS NULL AND queue <> ''))
ORDER BY shard, execution, address LIMIT :limit;

-- name: uses_without_blob
-- References in logs to content that is not there, or not whole.
SELECT u.shard, u.execution, u.hash FROM blob_uses u
WHERE NOT EXISTS (SELECT 1 FROM blobs b WHERE b.company = u.company AND b.hash = u.hash AND b.whole = 1)
ORDER BY u.shard, u.execution, u.hash LIMIT :limit;

-- name: blobs_after
-- Whole blobs, a page at a time.
SELECT company, hash, bytes FROM blobs WHERE (company, hash) > (:company, :hash) AND whole = 1
ORDER BY company, hash LIMIT :limit;

-- name: executions_by_state
-- How many executions are in each state. The logs of rooms are none.
SELECT state, COUNT(*) AS n FROM executions WHERE company <> '?rooms' GROUP BY state ORDER BY state;

-- name: open_executions
-- Executions that have not ended, a page at a time. The logs of rooms are none.
SELECT shard, id FROM executions
WHERE company <> '?rooms' AND finished_ms IS NULL AND (shard, id) > (:shard, :execution) ORDER BY shard, id LIMIT :limit;

-- name: tasks_to_doubt
-- Acts at most once that may have happened since a store's older state.
SELECT * FROM tasks WHERE shard = :shard AND execution = :execution AND delivery = 'at_most_once'
  AND state IN ('ready', 'leased', 'begun') ORDER BY address;

-- name: hold_in_doubt
-- Until when somebody who was given a task since a store's older state may still be at it.
UPDATE tasks SET lease_until_ms = :until_ms
WHERE shard = :shard AND execution = :execution AND address = :address;

-- name: end_leases_of
-- Nobody holds what an execution's tasks were leased for in a store's older state: they may be given out again at once.
UPDATE tasks SET lease_until_ms = :now_ms WHERE shard = :shard AND execution = :execution AND state = 'leased';

-- name: leap_task_fences
-- Shut out whoever was given a task of an execution since a store's older state.
UPDATE tasks SET fence = fence + :leap WHERE shard = :shard AND execution = :execution
  AND state IN ('ready', 'leased');

-- name: pause_all_schedules
-- Pause every schedule.
UPDATE schedules SET paused = 1 WHERE paused = 0;
