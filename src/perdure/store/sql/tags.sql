-- name: insert_tags
-- Remember what an execution was tagged with, if it comes from nowhere.
INSERT INTO lineage (shard, execution, tags) VALUES (:shard, :execution, :tags);

-- name: insert_tagged
-- Have an execution found by one of its tags.
INSERT INTO tagged (shard, execution, tag, company, agent, ended)
VALUES (:shard, :execution, :tag, :company, :agent, :ended);

-- name: end_tagged
-- Say how a tagged execution ended.
UPDATE tagged SET ended = :ended WHERE shard = :shard AND execution = :execution;

-- name: list_tagged
-- A page of a company's executions with a tag, newest first: those that ended in one way, or those that go on, of which
-- all or those in one state.
SELECT p.*, l.tags FROM (
    SELECT e.shard, e.id, e.agent, e.state, e.reason, e.created_ms, e.updated_ms, e.finished_ms
    FROM tagged t JOIN executions e ON e.shard = t.shard AND e.id = t.execution
    WHERE t.company = :company AND t.tag = :tag AND t.ended = :ended AND t.execution < :before AND t.execution > :above
      AND e.created_ms >= :since_ms AND e.created_ms < :until_ms AND (:state = '' OR e.state = :state)
    ORDER BY t.execution DESC LIMIT :limit
) p JOIN lineage l ON l.shard = p.shard AND l.execution = p.id
ORDER BY p.id DESC;

-- name: list_tagged_of
-- Those of one agent.
SELECT p.*, l.tags FROM (
    SELECT e.shard, e.id, e.agent, e.state, e.reason, e.created_ms, e.updated_ms, e.finished_ms
    FROM tagged t JOIN executions e ON e.shard = t.shard AND e.id = t.execution
    WHERE t.company = :company AND t.tag = :tag AND t.agent = :agent AND t.ended = :ended
      AND t.execution < :before AND t.execution > :above
      AND e.created_ms >= :since_ms AND e.created_ms < :until_ms AND (:state = '' OR e.state = :state)
    ORDER BY t.execution DESC LIMIT :limit
) p JOIN lineage l ON l.shard = p.shard AND l.execution = p.id
ORDER BY p.id DESC;

-- name: list_tagged_among
-- Those with a tag among all of a state, when these are few. CROSS: SQLite keeps the order of the tables.
SELECT p.*, l.tags FROM (
    SELECT e.shard, e.id, e.agent, e.state, e.reason, e.created_ms, e.updated_ms, e.finished_ms
    FROM executions e CROSS JOIN tagged t
    WHERE e.company = :company AND e.state = :state AND e.id < :before AND e.id > :above
      AND e.created_ms >= :since_ms AND e.created_ms < :until_ms AND (:agent = '' OR e.agent = :agent)
      AND t.shard = e.shard AND t.execution = e.id AND t.tag = :tag
    ORDER BY e.id DESC LIMIT :limit
) p JOIN lineage l ON l.shard = p.shard AND l.execution = p.id
ORDER BY p.id DESC;

-- name: some_in_state
-- How many executions of a state there are behind a place in the list, counted up to a limit.
SELECT COUNT(*) AS n FROM (
    SELECT e.id FROM executions e
    WHERE e.company = :company AND e.state = :state AND e.id < :before AND e.id > :above LIMIT :most
) AS few;

-- name: some_of_agent
-- The same, of those of one agent.
SELECT COUNT(*) AS n FROM (
    SELECT e.id FROM executions e
    WHERE e.company = :company AND e.agent = :agent AND e.state = :state AND e.id < :before AND e.id > :above LIMIT :most
) AS few;
