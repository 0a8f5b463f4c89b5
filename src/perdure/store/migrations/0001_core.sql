-- The core tables. Every execution-scoped key starts with the shard. Times are milliseconds by the store's clock.
-- {check:...} and {narrow} are filled in by store/migrate.py: state lists from core/states.py, and, on SQLite only,
-- WITHOUT ROWID for tables whose rows stay small.

CREATE TABLE companies (
    id TEXT NOT NULL PRIMARY KEY,
    name TEXT NOT NULL,
    created_ms BIGINT NOT NULL
);

CREATE TABLE api_keys (
    hash TEXT NOT NULL PRIMARY KEY,
    company TEXT NOT NULL,
    name TEXT NOT NULL,
    prefix TEXT NOT NULL,
    created_ms BIGINT NOT NULL,
    revoked_ms BIGINT
);

-- What an agent was when an execution of it began, as JSON; never changed, shared by all that are equal.
CREATE TABLE definitions (
    company TEXT NOT NULL,
    digest TEXT NOT NULL,
    agent TEXT NOT NULL,
    spec TEXT NOT NULL,
    created_ms BIGINT NOT NULL,
    PRIMARY KEY (company, digest)
);

CREATE TABLE executions (
    shard INTEGER NOT NULL,
    id TEXT NOT NULL,
    company TEXT NOT NULL,
    agent TEXT NOT NULL,
    definition TEXT NOT NULL,
    state TEXT NOT NULL {check:state:Execution},
    reason TEXT,
    ownership TEXT NOT NULL {check:ownership:Ownership},
    fence BIGINT NOT NULL,
    next_seq BIGINT NOT NULL,
    log_format INTEGER NOT NULL,
    active_ms BIGINT NOT NULL,
    created_ms BIGINT NOT NULL,
    updated_ms BIGINT NOT NULL,
    finished_ms BIGINT,
    PRIMARY KEY (shard, id)
) {narrow};
CREATE INDEX executions_by_company ON executions (company, id);

CREATE TABLE start_keys (
    company TEXT NOT NULL,
    agent TEXT NOT NULL,
    start_key TEXT NOT NULL,
    execution TEXT NOT NULL,
    digest TEXT NOT NULL,
    created_ms BIGINT NOT NULL,
    PRIMARY KEY (company, agent, start_key)
) {narrow};

-- Append only. A rowid table on SQLite: payloads pass the size where WITHOUT ROWID pays.
CREATE TABLE events (
    shard INTEGER NOT NULL,
    execution TEXT NOT NULL,
    seq BIGINT NOT NULL,
    kind TEXT NOT NULL,
    address TEXT NOT NULL,
    digest TEXT NOT NULL,
    data TEXT NOT NULL,
    at_ms BIGINT NOT NULL,
    PRIMARY KEY (shard, execution, seq)
);

-- An execution that anybody may claim has a row here; claiming it deletes the row.
CREATE TABLE ready (
    shard INTEGER NOT NULL,
    execution TEXT NOT NULL,
    company TEXT NOT NULL,
    since_ms BIGINT NOT NULL,
    abandoned INTEGER NOT NULL, -- 1: its last holder never parked it
    PRIMARY KEY (shard, execution)
) {narrow};
CREATE INDEX ready_by_age ON ready (since_ms);

-- An execution that a server holds has a row here; parking or ending it deletes the row.
CREATE TABLE owned (
    shard INTEGER NOT NULL,
    execution TEXT NOT NULL,
    holder TEXT NOT NULL,
    fence BIGINT NOT NULL,
    since_ms BIGINT NOT NULL,
    lease_until_ms BIGINT NOT NULL,
    PRIMARY KEY (shard, execution)
) {narrow};
CREATE INDEX owned_by_holder ON owned (holder);
CREATE INDEX owned_by_lease ON owned (lease_until_ms);

CREATE TABLE tasks (
    shard INTEGER NOT NULL,
    execution TEXT NOT NULL,
    address TEXT NOT NULL,
    company TEXT NOT NULL,
    agent TEXT NOT NULL,
    tool TEXT NOT NULL,
    queue TEXT NOT NULL,
    state TEXT NOT NULL {check:state:Task},
    delivery TEXT NOT NULL,
    fence BIGINT NOT NULL,
    attempt INTEGER NOT NULL,
    max_attempts INTEGER NOT NULL,
    pause_ms BIGINT NOT NULL,
    timeout_ms BIGINT NOT NULL,
    scheduled_seq BIGINT NOT NULL,
    approval TEXT, -- address of the waitpoint whose approval begin consumes
    run_at_ms BIGINT NOT NULL,
    worker TEXT,
    nonce TEXT,
    begin_nonce TEXT,
    claims INTEGER NOT NULL,
    started_ms BIGINT,
    lease_ms BIGINT NOT NULL,
    lease_until_ms BIGINT,
    updated_ms BIGINT NOT NULL,
    PRIMARY KEY (shard, execution, address)
) {narrow};
CREATE INDEX tasks_ready ON tasks (company, queue, agent, tool, run_at_ms) WHERE state = 'ready';
CREATE INDEX tasks_held ON tasks (worker) WHERE state IN ('leased', 'begun');
CREATE INDEX tasks_leases ON tasks (lease_until_ms) WHERE state IN ('leased', 'begun');
CREATE INDEX tasks_claimed ON tasks (company, state) WHERE claims > 0;

CREATE TABLE waitpoints (
    shard INTEGER NOT NULL,
    execution TEXT NOT NULL,
    address TEXT NOT NULL,
    id TEXT NOT NULL,
    company TEXT NOT NULL,
    kind TEXT NOT NULL,
    state TEXT NOT NULL {check:state:Waitpoint},
    digest TEXT NOT NULL,
    opened_seq BIGINT NOT NULL,
    opened_ms BIGINT NOT NULL,
    decision TEXT,
    decided_by TEXT,
    decided_ms BIGINT,
    reason TEXT,
    consumed_ms BIGINT,
    PRIMARY KEY (shard, execution, address)
) {narrow};
CREATE UNIQUE INDEX waitpoints_by_id ON waitpoints (id);
CREATE INDEX waitpoints_open ON waitpoints (company, opened_ms) WHERE state = 'open';

CREATE TABLE timers (
    shard INTEGER NOT NULL,
    execution TEXT NOT NULL,
    address TEXT NOT NULL,
    due_ms BIGINT NOT NULL,
    PRIMARY KEY (shard, execution, address)
) {narrow};
CREATE INDEX timers_due ON timers (due_ms);

-- Messages already accepted, so that the same one sent again changes nothing.
CREATE TABLE inbox_keys (
    shard INTEGER NOT NULL,
    execution TEXT NOT NULL,
    dedupe TEXT NOT NULL,
    seq BIGINT NOT NULL,
    PRIMARY KEY (shard, execution, dedupe)
) {narrow};
