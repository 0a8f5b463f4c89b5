-- name: insert_token
-- Open a wait that the holder of a secret ends; only the secret's hash is kept.
INSERT INTO waitpoints (
    shard, execution, address, id, company, kind, state, digest, opened_seq, opened_ms, name, token, expires_ms
) VALUES (
    :shard, :execution, :address, :id, :company, 'token', 'open', :digest, :opened_seq, :now_ms, :name, :token,
    :expires_ms
);

-- name: insert_lineage
-- Remember which step of which execution began a child.
INSERT INTO lineage (shard, execution, parent, parent_address) VALUES (:shard, :execution, :parent, :parent_address);

-- name: set_deadline
-- Set or move the moment at which something about an address ends.
INSERT INTO deadlines (shard, execution, address, kind, due_ms) VALUES (:shard, :execution, :address, :kind, :due_ms)
ON CONFLICT (shard, execution, address, kind) DO UPDATE SET due_ms = excluded.due_ms;

-- name: delete_deadline
-- Take a deadline off, once.
DELETE FROM deadlines WHERE shard = :shard AND execution = :execution AND address = :address AND kind = :kind;

-- name: start_of
-- When an execution is to begin.
SELECT due_ms FROM deadlines WHERE shard = :shard AND execution = :execution AND address = '' AND kind = :kind;

-- name: deadlines_due
-- Deadlines of one kind whose time has come.
SELECT shard, execution, address FROM deadlines
WHERE kind = :kind AND due_ms <= :now_ms ORDER BY due_ms LIMIT :limit;

-- name: token_by_hash
-- The wait that a secret ends.
SELECT shard, execution, address, token FROM waitpoints WHERE token = :token;

-- name: token_by_id
-- A company's token by its id.
SELECT shard, execution, address FROM waitpoints WHERE id = :id AND company = :company AND kind = 'token';

-- name: resolve_token
-- Write the answer down.
UPDATE waitpoints SET
    state = 'resolved', decision = :decision, decided_by = :by, decided_ms = :now_ms, value = :value, reason = :reason
WHERE shard = :shard AND execution = :execution AND address = :address AND state = 'open';

-- name: expire_waitpoint
-- Close a wait whose time is over.
UPDATE waitpoints SET state = 'expired', decision = 'expire', decided_ms = :now_ms
WHERE shard = :shard AND execution = :execution AND address = :address AND state = 'open';

-- name: open_tokens_of
-- The tokens that an execution waits for.
SELECT id, address, name, opened_ms, expires_ms FROM waitpoints
WHERE shard = :shard AND execution = :execution AND kind = 'token' AND state = 'open' ORDER BY opened_seq;

-- name: parents_of
-- Which steps of which executions began these, given as {execution: shard}, and what they were tagged with; of those
-- that were begun by a step or have tags. Never changes.
SELECT l.execution, l.parent, l.parent_address, l.tags FROM json_each(:wanted) w
JOIN lineage l ON l.shard = CAST(CAST(w.value AS TEXT) AS INTEGER) AND l.execution = w.key
WHERE l.parent IS NOT NULL OR l.tags IS NOT NULL;

-- name: parents_among
-- Those of these executions, given as {execution: shard}, that began others.
SELECT w.key AS execution FROM json_each(:wanted) w
WHERE EXISTS (SELECT 1 FROM lineage l WHERE l.parent = w.key);

-- name: live_children_of
-- Children of an execution that nobody cancelled and that did not end, without those that it began behind an event.
SELECT e.shard, e.id AS execution FROM lineage l JOIN executions e ON e.shard = l.shard AND e.id = l.execution
WHERE l.parent = :parent AND e.state NOT IN ('completed', 'failed', 'cancelled', 'cancelling') AND NOT EXISTS (
    SELECT 1 FROM events v
    WHERE v.shard = :shard AND v.execution = :parent AND v.seq > :spared_after
      AND v.kind = 'child_started' AND v.address = l.parent_address
)
ORDER BY e.shard, e.id LIMIT :limit;

-- name: cancelled_at
-- At which event an execution was cancelled that has not ended yet.
SELECT cancel_seq FROM executions WHERE shard = :shard AND id = :execution AND state = 'cancelling';

-- name: descendants_of
-- The tree below an execution, parents before their children, bounded in depth and number.
WITH RECURSIVE tree (shard, execution, parent, address, depth) AS (
    SELECT l.shard, l.execution, l.parent, l.parent_address, 1 FROM lineage l WHERE l.parent = :root
    UNION ALL
    SELECT l.shard, l.execution, l.parent, l.parent_address, t.depth + 1
    FROM tree t JOIN lineage l ON l.parent = t.execution WHERE t.depth < 20
)
SELECT t.execution, t.parent, t.address, t.depth, e.agent, e.state, e.created_ms
FROM tree t JOIN executions e ON e.shard = t.shard AND e.id = t.execution
ORDER BY t.depth, t.execution LIMIT :limit;

-- name: lineage_of
-- Where an execution comes from, and what it was tagged with.
SELECT parent, parent_address, origin, origin_seq, tags FROM lineage WHERE shard = :shard AND execution = :execution;
