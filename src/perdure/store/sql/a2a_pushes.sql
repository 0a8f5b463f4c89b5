-- name: put_a2a_push
-- Have somebody told of a task, or say anew whom: how far they were told stays as it was.
INSERT INTO a2a_pushes (
    shard, execution, id, company, agent, url, token, scheme, credentials, version, told_seq, tries, due_ms,
    given_up_ms, error
)
VALUES (
    :shard, :execution, :id, :company, :agent, :url, :token, :scheme, :credentials, :version, :told_seq, 0, :now_ms,
    NULL, ''
)
ON CONFLICT (shard, execution, id) DO UPDATE SET
    url = excluded.url, token = excluded.token, scheme = excluded.scheme, credentials = excluded.credentials,
    version = excluded.version, tries = 0, due_ms = excluded.due_ms, given_up_ms = NULL, error = '';

-- name: delete_a2a_push
-- Have somebody told no more.
DELETE FROM a2a_pushes WHERE shard = :shard AND execution = :execution AND id = :id;

-- name: a2a_pushes_on
-- Who is told of a task, by name.
SELECT id, url, token, scheme, version FROM a2a_pushes WHERE shard = :shard AND execution = :execution ORDER BY id;

-- name: a2a_pushes_of
-- Who is told of a company's tasks, those of the newest first.
SELECT p.execution, p.agent, p.id, p.url, p.told_seq, p.tries, p.due_ms, p.given_up_ms, p.error, e.next_seq
FROM a2a_pushes p JOIN executions e ON e.shard = p.shard AND e.id = p.execution
WHERE p.company = :company AND (CAST(:execution AS TEXT) = '' OR p.execution = :execution)
ORDER BY p.execution DESC, p.id LIMIT :limit;

-- name: any_a2a_push
-- Whether anybody is to be told of anything, now or later.
SELECT MIN(due_ms) AS due_ms FROM a2a_pushes;

-- name: a2a_pushes_due
-- Those for whom there is something to tell, and whom nobody is telling: who has waited longest first.
SELECT p.execution, p.id, p.company, p.agent, p.url, p.token, p.scheme, p.credentials, p.version, p.told_seq, p.tries,
    p.due_ms
FROM a2a_pushes p JOIN executions e ON e.shard = p.shard AND e.id = p.execution
WHERE p.due_ms <= :now_ms AND e.next_seq > p.told_seq + 1
ORDER BY p.due_ms LIMIT :limit;

-- name: take_a2a_push
-- Be the one who tells, for a time.
UPDATE a2a_pushes SET due_ms = :until_ms
WHERE shard = :shard AND execution = :execution AND id = :id AND due_ms = :seen_ms;

-- name: free_a2a_pushes
-- Whoever was telling is gone.
UPDATE a2a_pushes SET due_ms = :now_ms WHERE due_ms > :now_ms AND tries = 0;

-- name: tell_a2a_push
-- They were told so far. due_ms: as in the table.
UPDATE a2a_pushes SET told_seq = :seq, tries = 0, error = '', due_ms = :due_ms
WHERE shard = :shard AND execution = :execution AND id = :id AND due_ms = :taken_ms;

-- name: miss_a2a_push
-- They could not be told.
UPDATE a2a_pushes SET tries = tries + 1, error = :error, due_ms = :due_ms, given_up_ms = :given_up_ms
WHERE shard = :shard AND execution = :execution AND id = :id AND due_ms = :taken_ms;

-- name: forget_a2a_pushes
-- Who was told of it.
DELETE FROM a2a_pushes WHERE shard = :shard AND execution = :execution;
