-- Replies in the making, on their way to the servers of a database that do not ask the model: while somebody there looks
-- on. Nobody needs a row of these, so PostgreSQL keeps no log of them: after a crash they are empty. A file has one server,
-- and never a row. docs/decisions/0019-text-that-is-not-recorded.md says what follows.

-- Somebody looks on at an execution from a server that does not hold it, until then. since_ms: when that was said first;
-- with another number nothing is there of what was told before.
CREATE {postgres}UNLOGGED {end}TABLE relay_onlookers (
    shard INTEGER NOT NULL,
    execution TEXT NOT NULL,
    since_ms BIGINT NOT NULL,
    until_ms BIGINT NOT NULL,
    PRIMARY KEY (shard, execution)
) {narrow};

-- What one request to a model brings. since_seq: an event of the log at which it was not recorded yet. told: 0 if its text
-- is not told this way.
CREATE {postgres}UNLOGGED {end}TABLE relay_replies (
    shard INTEGER NOT NULL,
    execution TEXT NOT NULL,
    reply TEXT NOT NULL,
    fence BIGINT NOT NULL,
    address TEXT NOT NULL,
    attempt BIGINT NOT NULL,
    since_seq BIGINT NOT NULL,
    told INTEGER NOT NULL,
    PRIMARY KEY (shard, execution, reply)
) {narrow};

-- Its text, as JSON. begins: how many characters come before.
CREATE {postgres}UNLOGGED {end}TABLE relay_pieces (
    shard INTEGER NOT NULL,
    execution TEXT NOT NULL,
    reply TEXT NOT NULL,
    begins BIGINT NOT NULL,
    piece TEXT NOT NULL,
    PRIMARY KEY (shard, execution, reply, begins)
);
{postgres}
-- Rows that live for as long as a model speaks, as those of 0005.
ALTER TABLE relay_replies SET (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0
);
ALTER TABLE relay_pieces SET (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0
);
{end}
