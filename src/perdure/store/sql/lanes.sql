-- name: ready_in_lane
-- Candidates of one durable function, the most urgent first and of those the longest ready: of the log formats that the
-- claimer reads, and begun by its build or by none yet, and not just woken for another worker that has its live coroutine.
SELECT r.shard, r.execution, r.abandoned, (
    SELECT e.fence FROM executions e WHERE e.shard = r.shard AND e.id = r.execution
) AS fence FROM ready r
WHERE r.lane = :lane AND r.company = :company AND (
    SELECT e.shard FROM executions e
    WHERE e.shard = r.shard AND e.id = r.execution AND e.log_format BETWEEN :oldest AND :newest
      AND (e.build = '' OR e.build = :build)
) IS NOT NULL AND (r.kept_by = '' OR r.kept_by = :holder OR r.since_ms <= :left_before_ms)
ORDER BY r.since_ms - r.ahead_ms LIMIT :limit;

-- name: owned_of_nonce
-- What a worker was given in answer to one request, should it ask again.
SELECT shard, execution FROM owned WHERE holder = :holder AND company = :company AND nonce = :nonce ORDER BY since_ms;

-- name: renew_execution
-- Prolong one ownership, if the fence still holds, and keep where its code waits.
UPDATE owned SET lease_until_ms = :lease_until_ms, outside = :outside
WHERE shard = :shard AND execution = :execution AND holder = :holder AND company = :company AND fence = :fence
RETURNING (SELECT e.next_seq FROM executions e WHERE e.shard = owned.shard AND e.id = owned.execution) AS next_seq;

-- name: owned_by_worker
-- What a worker owns.
SELECT shard, execution, fence FROM owned WHERE holder = :holder AND company = :company;

-- name: shrink_owned
-- Cut a silent worker's ownerships short.
UPDATE owned SET lease_until_ms = :until_ms
WHERE holder = :holder AND company = :company AND lease_until_ms > :until_ms;

-- name: latest_of
-- How far the logs of some of a company's executions go, given as {id: shard}. Found by their ids: an index of the company is not
-- to be used, which would be read whole.
SELECT e.id, e.next_seq FROM json_each(:wanted) w
JOIN executions e ON e.shard = CAST(CAST(w.value AS TEXT) AS INTEGER) AND e.id = w.key
WHERE e.company || '' = :company;

-- name: insert_origin
-- Remember where an execution was forked off another, with the tags of that one.
INSERT INTO lineage (shard, execution, origin, origin_seq, tags)
VALUES (:shard, :execution, :origin, :origin_seq, :tags);

-- name: events_at
-- What the log says about one address.
SELECT seq, kind, address, digest, data, at_ms FROM events
WHERE shard = :shard AND execution = :execution AND address = :address ORDER BY seq;

-- name: events_behind
-- What a log says, behind an event, about some addresses, given as {address: 1}.
SELECT seq, kind, address, digest, data, at_ms FROM events
WHERE shard = :shard AND execution = :execution AND seq > :after
  AND address IN (SELECT w.key FROM json_each(:wanted) w) ORDER BY seq;

-- name: pauses_of
-- When an execution was paused, at which step if at one, and when resumed.
SELECT seq, kind, address FROM events
WHERE shard = :shard AND execution = :execution AND kind IN ('paused', 'resumed') ORDER BY seq;
