-- What people say of a queue: that it is paused, and how much of it may be under way.

-- A queue that nobody said anything of has no row. concurrency: tasks leased or begun at once. rate: leases within
-- period_ms. credit: of the rate, as it stood at credit_ms; a lease costs period_ms of it, and each millisecond brings
-- rate of it back, up to rate * period_ms.
CREATE TABLE queues (
    company TEXT NOT NULL,
    name TEXT NOT NULL,
    paused INTEGER NOT NULL,
    concurrency INTEGER,
    rate INTEGER,
    period_ms BIGINT,
    credit BIGINT NOT NULL,
    credit_ms BIGINT NOT NULL,
    changed_by TEXT NOT NULL,
    changed_ms BIGINT NOT NULL,
    PRIMARY KEY (company, name)
) {narrow};

-- 1: its queue had limits when it was leased, so that others may be waiting for its end.
ALTER TABLE tasks ADD COLUMN limited INTEGER NOT NULL DEFAULT 0;

-- All who ask by worker ask by company too; with the queue in it, it also counts what a queue has under way.
DROP INDEX tasks_held;
CREATE INDEX tasks_held ON tasks (company, worker, queue) WHERE state IN ('leased', 'begun');

-- Calls that have failed for good, the newest of them last.
CREATE INDEX tasks_dead ON tasks (company, updated_ms) WHERE state = 'dead';
