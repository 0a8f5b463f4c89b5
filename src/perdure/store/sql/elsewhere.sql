-- name: heads_of
-- How far the logs of some executions go, given as {id: shard}.
SELECT e.id, e.next_seq FROM json_each(:wanted) w
JOIN executions e ON e.shard = CAST(CAST(w.value AS TEXT) AS INTEGER) AND e.id = w.key;

-- name: newest_ready
-- Since when the newest ready execution of some lanes is ready, given as {lane: 0}.
SELECT w.key AS lane, (SELECT MAX(r.since_ms) FROM ready r WHERE r.lane = w.key) AS since_ms
FROM json_each(:wanted) w;

-- name: ready_tasks_of
-- When the first and the last of the ready tasks of some lanes became due, given as {company: {queue: {agent: {tool: 0}}}}.
SELECT c.key AS company, q.key AS queue,
    (SELECT MIN(t.run_at_ms) FROM tasks t WHERE t.company = c.key AND t.queue = q.key AND t.agent = a.key
        AND t.tool = l.key AND t.state = 'ready' AND t.run_at_ms <= :now_ms) AS first_ms,
    (SELECT MAX(t.run_at_ms) FROM tasks t WHERE t.company = c.key AND t.queue = q.key AND t.agent = a.key
        AND t.tool = l.key AND t.state = 'ready' AND t.run_at_ms <= :now_ms) AS last_ms,
    a.key AS agent, l.key AS tool
FROM json_each(:wanted) c CROSS JOIN json_each(c.value) q CROSS JOIN json_each(q.value) a CROSS JOIN json_each(a.value) l;

-- name: keep_worker
-- Say that a worker is connected to a server.
INSERT INTO workers (company, worker, server, info, seen_ms) VALUES (:company, :worker, :server, :info, :now_ms)
ON CONFLICT (company, worker) DO UPDATE SET server = excluded.server, info = excluded.info, seen_ms = excluded.seen_ms;

-- name: forget_worker
-- Say that it is not any more, unless it went to another server.
DELETE FROM workers WHERE company = :company AND worker = :worker AND server = :server;

-- name: forget_workers
-- Drop those whose server has said nothing for long.
DELETE FROM workers WHERE seen_ms < :before_ms;

-- name: workers_seen
-- A company's workers, wherever they are connected.
SELECT info FROM workers WHERE company = :company AND seen_ms >= :since_ms ORDER BY worker;
