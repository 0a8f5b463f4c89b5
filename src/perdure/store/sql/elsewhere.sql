-- name: heads_of
-- How far the logs of some executions go, given as {id: shard}.
SELECT e.id, e.next_seq FROM json_each(:wanted) w
JOIN executions e ON e.shard = CAST(CAST(w.value AS TEXT) AS INTEGER) AND e.id = w.key;

-- name: look
-- All that a look asks for, in one query: where the first and the last ready execution of some lanes stand, given as
-- {lane: 0}, or where companies take turns the time in half seconds; where the first and the last of the due tasks of some lanes stand, given as
-- {company: {queue: {agent: {tool: 0}}}}, with, of a queue that people said something of, when that was, and of one with a
-- limit, how much of it is taken. Where tasks of keys wait, what the queue was set is the time in half seconds instead: no
-- short look tells what became of them. The same of those of every company on some queues, given as {queue: 0}; and when the
-- next of each kind of thing is due.
SELECT 'ready' AS kind, w.key AS name, '' AS queue, '' AS agent, '' AS tool,
    (
        SELECT r.since_ms - r.ahead_ms FROM ready r WHERE r.lane = w.key ORDER BY r.company, r.since_ms - r.ahead_ms LIMIT 1
    ) AS first_ms, COALESCE((
        SELECT :now_ms - :now_ms % 500 FROM ready f
        WHERE f.lane = w.key AND f.company > (SELECT MIN(m.company) FROM ready m WHERE m.lane = w.key)
        ORDER BY f.company LIMIT 1
    ), (
        SELECT r.since_ms - r.ahead_ms FROM ready r WHERE r.lane = w.key
        ORDER BY r.company DESC, r.since_ms - r.ahead_ms DESC LIMIT 1
    )) AS last_ms,
    CAST(NULL AS BIGINT) AS changed_ms, 0 AS held
FROM json_each(:lanes) w
UNION ALL
SELECT 'tasks', c.key, q.key, a.key, l.key,
    COALESCE((
        SELECT MIN(t.run_at_ms - t.ahead_ms) FROM tasks t
        WHERE t.company = c.key AND t.queue = q.key AND t.agent = a.key AND t.tool = l.key AND t.limit_key = ''
          AND t.state = 'ready' AND t.run_at_ms - t.ahead_ms <= :now_ms AND t.run_at_ms <= :now_ms
    ), (
        SELECT 0 FROM tasks k WHERE k.company = c.key AND k.queue = q.key AND k.agent = a.key AND k.tool = l.key
          AND k.limit_key > '' AND k.state = 'ready' ORDER BY k.limit_key LIMIT 1
    )), (
        SELECT MAX(t.run_at_ms - t.ahead_ms) FROM tasks t
        WHERE t.company = c.key AND t.queue = q.key AND t.agent = a.key AND t.tool = l.key AND t.limit_key = ''
          AND t.state = 'ready' AND t.run_at_ms - t.ahead_ms <= :now_ms AND t.run_at_ms <= :now_ms
    ), COALESCE((
        SELECT :now_ms - :now_ms % 500 FROM tasks k WHERE k.company = c.key AND k.queue = q.key AND k.agent = a.key
          AND k.tool = l.key AND k.limit_key > '' AND k.state = 'ready' ORDER BY k.limit_key LIMIT 1
    ), (SELECT s.changed_ms FROM queues s WHERE s.company = c.key AND s.name = q.key)),
    (SELECT COUNT(*) FROM queues s JOIN tasks h ON h.company = s.company AND h.queue = s.name
        AND h.state IN ('leased', 'begun')
        WHERE s.company = c.key AND s.name = q.key AND s.concurrency IS NOT NULL)
FROM json_each(:tasks) c CROSS JOIN json_each(c.value) q CROSS JOIN json_each(q.value) a CROSS JOIN json_each(a.value) l
UNION ALL
SELECT 'served', o.key, '', '', '', MIN(t.run_at_ms), MAX(t.run_at_ms), NULL, 0
FROM json_each(:served) o CROSS JOIN (SELECT id FROM companies UNION SELECT CAST(:own AS TEXT)) c
JOIN tasks t ON t.company = c.id AND t.queue = o.key AND t.state = 'ready' AND t.run_at_ms <= :now_ms
GROUP BY o.key
UNION ALL
SELECT 'due', 'timer_ms', '', '', '', (SELECT MIN(due_ms) FROM timers), NULL, NULL, 0
UNION ALL
SELECT 'due', 'task_ms', '', '', '', (SELECT MIN(lease_until_ms) FROM tasks WHERE state IN ('leased', 'begun')), NULL, NULL, 0
UNION ALL
SELECT 'due', 'owned_ms', '', '', '', (SELECT MIN(lease_until_ms) FROM owned), NULL, NULL, 0
UNION ALL
SELECT 'due', 'schedule_ms', '', '', '', (SELECT MIN(next_ms) FROM schedules WHERE paused = 0), NULL, NULL, 0
UNION ALL
SELECT 'due', 'start_ms', '', '', '', (SELECT MIN(due_ms) FROM deadlines WHERE kind = 'start'), NULL, NULL, 0
UNION ALL
SELECT 'due', 'token_ms', '', '', '', (SELECT MIN(due_ms) FROM deadlines WHERE kind = 'token'), NULL, NULL, 0
UNION ALL
SELECT 'due', 'approval_ms', '', '', '', (SELECT MIN(due_ms) FROM deadlines WHERE kind = 'approval'), NULL, NULL, 0
UNION ALL
SELECT 'due', 'escalation_ms', '', '', '', (SELECT MIN(due_ms) FROM deadlines WHERE kind = 'escalation'), NULL, NULL, 0
UNION ALL
SELECT 'due', 'children_ms', '', '', '', (SELECT MIN(due_ms) FROM deadlines WHERE kind = 'children'), NULL, NULL, 0
UNION ALL
SELECT 'due', 'tries_ms', '', '', '', (SELECT MIN(due_ms) FROM deadlines WHERE kind = 'tries'), NULL, NULL, 0
UNION ALL
SELECT 'due', 'rule_ms', '', '', '', (SELECT MIN(due_ms) FROM deadlines WHERE kind = 'rule'), NULL, NULL, 0;

-- name: keep_worker
-- Say that a worker is connected to a server.
INSERT INTO workers (company, worker, server, info, seen_ms) VALUES (:company, :worker, :server, :info, :now_ms)
ON CONFLICT (company, worker) DO UPDATE SET server = excluded.server, info = excluded.info, seen_ms = excluded.seen_ms;

-- name: touch_workers
-- Say that workers of a server, given as {company: {worker: 0}}, are still connected to it.
UPDATE workers SET seen_ms = :now_ms WHERE server = :server AND EXISTS (
    SELECT 1 FROM json_each(:wanted) c CROSS JOIN json_each(c.value) w
    WHERE c.key = workers.company AND w.key = workers.worker
);

-- name: forget_worker
-- Say that it is not any more, unless it went to another server.
DELETE FROM workers WHERE company = :company AND worker = :worker AND server = :server;

-- name: forget_workers
-- Drop those whose server has said nothing for long.
DELETE FROM workers WHERE seen_ms < :before_ms;

-- name: workers_seen
-- A company's workers, wherever they are connected.
SELECT info FROM workers WHERE company = :company AND seen_ms >= :since_ms ORDER BY worker;

-- name: end_stalled
-- End the sessions of processes like this one that have lain in that state for longer; of a file nobody has any.
SELECT :wanted AS session WHERE :idle_ms < 0 AND 1 = 0;

-- name: executions_named
-- Some executions of a company as a list shows them, given as {id: shard}. Found by their ids, and not by their company.
SELECT e.id, e.agent, e.state, e.reason, e.created_ms, e.updated_ms, e.finished_ms, l.tags FROM json_each(:wanted) w
JOIN executions e ON e.shard = CAST(CAST(w.value AS TEXT) AS INTEGER) AND e.id = w.key
LEFT JOIN lineage l ON l.shard = e.shard AND l.execution = e.id
WHERE e.company || '' = :company;

-- name: open_approvals
-- How many decisions a company's executions wait for, and when the newest was asked for.
SELECT COUNT(*) AS n, MAX(opened_ms) AS newest_ms FROM waitpoints
WHERE company = :company AND state = 'open' AND kind = 'approval';
