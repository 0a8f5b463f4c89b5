-- name: insert_definition
-- Keep an agent's definition; equal ones are kept once.
INSERT INTO definitions (company, digest, agent, spec, created_ms)
VALUES (:company, :digest, :agent, :spec, :now_ms)
ON CONFLICT (company, digest) DO NOTHING;

-- name: definition
-- The definition that an execution began with.
SELECT agent, spec FROM definitions WHERE company = :company AND digest = :digest;

-- name: insert_start_key
-- Claim a start key; touches no row if it is taken.
INSERT INTO start_keys (company, agent, start_key, execution, digest, created_ms)
VALUES (:company, :agent, :start_key, :execution, :digest, :now_ms)
ON CONFLICT (company, agent, start_key) DO NOTHING;

-- name: start_key
-- The execution that a start key began.
SELECT execution, digest FROM start_keys
WHERE company = :company AND agent = :agent AND start_key = :start_key;

-- name: insert_ready
-- Put an execution on the ready list; being there already is fine.
INSERT INTO ready (shard, execution, company, lane, since_ms, ahead_ms, abandoned, kept_by)
VALUES (:shard, :execution, :company, :lane, :since_ms, :ahead_ms, :abandoned, :kept_by)
ON CONFLICT (shard, execution) DO NOTHING;

-- name: delete_ready
-- Take an execution off the ready list.
DELETE FROM ready WHERE shard = :shard AND execution = :execution;

-- name: was_abandoned
-- Whether the last holder of an execution that is ready let go of nothing.
SELECT abandoned FROM ready WHERE shard = :shard AND execution = :execution;

-- name: ready_executions
-- Candidates of one company for a claim, the most urgent first and of those the longest ready, of the log formats that the
-- claimer reads: these are looked up one by one, for a join might read the whole list. `onward`: one of another company, if
-- any has executions ready.
SELECT * FROM (
    SELECT r.shard, r.execution, r.company, r.abandoned, 0 AS onward, (
        SELECT e.fence FROM executions e WHERE e.shard = r.shard AND e.id = r.execution
    ) AS fence FROM ready r
    WHERE r.lane = '' AND r.company = :company AND (
        SELECT e.shard FROM executions e
        WHERE e.shard = r.shard AND e.id = r.execution AND e.log_format BETWEEN :oldest AND :newest
    ) IS NOT NULL
    ORDER BY r.since_ms - r.ahead_ms LIMIT :limit
) own
UNION ALL
SELECT * FROM (
    SELECT r.shard, r.execution, r.company, r.abandoned, 1 AS onward, 0 AS fence FROM ready r
    WHERE r.lane = '' AND r.company > :company ORDER BY r.company LIMIT 1
) later
UNION ALL
SELECT * FROM (
    SELECT r.shard, r.execution, r.company, r.abandoned, 1 AS onward, 0 AS fence FROM ready r
    WHERE r.lane = '' AND r.company < :company ORDER BY r.company LIMIT 1
) earlier;

-- name: ready_companies
-- The companies after one, in order, that have executions ready for servers. Goes from company to company, however many each
-- has.
WITH RECURSIVE companies_ready (company) AS (
    SELECT (SELECT MIN(r.company) FROM ready r WHERE r.lane = '' AND r.company > :after)
    UNION ALL
    SELECT (SELECT MIN(r.company) FROM ready r WHERE r.lane = '' AND r.company > c.company)
    FROM companies_ready c WHERE c.company IS NOT NULL
)
SELECT company FROM companies_ready WHERE company IS NOT NULL LIMIT :limit;

-- name: insert_owned
-- Begin an ownership.
INSERT INTO owned (shard, execution, holder, company, nonce, fence, since_ms, lease_until_ms)
VALUES (:shard, :execution, :holder, :company, :nonce, :fence, :since_ms, :lease_until_ms);

-- name: delete_owned
-- End an ownership.
DELETE FROM owned WHERE shard = :shard AND execution = :execution;

-- name: renew_owned
-- Prolong everything that a holder owns.
UPDATE owned SET lease_until_ms = :lease_until_ms WHERE holder = :holder;

-- name: owned_by
-- What a holder owns.
SELECT execution, fence FROM owned WHERE holder = :holder;

-- name: owned_expired
-- Ownerships whose lease ran out.
SELECT shard, execution, fence FROM owned WHERE lease_until_ms < :now_ms ORDER BY lease_until_ms LIMIT :limit;

-- name: owned_inside
-- Ownerships of the owner of a file itself and of its own worker: read when that owner changes.
SELECT shard, execution FROM owned WHERE company = '' OR holder LIKE :prefix;

-- name: owner_of
-- Who owns an execution, for the doctor.
SELECT holder, fence, since_ms, lease_until_ms, outside FROM owned WHERE shard = :shard AND execution = :execution;

-- name: holder_of
-- Whose an execution is, and which claim of it counts.
SELECT company, fence FROM executions WHERE shard = :shard AND id = :execution;

-- name: events_after
-- A page of an execution's log.
SELECT seq, kind, address, digest, data, at_ms FROM events
WHERE shard = :shard AND execution = :execution AND seq > :after
ORDER BY seq LIMIT :limit;

-- name: events_of_kinds
-- What a log has of some kinds, given as {kind: 1}.
SELECT seq, kind, address, digest, data, at_ms FROM events
WHERE shard = :shard AND execution = :execution AND kind IN (SELECT w.key FROM json_each(:wanted) w)
ORDER BY seq;

-- name: asked_at
-- Whether a log has anything of some kinds, given as {kind: 1}, at an address or, with `within`, at one that begins so.
SELECT 1 AS one FROM events
WHERE shard = :shard AND execution = :execution AND kind IN (SELECT w.key FROM json_each(:wanted) w)
  AND (address = :address OR (:within = 1 AND SUBSTR(address, 1, LENGTH(CAST(:address AS TEXT))) = :address))
LIMIT 1;

-- name: events_page
-- A page of a log that is bounded in size as well as in number; the first event is always in it.
SELECT seq, kind, address, digest, data, at_ms FROM (
    SELECT e.*, SUM(LENGTH(data)) OVER (ORDER BY seq) - LENGTH(data) AS before FROM events e
    WHERE shard = :shard AND execution = :execution AND seq > :after
    ORDER BY seq LIMIT :limit
) page
WHERE before < :most ORDER BY seq;

-- name: execution_state
-- The state of one execution of a company.
SELECT state FROM executions WHERE shard = :shard AND id = :id AND company = :company;

-- name: execution_view
-- One execution of a company.
SELECT e.*, d.spec FROM executions e
JOIN definitions d ON d.company = e.company AND d.digest = e.definition
WHERE e.shard = :shard AND e.id = :id AND e.company = :company;

-- name: list_executions
-- A page of a company's executions, newest first. The page is cut before its tags are looked up.
SELECT p.*, l.tags FROM (
    SELECT e.shard, e.id, e.agent, e.state, e.reason, e.created_ms, e.updated_ms, e.finished_ms
    FROM executions e
    WHERE e.company = :company AND e.id < :before AND e.id > :above
      AND e.created_ms >= :since_ms AND e.created_ms < :until_ms
    ORDER BY e.id DESC LIMIT :limit
) p LEFT JOIN lineage l ON l.shard = p.shard AND l.execution = p.id
ORDER BY p.id DESC;

-- name: list_executions_in
-- Those of them in one state.
SELECT p.*, l.tags FROM (
    SELECT e.shard, e.id, e.agent, e.state, e.reason, e.created_ms, e.updated_ms, e.finished_ms
    FROM executions e
    WHERE e.company = :company AND e.state = :state AND e.id < :before AND e.id > :above
      AND e.created_ms >= :since_ms AND e.created_ms < :until_ms
    ORDER BY e.id DESC LIMIT :limit
) p LEFT JOIN lineage l ON l.shard = p.shard AND l.execution = p.id
ORDER BY p.id DESC;

-- name: list_executions_of
-- Those of one agent in one state.
SELECT p.*, l.tags FROM (
    SELECT e.shard, e.id, e.agent, e.state, e.reason, e.created_ms, e.updated_ms, e.finished_ms
    FROM executions e
    WHERE e.company = :company AND e.agent = :agent AND e.state = :state AND e.id < :before AND e.id > :above
      AND e.created_ms >= :since_ms AND e.created_ms < :until_ms
    ORDER BY e.id DESC LIMIT :limit
) p LEFT JOIN lineage l ON l.shard = p.shard AND l.execution = p.id
ORDER BY p.id DESC;

-- name: insert_inbox_key
-- Remember a message's dedupe key for the execution's life.
INSERT INTO inbox_keys (shard, execution, dedupe, seq) VALUES (:shard, :execution, :dedupe, :seq);

-- name: inbox_keys_used
-- Which of these dedupe keys were used before, and by which event; given as {execution: {key: shard}}.
SELECT k.execution, k.dedupe, k.seq FROM json_each(:wanted) w CROSS JOIN json_each(w.value) d
JOIN inbox_keys k ON k.shard = CAST(CAST(d.value AS TEXT) AS INTEGER) AND k.execution = w.key AND k.dedupe = d.key;
