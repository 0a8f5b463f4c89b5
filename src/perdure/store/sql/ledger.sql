-- name: chain_after
-- A page of a log as it is stored, bounded in size as well as in number; the first row is always in it.
SELECT seq, kind, address, digest, data, at_ms, hash FROM (
    SELECT e.*, SUM(LENGTH(data)) OVER (ORDER BY seq) - LENGTH(data) AS before FROM events e
    WHERE shard = :shard AND execution = :execution AND seq > :after
    ORDER BY seq LIMIT :limit
) page
WHERE before < :most ORDER BY seq;

-- name: evidence_after
-- What was said after an execution had ended.
SELECT seq, kind, address, '' AS digest, data, at_ms, hash FROM evidence
WHERE shard = :shard AND execution = :execution AND seq > :after ORDER BY seq LIMIT :limit;

-- name: list_effects
-- Acting tasks of a company, and what stood in for some in forks, of the newest executions first; empty filters match
-- all.
SELECT t.shard, t.execution, t.address, t.agent, t.state, t.attempt, t.worker, t.scheduled_seq
FROM executions e JOIN tasks t ON t.shard = e.shard AND t.execution = e.id
WHERE e.company = :company AND (t.delivery <> 'repeatable' OR t.tool LIKE :simulations) AND t.updated_ms >= :since_ms
  AND (:execution = '' OR e.id = :execution) AND t.scheduled_seq > :after AND (:address = '' OR t.address = :address)
  AND (:state = '' OR t.state = :state)
  AND (:tool = '' OR t.tool = :tool OR t.tool = :simulation)
  AND (:agent = '' OR t.agent = :agent)
  AND (:forks = 0 OR e.origin <> '')
  AND (:contradicted = 0 OR EXISTS (
      SELECT 1 FROM events v WHERE v.shard = t.shard AND v.execution = t.execution
        AND v.address = t.address AND v.kind = 'effect_contradicted'
  ) OR EXISTS (
      SELECT 1 FROM evidence d WHERE d.shard = t.shard AND d.execution = t.execution
        AND d.address = t.address AND d.kind = 'effect_contradicted'
  ))
ORDER BY e.id DESC, t.scheduled_seq LIMIT :limit;

-- name: task_events
-- What a log, from an event on, and the evidence behind it say of tasks, given as {address: 1}.
SELECT seq, kind, address, digest, data, at_ms FROM events
WHERE shard = :shard AND execution = :execution AND seq >= :first AND kind <> 'step_recorded'
  AND (kind = 'forked' OR address IN (SELECT w.key FROM json_each(:wanted) w))
UNION ALL
SELECT seq, kind, address, '' AS digest, data, at_ms FROM evidence
WHERE shard = :shard AND execution = :execution AND address IN (SELECT w.key FROM json_each(:wanted) w)
ORDER BY seq;
