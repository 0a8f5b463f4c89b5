-- Rooms: who is in one, what was said, asked and kept there, and what woke whom. A room's ledger is the log of the row in
-- `executions` that has its id. Keys begin with the room; every row carries the company that it belongs to.

CREATE TABLE rooms (
    id TEXT NOT NULL PRIMARY KEY,
    company TEXT NOT NULL, -- the host
    name TEXT NOT NULL,
    created_by TEXT NOT NULL,
    created_ms BIGINT NOT NULL
) {narrow};

-- name: of an agent; '' is the company itself. definition, on_crash: of agents.
CREATE TABLE room_members (
    room TEXT NOT NULL,
    company TEXT NOT NULL,
    name TEXT NOT NULL,
    state TEXT NOT NULL {check:state:Membership},
    definition TEXT NOT NULL,
    on_crash TEXT NOT NULL,
    changed_by TEXT NOT NULL,
    changed_ms BIGINT NOT NULL,
    PRIMARY KEY (room, company, name)
) {narrow};
CREATE INDEX room_members_of ON room_members (company, room) WHERE name = '';

-- Rowid tables on SQLite: texts pass the size where WITHOUT ROWID pays. seq: in the room's ledger. addressed: members, as
-- JSON. hops: how many wakes led to it. digest: of what its author gave, to tell the same from another with its id.
CREATE TABLE room_messages (
    room TEXT NOT NULL,
    id TEXT NOT NULL,
    seq BIGINT NOT NULL,
    company TEXT NOT NULL,
    author TEXT NOT NULL,
    kind TEXT NOT NULL,
    text TEXT NOT NULL,
    addressed TEXT NOT NULL,
    thread TEXT NOT NULL,
    hops INTEGER NOT NULL,
    digest TEXT NOT NULL,
    at_ms BIGINT NOT NULL,
    PRIMARY KEY (room, id)
);
CREATE UNIQUE INDEX room_messages_in_order ON room_messages (room, seq);

-- to_agent: '' is the whole company. holder: who claimed or closed it.
CREATE TABLE room_tasks (
    room TEXT NOT NULL,
    id TEXT NOT NULL,
    seq BIGINT NOT NULL,
    company TEXT NOT NULL,
    author TEXT NOT NULL,
    kind TEXT NOT NULL,
    title TEXT NOT NULL,
    to_company TEXT NOT NULL,
    to_agent TEXT NOT NULL,
    thread TEXT NOT NULL,
    state TEXT NOT NULL {check:state:RoomTask},
    holder TEXT NOT NULL,
    result TEXT NOT NULL,
    hops INTEGER NOT NULL,
    digest TEXT NOT NULL,
    opened_ms BIGINT NOT NULL,
    changed_ms BIGINT NOT NULL,
    PRIMARY KEY (room, id)
);
CREATE UNIQUE INDEX room_tasks_in_order ON room_tasks (room, seq);
CREATE INDEX room_tasks_open ON room_tasks (room, to_company, seq) WHERE state IN ('open', 'claimed');

CREATE TABLE room_memory (
    room TEXT NOT NULL,
    id TEXT NOT NULL,
    seq BIGINT NOT NULL,
    company TEXT NOT NULL, -- the owner
    author TEXT NOT NULL,
    text TEXT NOT NULL,
    source TEXT NOT NULL,
    salt TEXT NOT NULL,
    digest TEXT NOT NULL,
    at_ms BIGINT NOT NULL,
    PRIMARY KEY (room, id)
);
CREATE UNIQUE INDEX room_memory_in_order ON room_memory (room, seq);

-- Companies that may read a line, its owner included; '*' is every company in the room.
CREATE TABLE room_readers (
    room TEXT NOT NULL,
    line TEXT NOT NULL,
    company TEXT NOT NULL,
    PRIMARY KEY (room, line, company)
) {narrow};

-- What was claimed by waking somebody: once and for good. Nothing deletes a row, also not when its execution goes.
CREATE TABLE room_wakes (
    room TEXT NOT NULL,
    company TEXT NOT NULL,
    agent TEXT NOT NULL,
    cause TEXT NOT NULL, -- id of the message or task
    execution TEXT NOT NULL,
    at_ms BIGINT NOT NULL,
    PRIMARY KEY (room, company, agent, cause)
) {narrow};
CREATE UNIQUE INDEX room_wakes_of ON room_wakes (execution);
CREATE INDEX room_wakes_in_order ON room_wakes (room, at_ms, execution);
