-- name: first_events
-- What some executions began with, given as {id: shard}: the beginning of it.
SELECT e.execution, SUBSTR(e.data, 1, CAST(:most AS INTEGER)) AS data FROM json_each(:wanted) w
JOIN events e ON e.shard = CAST(CAST(w.value AS TEXT) AS INTEGER) AND e.execution = w.key AND e.seq = 1;

-- name: begun_lately
-- How many executions were begun in each part of a time, by how they stand; the newest of them, up to a limit.
SELECT (r.created_ms - :from_ms) / :part_ms AS part, r.state, COUNT(*) AS n, MIN(r.created_ms) AS first_ms FROM (
    SELECT e.created_ms, e.state FROM executions e
    WHERE e.company = :company AND e.id > :above ORDER BY e.id DESC LIMIT :most
) r
WHERE r.created_ms >= :from_ms GROUP BY 1, 2;

-- name: held_by_workers
-- How many tasks each worker of a company has leased or begun. Steps that no queue has are none.
SELECT worker, COUNT(*) AS held FROM tasks
WHERE company = :company AND state IN ('leased', 'begun') AND worker IS NOT NULL AND queue <> ''
GROUP BY worker ORDER BY worker;

-- name: agents_after
-- A company's agents and durable functions behind a name, each with its newest definition and how many it has had, counted
-- up to a limit. Goes from name to name, however many definitions each has. CROSS: SQLite keeps the order of the tables.
WITH RECURSIVE named (agent) AS (
    SELECT (SELECT MIN(d.agent) FROM definitions d WHERE d.company = :company AND d.agent > :after)
    UNION ALL
    SELECT (SELECT MIN(d.agent) FROM definitions d WHERE d.company = :company AND d.agent > n.agent)
    FROM named n WHERE n.agent IS NOT NULL
)
SELECT p.agent, p.versions, d.digest, d.spec, d.created_ms FROM (
    SELECT n.agent, (
        SELECT COUNT(*) FROM (
            SELECT c.digest FROM definitions c WHERE c.company = :company AND c.agent = n.agent LIMIT :most
        ) few
    ) AS versions, (
        SELECT c.digest FROM definitions c WHERE c.company = :company AND c.agent = n.agent
        ORDER BY c.created_ms DESC, c.digest DESC LIMIT 1
    ) AS digest
    FROM named n WHERE n.agent IS NOT NULL LIMIT :limit
) p CROSS JOIN definitions d
WHERE d.company = :company AND d.digest = p.digest ORDER BY p.agent;

-- name: definitions_of
-- A page of what an agent has been, the newest first.
SELECT d.digest, d.spec, d.created_ms FROM definitions d
WHERE d.company = :company AND d.agent = :agent AND (d.created_ms, d.digest) < (:before_ms, :before_digest)
ORDER BY d.created_ms DESC, d.digest DESC LIMIT :limit;
