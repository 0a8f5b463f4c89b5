-- Values that are too large for a log. Each company has its own, by the hash of their content.

-- whole: 1 once every piece is there and they were found to add up to the hash; only then it is referred to. touched_ms:
-- when it was last sent, asked for by a sender, or referred to anew; what nobody uses goes some time after that.
CREATE TABLE blobs (
    company TEXT NOT NULL,
    hash TEXT NOT NULL,
    bytes BIGINT NOT NULL,
    whole INTEGER NOT NULL,
    touched_ms BIGINT NOT NULL,
    PRIMARY KEY (company, hash)
) {narrow};
CREATE INDEX blobs_by_time ON blobs (touched_ms);

-- data: base64 text, as both databases keep text alike.
CREATE TABLE blob_chunks (
    company TEXT NOT NULL,
    hash TEXT NOT NULL,
    number INTEGER NOT NULL,
    data TEXT NOT NULL,
    PRIMARY KEY (company, hash, number)
);

-- Which executions' logs refer to which blob: whoever may read the one may read the other.
CREATE TABLE blob_uses (
    shard INTEGER NOT NULL,
    execution TEXT NOT NULL,
    hash TEXT NOT NULL,
    company TEXT NOT NULL,
    PRIMARY KEY (shard, execution, hash)
) {narrow};
CREATE INDEX blob_uses_by_blob ON blob_uses (company, hash);
