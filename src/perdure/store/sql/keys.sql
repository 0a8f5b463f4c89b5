-- name: insert_company
-- Make a company known.
INSERT INTO companies (id, name, created_ms) VALUES (:id, :name, :now_ms) ON CONFLICT (id) DO NOTHING;

-- name: insert_key
-- Keep a key's hash.
INSERT INTO api_keys (hash, company, name, prefix, created_ms)
VALUES (:hash, :company, :name, :prefix, :now_ms) ON CONFLICT (hash) DO NOTHING;

-- name: key_by_hash
-- Whose key it is.
SELECT company, name FROM api_keys WHERE hash = :hash AND revoked_ms IS NULL;

-- name: any_key
-- Whether there is any key at all.
SELECT 1 AS one FROM api_keys WHERE revoked_ms IS NULL LIMIT 1;
