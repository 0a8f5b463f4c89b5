-- Agents that are reached by A2A, and the messages that came for them.

CREATE TABLE a2a_agents (
    company TEXT NOT NULL,
    agent TEXT NOT NULL,
    definition TEXT NOT NULL, -- what a new task begins with
    description TEXT NOT NULL,
    published_by TEXT NOT NULL,
    published_ms BIGINT NOT NULL,
    PRIMARY KEY (company, agent)
) {narrow};

-- Executions that a message began. message: its author's id of it.
CREATE TABLE a2a_tasks (
    shard INTEGER NOT NULL,
    execution TEXT NOT NULL,
    company TEXT NOT NULL,
    agent TEXT NOT NULL,
    context TEXT NOT NULL,
    message TEXT NOT NULL,
    PRIMARY KEY (shard, execution)
) {narrow};
CREATE INDEX a2a_tasks_of ON a2a_tasks (company, agent, execution);

-- Every message that was taken, once. digest: of what it says and of what it is for.
CREATE TABLE a2a_messages (
    company TEXT NOT NULL,
    agent TEXT NOT NULL,
    message TEXT NOT NULL,
    shard INTEGER NOT NULL,
    execution TEXT NOT NULL,
    digest TEXT NOT NULL,
    PRIMARY KEY (company, agent, message)
) {narrow};
CREATE INDEX a2a_messages_of ON a2a_messages (shard, execution);
