-- Secrets of companies. No value stands here as it is: each is sealed under its company's data key, and that under a key
-- of the server's, which no database holds.

-- revision: grows with every change of the company's secrets. wrapped: the data key, sealed under the server key that
-- server_key names.
CREATE TABLE secret_keys (
    company TEXT NOT NULL PRIMARY KEY,
    id TEXT NOT NULL,
    revision BIGINT NOT NULL,
    server_key TEXT NOT NULL,
    wrapped TEXT NOT NULL,
    changed_ms BIGINT NOT NULL
) {narrow};

CREATE TABLE secrets (
    company TEXT NOT NULL,
    name TEXT NOT NULL,
    version BIGINT NOT NULL,
    data_key TEXT NOT NULL,
    sealed TEXT NOT NULL,
    set_by TEXT NOT NULL,
    set_ms BIGINT NOT NULL,
    PRIMARY KEY (company, name)
);
