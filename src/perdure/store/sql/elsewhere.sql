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
