-- name: secret_key
-- A company's data key, sealed, and how often its secrets were changed.
SELECT id, revision, server_key, wrapped FROM secret_keys WHERE company = :company;

-- name: secret_revision
-- How often a company's secrets were changed.
SELECT revision FROM secret_keys WHERE company = :company;

-- name: secrets_of
-- A company's secrets, sealed, by name.
SELECT name, version, data_key, sealed, set_by, set_ms FROM secrets WHERE company = :company ORDER BY name;

-- name: secret_companies
-- Companies that have a data key.
SELECT company FROM secret_keys ORDER BY company;

-- name: any_secret_key
-- A server key that secrets of this store are under, if there are any.
SELECT k.server_key FROM secret_keys k
WHERE EXISTS (SELECT 1 FROM secrets s WHERE s.company = k.company) ORDER BY k.company LIMIT 1;

-- name: insert_secret_key
-- Give a company its first data key.
INSERT INTO secret_keys (company, id, revision, server_key, wrapped, changed_ms)
VALUES (:company, :id, 1, :server_key, :wrapped, :now_ms)
ON CONFLICT (company) DO NOTHING;

-- name: change_secret_key
-- Say that a company's secrets are changed, if nobody has since; with the data key that they are under now.
UPDATE secret_keys SET
    id = :id, revision = revision + 1, server_key = :server_key, wrapped = :wrapped, changed_ms = :now_ms
WHERE company = :company AND revision = :seen;

-- name: put_secret
-- Keep a secret in place of the one of its name.
INSERT INTO secrets (company, name, version, data_key, sealed, set_by, set_ms)
VALUES (:company, :name, :version, :data_key, :sealed, :set_by, :set_ms)
ON CONFLICT (company, name) DO UPDATE SET
    version = excluded.version, data_key = excluded.data_key, sealed = excluded.sealed, set_by = excluded.set_by,
    set_ms = excluded.set_ms;

-- name: delete_secret
-- Take a secret away.
DELETE FROM secrets WHERE company = :company AND name = :name;
