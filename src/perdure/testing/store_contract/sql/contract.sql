-- name: contract_put_key
-- Insert a start key; touches no row if it is there.
INSERT INTO start_keys (company, agent, start_key, execution, digest, created_ms)
VALUES (:company, 'tester', :start_key, :execution, '', 0)
ON CONFLICT (company, agent, start_key) DO NOTHING;

-- name: contract_insert_key
-- Insert a start key that must be new.
INSERT INTO start_keys (company, agent, start_key, execution, digest, created_ms)
VALUES (:company, 'tester', :start_key, :execution, '', 0);

-- name: contract_put_key_returning
-- Insert a start key and say what was inserted.
INSERT INTO start_keys (company, agent, start_key, execution, digest, created_ms)
VALUES (:company, 'tester', :start_key, :execution, '', 0)
ON CONFLICT (company, agent, start_key) DO NOTHING
RETURNING start_key, execution;

-- name: contract_keys
-- All start keys of a company in order.
SELECT start_key, execution FROM start_keys WHERE company = :company ORDER BY start_key;

-- name: contract_count
-- How many start keys there are, and the sum of their times.
SELECT COUNT(*) AS found, SUM(created_ms) AS total FROM start_keys;

-- name: contract_filtered
-- Start keys of an execution, or of all.
SELECT start_key FROM start_keys
WHERE (CAST(:execution AS TEXT) IS NULL OR execution = :execution)
ORDER BY start_key LIMIT :limit;

-- name: contract_move_keys
-- Give the first keys of one execution to another, picked by a common table expression.
WITH picked AS (
    SELECT start_key FROM start_keys WHERE execution = :from_execution ORDER BY start_key LIMIT :limit
)
UPDATE start_keys SET execution = :to_execution WHERE start_key IN (SELECT start_key FROM picked);

-- name: contract_delete_key
-- Remove a start key.
DELETE FROM start_keys WHERE company = :company AND start_key = :start_key;

-- name: contract_literals
-- Text that only looks like parameters, ends and comments; the ":quoted" name too.
SELECT ':name; -- 100% it''s /* text */' AS "a :column", 7 % 4 AS rest -- and :this is a comment; 'unclosed
;

-- name: contract_fenced
-- Append under a fence: touches no row if it moved on.
UPDATE executions SET next_seq = next_seq + 1, updated_ms = :now_ms
WHERE shard = :shard AND id = :id AND fence = :fence;

-- name: contract_events
-- The log of an execution.
SELECT * FROM events WHERE shard = :shard AND execution = :execution ORDER BY seq;
