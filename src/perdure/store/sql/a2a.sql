-- name: put_a2a_agent
-- Let an agent be reached, or say anew what begins with a message for it.
INSERT INTO a2a_agents (company, agent, definition, description, published_by, published_ms)
VALUES (:company, :agent, :definition, :description, :published_by, :now_ms)
ON CONFLICT (company, agent) DO UPDATE SET
    definition = excluded.definition, description = excluded.description, published_by = excluded.published_by,
    published_ms = excluded.published_ms;

-- name: delete_a2a_agent
-- Let an agent be reached no more.
DELETE FROM a2a_agents WHERE company = :company AND agent = :agent;

-- name: a2a_agents
-- A company's agents that are reached, by name.
SELECT agent, definition, description, published_by, published_ms FROM a2a_agents
WHERE company = :company ORDER BY agent;

-- name: a2a_agent
-- One of them.
SELECT agent, definition, description, published_by, published_ms FROM a2a_agents
WHERE company = :company AND agent = :agent;

-- name: a2a_message
-- What a message came to, if it was taken before.
SELECT execution, digest FROM a2a_messages WHERE company = :company AND agent = :agent AND message = :message;

-- name: insert_a2a_message
-- Take a message, if nobody has.
INSERT INTO a2a_messages (company, agent, message, shard, execution, digest)
VALUES (:company, :agent, :message, :shard, :execution, :digest)
ON CONFLICT (company, agent, message) DO NOTHING;

-- name: delete_a2a_message
-- Refuse a message after all.
DELETE FROM a2a_messages WHERE company = :company AND agent = :agent AND message = :message;

-- name: insert_a2a_task
-- Say what began an execution.
INSERT INTO a2a_tasks (shard, execution, company, agent, context, message)
VALUES (:shard, :execution, :company, :agent, :context, :message);

-- name: a2a_task
-- One task of an agent, and how far its log goes.
SELECT t.context, t.message, e.next_seq, e.updated_ms, e.state
FROM a2a_tasks t JOIN executions e ON e.shard = t.shard AND e.id = t.execution
WHERE t.shard = :shard AND t.execution = :execution AND t.company = :company AND t.agent = :agent;

-- name: a2a_tasks
-- A page of an agent's tasks, those that changed last first. ended: how; going_on: 1 for those that have not.
SELECT t.execution, t.shard, t.context, t.message, e.next_seq, e.updated_ms
FROM a2a_tasks t JOIN executions e ON e.shard = t.shard AND e.id = t.execution
WHERE t.company = :company AND t.agent = :agent
  AND (CAST(:context AS TEXT) = '' OR t.context = :context)
  AND (CAST(:ended AS TEXT) = '' OR e.state = :ended)
  AND (CAST(:going_on AS INTEGER) = 0 OR e.finished_ms IS NULL)
  AND e.updated_ms >= :since_ms
  AND (e.updated_ms < :before_ms OR (e.updated_ms = :before_ms AND t.execution < :before))
ORDER BY e.updated_ms DESC, t.execution DESC LIMIT :limit;

-- name: count_a2a_tasks
-- How many there are of them.
SELECT COUNT(*) AS n
FROM a2a_tasks t JOIN executions e ON e.shard = t.shard AND e.id = t.execution
WHERE t.company = :company AND t.agent = :agent
  AND (CAST(:context AS TEXT) = '' OR t.context = :context)
  AND (CAST(:ended AS TEXT) = '' OR e.state = :ended)
  AND (CAST(:going_on AS INTEGER) = 0 OR e.finished_ms IS NULL)
  AND e.updated_ms >= :since_ms;

-- name: forget_a2a_tasks
-- What began it.
DELETE FROM a2a_tasks WHERE shard = :shard AND execution = :execution;

-- name: forget_a2a_messages
-- The messages that came for it: they may come again.
DELETE FROM a2a_messages WHERE shard = :shard AND execution = :execution;
