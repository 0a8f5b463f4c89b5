-- name: insert_task
-- Put a tool call on its queue.
INSERT INTO tasks (
    shard, execution, address, company, agent, tool, queue, state, delivery, fence, attempt, max_attempts, pause_ms,
    timeout_ms, scheduled_seq, approval, run_at_ms, ahead_ms, claims, lease_ms, updated_ms, rules,
    digest, intent, limit_key
) VALUES (
    :shard, :execution, :address, :company, :agent, :tool, :queue, :state, :delivery, 0, 0, :max_attempts, :pause_ms,
    :timeout_ms, :scheduled_seq, :approval, :now_ms, :ahead_ms, 0, 0, :now_ms, :rules,
    :digest, :intent, :limit_key
);

-- name: task
-- One task.
SELECT * FROM tasks WHERE shard = :shard AND execution = :execution AND address = :address;

-- name: tasks_named
-- Many tasks, given as {execution: {address: shard}}.
SELECT t.* FROM json_each(:wanted) w CROSS JOIN json_each(w.value) a
JOIN tasks t ON t.shard = CAST(CAST(a.value AS TEXT) AS INTEGER) AND t.execution = w.key AND t.address = a.key;

-- name: ready_tasks
-- Candidates of one lane and key, the most urgent first and of those the longest due, with what their scheduling said. One
-- whose twin, by its arguments, may have acted unknown to anybody is held; so is one whose twin by intent is under way. A
-- paused queue has none. What is not due yet ends the search, unless it is urgent. `onward`: a task of the next key that has
-- any in this lane, whether or not it may be given. What else is known of a task is looked up for each by itself: joined, a
-- database might read the whole backlog first.
SELECT * FROM (
    SELECT t.*, (
        SELECT v.data FROM events v WHERE v.shard = t.shard AND v.execution = t.execution AND v.seq = t.scheduled_seq
    ) AS data, COALESCE((
        SELECT 1 FROM queues q WHERE q.company = :company AND q.name = :queue
          AND (q.concurrency IS NOT NULL OR q.rate IS NOT NULL OR q.per_key IS NOT NULL)
    ), 0) AS queue_limited, 0 AS onward
    FROM tasks t
    WHERE t.company = :company AND t.queue = :queue AND t.agent = :agent AND t.tool = :tool AND t.limit_key = :limit_key
      AND t.state = 'ready' AND t.run_at_ms - t.ahead_ms <= :now_ms AND t.run_at_ms <= :now_ms
      AND (SELECT e.state FROM executions e WHERE e.shard = t.shard AND e.id = t.execution) NOT IN ('paused', 'stuck')
      AND NOT EXISTS (SELECT 1 FROM queues p WHERE p.company = :company AND p.name = :queue AND p.paused = 1)
      AND NOT EXISTS (
        SELECT 1 FROM tasks u
        WHERE u.execution = t.execution AND u.doubt = 1 AND u.tool = t.tool AND u.digest = t.digest
          AND u.digest <> '' AND u.address <> t.address AND t.delivery <> 'repeatable'
          AND (u.state = 'uncertain' OR u.scheduled_seq < t.scheduled_seq)
      ) AND NOT EXISTS (
        SELECT 1 FROM tasks i
        WHERE i.execution = t.execution AND i.tool = t.tool AND i.intent = t.intent AND i.intent IS NOT NULL
          AND i.address <> t.address
          AND (i.state IN ('leased', 'begun', 'uncertain') OR (i.state = 'ready' AND i.scheduled_seq < t.scheduled_seq))
      )
    ORDER BY t.run_at_ms - t.ahead_ms LIMIT :limit
) given
UNION ALL
SELECT * FROM (
    SELECT t.*, '' AS data, 0 AS queue_limited, 1 AS onward FROM tasks t
    WHERE t.company = :company AND t.queue = :queue AND t.agent = :agent AND t.tool = :tool AND t.limit_key > :limit_key
      AND t.state = 'ready'
    ORDER BY t.limit_key LIMIT 1
) next_key;

-- name: most_urgent
-- How far ahead the firsts without a key of some lanes of a company stand at most, given as {queue: {agent: {tool: 0}}}.
SELECT MAX(first.ahead_ms) AS ahead_ms FROM (
    SELECT (
        SELECT t.ahead_ms FROM tasks t
        WHERE t.company = :company AND t.queue = q.key AND t.agent = a.key AND t.tool = l.key AND t.limit_key = ''
          AND t.state = 'ready' AND t.run_at_ms - t.ahead_ms <= :now_ms
        ORDER BY t.run_at_ms - t.ahead_ms LIMIT 1
    ) AS ahead_ms
    FROM json_each(:lanes) q CROSS JOIN json_each(q.value) a CROSS JOIN json_each(a.value) l
) first;

-- name: tasks_of_nonce
-- What a worker was given in answer to one request, should it ask again.
SELECT t.*, v.data, t.limited AS queue_limited FROM tasks t
JOIN events v ON v.shard = t.shard AND v.execution = t.execution AND v.seq = t.scheduled_seq
WHERE t.worker = :worker AND t.company = :company AND t.state IN ('leased', 'begun') AND t.state = 'leased'
  AND t.nonce = :nonce
ORDER BY t.run_at_ms - t.ahead_ms, t.execution, t.scheduled_seq;

-- name: lease_task
-- Reserve a task that is still free; the same reservation again changes nothing but its end.
UPDATE tasks SET
    state = 'leased', fence = fence + :raised, attempt = attempt + :raised,
    worker = :worker, nonce = :nonce, started_ms = :now_ms, first_ms = COALESCE(first_ms, :now_ms),
    lease_ms = :lease_ms, lease_until_ms = :lease_until_ms, updated_ms = :now_ms, limited = :limited
WHERE shard = :shard AND execution = :execution AND address = :address AND fence = :fence AND state = :state
RETURNING fence, attempt;

-- name: begin_task
-- Make the claim of an at_most_once task.
UPDATE tasks SET
    state = 'begun', begin_nonce = :begin_nonce, claims = claims + 1, started_ms = :now_ms, begun_ms = :now_ms,
    lease_until_ms = :now_ms + lease_ms, updated_ms = :now_ms
WHERE shard = :shard AND execution = :execution AND address = :address;

-- name: claim_inline
-- The holder of an execution claims a step that it runs itself. No lease: it ends with that of the execution.
UPDATE tasks SET
    state = 'begun', fence = fence + 1, attempt = attempt + 1, claims = claims + 1, worker = :worker, nonce = :nonce,
    begin_nonce = :nonce, started_ms = :now_ms, first_ms = COALESCE(first_ms, :now_ms), begun_ms = :now_ms,
    lease_ms = :lease_ms, lease_until_ms = NULL, updated_ms = :now_ms
WHERE shard = :shard AND execution = :execution AND address = :address;

-- name: prolong_task
-- A heartbeat, if the fence still holds. Of an uncertain task too: whoever still acts keeps others from saying that it
-- did not.
UPDATE tasks SET
    lease_until_ms = :now_ms + lease_ms,
    progress = COALESCE(CAST(:progress AS TEXT), progress), saved = COALESCE(CAST(:saved AS TEXT), saved)
WHERE shard = :shard AND execution = :execution AND address = :address
  AND fence = :fence AND company = :company AND worker = :worker AND state IN ('leased', 'begun', 'uncertain')
RETURNING scheduled_seq, probe_of, (
    SELECT e.state FROM executions e WHERE e.shard = tasks.shard AND e.id = tasks.execution
) AS execution_state, (
    SELECT e.cancel_seq FROM executions e WHERE e.shard = tasks.shard AND e.id = tasks.execution
) AS cancel_seq;

-- name: set_task
-- Move a task to another state.
UPDATE tasks SET
    state = :state, run_at_ms = :run_at_ms, worker = :worker, attempt = :attempt, doubt = :doubt, updated_ms = :now_ms
WHERE shard = :shard AND execution = :execution AND address = :address;

-- name: save_task
-- Keep what a body saved, for its next attempt.
UPDATE tasks SET saved = :saved WHERE shard = :shard AND execution = :execution AND address = :address;

-- name: revive_task
-- Give a dead task tries anew: whoever held it is shut out.
UPDATE tasks SET fence = fence + 1, max_attempts = :max_attempts, rules = :rules
WHERE shard = :shard AND execution = :execution AND address = :address;

-- name: task_scheduling
-- What was said of a task when it was scheduled.
SELECT data FROM events WHERE shard = :shard AND execution = :execution AND seq = :seq;

-- name: open_claim
-- Let a task be tried once more: whoever held it is shut out, and its key is taken to be new.
UPDATE tasks SET fence = fence + 1, max_attempts = max_attempts + 1, first_ms = NULL
WHERE shard = :shard AND execution = :execution AND address = :address;

-- name: end_lease
-- Its holder said that it is through: it beats no more.
UPDATE tasks SET lease_until_ms = :now_ms WHERE shard = :shard AND execution = :execution AND address = :address;

-- name: keep_holder
-- A lease ran out: until somebody else is given the task, a late report of its holder counts.
UPDATE tasks SET worker = :worker WHERE shard = :shard AND execution = :execution AND address = :address;

-- name: set_intent
-- What its worker found the act to be, in its author's terms.
UPDATE tasks SET intent = :intent WHERE shard = :shard AND execution = :execution AND address = :address;

-- name: twins_by_intent
-- Other calls of the same tool that are the same act, the first first.
SELECT * FROM tasks
WHERE execution = :execution AND tool = :tool AND intent = :intent AND address <> :address
ORDER BY scheduled_seq;

-- name: twin_in_doubt
-- An equal call that may have acted, unknown to anybody, and that goes first.
SELECT address FROM tasks
WHERE execution = :execution AND doubt = 1 AND tool = :tool AND digest = :digest AND digest <> ''
  AND address <> :address AND (state = 'uncertain' OR scheduled_seq < :scheduled_seq)
LIMIT 1;

-- name: twins_held
-- Equal calls on their queue, scheduled after `after`.
SELECT * FROM tasks
WHERE shard = :shard AND execution = :execution AND tool = :tool AND digest = :digest AND digest <> ''
  AND address <> :address AND state = 'ready' AND delivery <> 'repeatable' AND scheduled_seq > :after
ORDER BY scheduled_seq;

-- name: insert_probe
-- Have it found out what became of an uncertain task; once more if that was tried before.
INSERT INTO tasks (
    shard, execution, address, company, agent, tool, queue, state, delivery, fence, attempt, max_attempts, pause_ms,
    timeout_ms, scheduled_seq, run_at_ms, ahead_ms, limit_key, claims, lease_ms, updated_ms,
    probe_of
) VALUES (
    :shard, :execution, :address, :company, :agent, :tool, :queue, 'ready', 'repeatable', 0, 0, :max_attempts,
    :pause_ms, :timeout_ms, :scheduled_seq, :run_at_ms, :ahead_ms, :limit_key, 0, 0, :now_ms,
    :probe_of
) ON CONFLICT (shard, execution, address) DO UPDATE SET
    state = 'ready', attempt = 0, run_at_ms = :run_at_ms, worker = NULL, first_ms = NULL, updated_ms = :now_ms;

-- name: drop_probe
-- It is known, or nobody wants to know: do not find out.
UPDATE tasks SET state = 'dead', updated_ms = :now_ms
WHERE shard = :shard AND execution = :execution AND state = 'ready' AND probe_of = :address;

-- name: told_at
-- What an execution's log, and what came after its end, say of one address.
SELECT seq, kind, address, data FROM events
WHERE shard = :shard AND execution = :execution AND address = :address
UNION ALL
SELECT seq, kind, address, data FROM evidence
WHERE shard = :shard AND execution = :execution AND address = :address
ORDER BY seq;

-- name: kill_ready_tasks
-- End the tasks of an execution that nobody was given yet.
UPDATE tasks SET state = 'dead', doubt = 0, updated_ms = :now_ms
WHERE shard = :shard AND execution = :execution AND state = 'ready' AND probe_of IS NULL;

-- name: held_task
-- Any task of an execution that a worker holds and that its end has to wait for.
SELECT address FROM tasks
WHERE shard = :shard AND execution = :execution AND state IN ('leased', 'begun') AND lease_until_ms IS NOT NULL
  AND probe_of IS NULL LIMIT 1;

-- name: inline_claims
-- Claims of steps that the holder of an execution runs itself, of which nobody reported the end.
SELECT * FROM tasks
WHERE shard = :shard AND execution = :execution AND state = 'begun' AND lease_until_ms IS NULL AND probe_of IS NULL
ORDER BY scheduled_seq;

-- name: shrink_leases
-- Cut a silent worker's leases short.
UPDATE tasks SET lease_until_ms = :until_ms
WHERE worker = :worker AND company = :company AND state IN ('leased', 'begun') AND lease_until_ms > :until_ms;

-- name: tasks_expired
-- Held tasks whose lease ran out.
SELECT shard, execution, address, fence FROM tasks
WHERE state IN ('leased', 'begun') AND lease_until_ms < :now_ms ORDER BY lease_until_ms LIMIT :limit;

-- name: tasks_held_by_prefix
-- Held tasks of workers of one kind: read when the owner of a file changes.
SELECT shard, execution, address, fence FROM tasks
WHERE state IN ('leased', 'begun') AND worker LIKE :prefix;

-- name: holders
-- Workers that hold tasks, or executions: asked when a server begins, about those that may have died before.
SELECT company, worker FROM tasks WHERE state IN ('leased', 'begun')
UNION SELECT company, holder FROM owned WHERE company <> '';

-- name: tasks_page
-- Tool calls of an execution asked for behind an event, in that order, with what was asked. A probe is none: the event
-- that it goes by is not one that asks.
SELECT t.*, v.data, v.at_ms FROM tasks t
JOIN events v ON v.shard = t.shard AND v.execution = t.execution AND v.seq = t.scheduled_seq
WHERE t.shard = :shard AND t.execution = :execution AND t.scheduled_seq > :after
  AND v.kind = 'task_scheduled' AND v.address = t.address AND (:address = '' OR t.address = :address)
ORDER BY t.scheduled_seq LIMIT :limit;

-- name: ends_of_tasks
-- What a log says behind an event of the ends of tasks, given as {address: 1}.
SELECT seq, kind, address, digest, data, at_ms FROM events
WHERE shard = :shard AND execution = :execution AND seq > :after
  AND kind IN ('task_completed', 'task_failed', 'task_uncertain', 'effect_ruled', 'task_revived')
  AND address IN (SELECT w.key FROM json_each(:wanted) w)
ORDER BY seq;

-- name: open_tasks_of
-- Those tasks of an execution that are not over, or in doubt, in the order they were scheduled.
SELECT * FROM tasks
WHERE shard = :shard AND execution = :execution AND (state NOT IN ('done', 'dead') OR doubt = 1)
ORDER BY scheduled_seq;

-- name: dead_tasks_of
-- Those that failed for good, the last ones first.
SELECT * FROM tasks WHERE shard = :shard AND execution = :execution AND state = 'dead'
ORDER BY scheduled_seq DESC LIMIT :limit;

-- name: tasks_of
-- All tasks of an execution, in the order they were scheduled.
SELECT * FROM tasks WHERE shard = :shard AND execution = :execution ORDER BY scheduled_seq;

-- name: claimed_tasks
-- Tasks that ever made a claim; empty filters match all.
SELECT * FROM tasks
WHERE company = :company AND claims > 0
  AND (:execution = '' OR execution = :execution)
  AND (:state = '' OR state = :state)
ORDER BY updated_ms DESC LIMIT :limit;

-- name: next_due_task
-- When the next delayed task of a queue is due.
SELECT MIN(run_at_ms) AS due_ms FROM tasks
WHERE company = :company AND queue = :queue AND state = 'ready' AND run_at_ms > :now_ms;

-- name: server_lanes
-- Which tools of which agents have tasks on a queue whose takers are told so: the first of each company, then the second of
-- each, and so on. Goes from lane to lane, however many tasks each has.
WITH RECURSIVE lanes (company, agent, tool, place) AS (
    SELECT c.id, (
        SELECT t.agent FROM tasks t WHERE t.company = c.id AND t.queue = :queue AND t.state = 'ready'
        ORDER BY t.agent, t.tool LIMIT 1
    ), (
        SELECT t.tool FROM tasks t WHERE t.company = c.id AND t.queue = :queue AND t.state = 'ready'
        ORDER BY t.agent, t.tool LIMIT 1
    ), 1 FROM (SELECT id FROM companies UNION SELECT CAST(:own AS TEXT)) c
    UNION ALL
    SELECT l.company, (
        SELECT t.agent FROM tasks t WHERE t.company = l.company AND t.queue = :queue AND t.state = 'ready'
          AND (t.agent, t.tool) > (l.agent, l.tool)
        ORDER BY t.agent, t.tool LIMIT 1
    ), (
        SELECT t.tool FROM tasks t WHERE t.company = l.company AND t.queue = :queue AND t.state = 'ready'
          AND (t.agent, t.tool) > (l.agent, l.tool)
        ORDER BY t.agent, t.tool LIMIT 1
    ), l.place + 1 FROM lanes l WHERE l.agent IS NOT NULL
)
SELECT l.company, l.agent, l.tool FROM lanes l
WHERE l.agent IS NOT NULL AND (
    SELECT e.shard FROM tasks t JOIN executions e ON e.shard = t.shard AND e.id = t.execution
    WHERE t.company = l.company AND t.queue = :queue AND t.agent = l.agent AND t.tool = l.tool AND t.state = 'ready'
      AND e.state NOT IN ('paused', 'stuck')
    LIMIT 1
) IS NOT NULL
ORDER BY l.place, l.company LIMIT :limit;

-- name: company_of
-- Whose an execution is, for the servers themselves, which serve them all.
SELECT company FROM executions WHERE shard = :shard AND id = :execution;
