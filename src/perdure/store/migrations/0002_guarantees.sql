-- What the guarantees need: chained logs, lanes for durable functions, tokens, schedules, deadlines, the rules of tasks.

-- chain: hash of the last event, which covers all before it. lane: who runs it; '' is the servers' executors, else the
-- name of a durable function that workers run. build: of the code that began it. cancel_seq: its first cancel.
ALTER TABLE executions ADD COLUMN chain TEXT NOT NULL DEFAULT '';
ALTER TABLE executions ADD COLUMN lane TEXT NOT NULL DEFAULT '';
ALTER TABLE executions ADD COLUMN build TEXT NOT NULL DEFAULT '';
ALTER TABLE executions ADD COLUMN cancel_seq BIGINT;
ALTER TABLE executions ADD COLUMN origin TEXT NOT NULL DEFAULT ''; -- of a fork
ALTER TABLE events ADD COLUMN hash TEXT NOT NULL DEFAULT '';
ALTER TABLE ready ADD COLUMN lane TEXT NOT NULL DEFAULT '';
CREATE INDEX ready_by_lane ON ready (lane, since_ms);
DROP INDEX ready_by_age;

-- An owner may be a worker that runs durable functions: of that company, in answer to the request with that nonce.
-- kept_by: the worker that parked it last and may have its live coroutine; others leave it alone for a moment.
ALTER TABLE executions ADD COLUMN kept_by TEXT NOT NULL DEFAULT '';
ALTER TABLE ready ADD COLUMN kept_by TEXT NOT NULL DEFAULT '';
ALTER TABLE owned ADD COLUMN company TEXT NOT NULL DEFAULT '';
ALTER TABLE owned ADD COLUMN nonce TEXT NOT NULL DEFAULT '';
ALTER TABLE owned ADD COLUMN outside TEXT NOT NULL DEFAULT ''; -- where its code waits for the world outside a step

-- Where an execution comes from: the step that started it as a child, or the place where it was forked off another.
CREATE TABLE lineage (
    shard INTEGER NOT NULL,
    execution TEXT NOT NULL,
    parent TEXT,
    parent_address TEXT,
    origin TEXT,
    origin_seq BIGINT,
    PRIMARY KEY (shard, execution)
) {narrow};
CREATE INDEX lineage_of_parent ON lineage (parent) WHERE parent IS NOT NULL;
CREATE INDEX lineage_of_origin ON lineage (origin) WHERE origin IS NOT NULL;

-- What was said about an effect when its execution had already ended. Chained on from the execution's log.
CREATE TABLE evidence (
    shard INTEGER NOT NULL,
    execution TEXT NOT NULL,
    seq BIGINT NOT NULL, -- goes on where the log ended
    kind TEXT NOT NULL,
    address TEXT NOT NULL,
    data TEXT NOT NULL,
    at_ms BIGINT NOT NULL,
    hash TEXT NOT NULL,
    PRIMARY KEY (shard, execution, seq)
) {narrow};

-- digest: of tool and arguments; intent: the author's own identity of the act. begun_ms: of the newest claim.
-- doubt: 1 from when it became uncertain until it has ended: an equal call is held meanwhile.
-- probe_of: address of the uncertain task that this one is to find out about.
ALTER TABLE tasks ADD COLUMN digest TEXT NOT NULL DEFAULT '';
ALTER TABLE tasks ADD COLUMN intent TEXT;
ALTER TABLE tasks ADD COLUMN begun_ms BIGINT;
ALTER TABLE tasks ADD COLUMN doubt INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tasks ADD COLUMN probe_of TEXT;
ALTER TABLE tasks ADD COLUMN first_ms BIGINT; -- first attempt's start: deadlines and key windows count from it
ALTER TABLE tasks ADD COLUMN rules TEXT NOT NULL DEFAULT '{}'; -- retry policy, key window, probe and deadline, as JSON
ALTER TABLE tasks ADD COLUMN progress TEXT;
ALTER TABLE tasks ADD COLUMN saved TEXT; -- what its body saved last, for the next attempt
-- These two, and what reads by them, leave the shard out: SQLite would prefer the primary key, and read every task.
CREATE INDEX tasks_in_doubt ON tasks (execution, tool, digest) WHERE doubt = 1;
CREATE INDEX tasks_by_intent ON tasks (execution, tool, intent) WHERE intent IS NOT NULL;

-- Moments at which something else than a sleep ends: an expiry, an escalation, a ruling by policy, a probe.
CREATE TABLE deadlines (
    shard INTEGER NOT NULL,
    execution TEXT NOT NULL,
    address TEXT NOT NULL,
    kind TEXT NOT NULL,
    due_ms BIGINT NOT NULL,
    PRIMARY KEY (shard, execution, address, kind)
) {narrow};
CREATE INDEX deadlines_due ON deadlines (kind, due_ms);

-- token: hash of the opaque right to complete it. rules: quorum, approvers, escalation, as JSON.
ALTER TABLE waitpoints ADD COLUMN name TEXT NOT NULL DEFAULT '';
ALTER TABLE waitpoints ADD COLUMN token TEXT;
ALTER TABLE waitpoints ADD COLUMN rules TEXT NOT NULL DEFAULT '{}';
ALTER TABLE waitpoints ADD COLUMN expires_ms BIGINT;
ALTER TABLE waitpoints ADD COLUMN value TEXT;
CREATE UNIQUE INDEX waitpoints_by_token ON waitpoints (token) WHERE token IS NOT NULL;

-- One person's word on an approval that needs several.
CREATE TABLE votes (
    shard INTEGER NOT NULL,
    execution TEXT NOT NULL,
    address TEXT NOT NULL,
    voter TEXT NOT NULL,
    decision TEXT NOT NULL,
    reason TEXT NOT NULL,
    at_ms BIGINT NOT NULL,
    PRIMARY KEY (shard, execution, address, voter)
) {narrow};

-- Starts by the calendar. A tick is a start with the key (schedule, tick).
CREATE TABLE schedules (
    company TEXT NOT NULL,
    name TEXT NOT NULL,
    agent TEXT NOT NULL,
    definition TEXT NOT NULL,
    lane TEXT NOT NULL,
    input TEXT NOT NULL,
    cron TEXT NOT NULL,
    zone TEXT NOT NULL,
    missed TEXT NOT NULL, -- what becomes of ticks that nobody was there for: skip, one, all
    paused INTEGER NOT NULL,
    next_ms BIGINT NOT NULL,
    last_tick_ms BIGINT, -- of the last tick that began an execution
    last_execution TEXT,
    created_by TEXT NOT NULL,
    created_ms BIGINT NOT NULL,
    PRIMARY KEY (company, name)
) {narrow};
CREATE INDEX schedules_due ON schedules (next_ms) WHERE paused = 0;

-- Workers that are connected to one of several servers of a database, for the others to know; a row goes out of date.
CREATE TABLE workers (
    company TEXT NOT NULL,
    worker TEXT NOT NULL,
    server TEXT NOT NULL,
    info TEXT NOT NULL, -- what it says of itself, as JSON
    seen_ms BIGINT NOT NULL,
    PRIMARY KEY (company, worker)
) {narrow};
