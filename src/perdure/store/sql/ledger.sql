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
