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

-- name: login_by_hash
-- For whom a link or a session acts, if it is young enough.
SELECT company, name FROM api_keys
WHERE hash = :hash AND prefix = :kind AND created_ms > :after_ms AND revoked_ms IS NULL;

-- name: delete_login
-- Use a link up, or end a session; touches no row if somebody was faster.
DELETE FROM api_keys WHERE hash = :hash AND prefix = :kind AND created_ms > :after_ms;

-- name: delete_old_logins
-- Forget links, or sessions, whose time is over.
DELETE FROM api_keys WHERE prefix = :kind AND created_ms <= :before_ms;

-- name: companies_with_keys
-- All companies with their keys, those that were revoked too; a company without keys once, with none.
SELECT c.id AS company, c.created_ms AS company_ms, k.hash, k.name, k.prefix, k.created_ms, k.revoked_ms
FROM companies c LEFT JOIN api_keys k ON k.company = c.id AND k.prefix LIKE :keys
ORDER BY c.id, k.created_ms, k.hash;

-- name: keys_of
-- The keys of one company, by their hashes.
SELECT hash, name, prefix, created_ms, revoked_ms FROM api_keys
WHERE company = :company AND prefix LIKE :keys ORDER BY hash;

-- name: revoke_key
-- Have a key open nothing any more; touches no row if that was said before.
UPDATE api_keys SET revoked_ms = :now_ms WHERE hash = :hash AND revoked_ms IS NULL;

-- name: delete_logins_of
-- End the links and sessions that act for somebody.
DELETE FROM api_keys WHERE company = :company AND name = :name AND prefix IN (:link, :session);

-- name: keys_in_use
-- A company's keys, without what they are; links, sessions and hooks are none.
SELECT name, prefix, created_ms FROM api_keys WHERE company = :company AND revoked_ms IS NULL AND prefix LIKE :keys
ORDER BY created_ms, name LIMIT :limit;

-- name: sessions_of
-- How many sessions of a company are young enough.
SELECT COUNT(*) AS n FROM api_keys
WHERE company = :company AND prefix = :session AND created_ms > :after_ms AND revoked_ms IS NULL;

-- name: hooks_of
-- A company's hooks, by their hashes.
SELECT hash, name, created_ms FROM api_keys
WHERE company = :company AND prefix = :kind AND revoked_ms IS NULL ORDER BY hash;
