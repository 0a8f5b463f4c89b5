-- Words that executions are found by.

-- One row for each tag of an execution. ended: '' until the execution has, then how; so those that ended in one way are
-- found among many, and a tag costs nothing between the start and the end.
CREATE TABLE tagged (
    shard INTEGER NOT NULL,
    execution TEXT NOT NULL,
    tag TEXT NOT NULL,
    company TEXT NOT NULL,
    agent TEXT NOT NULL,
    ended TEXT NOT NULL,
    PRIMARY KEY (shard, execution, tag)
) {narrow};
CREATE INDEX tagged_by_end ON tagged (company, tag, ended, execution);
CREATE INDEX tagged_by_agent ON tagged (company, tag, agent, ended, execution);

-- tags: as a JSON list, in the order in which they were given; NULL without any. Beside where it comes from, because
-- whoever ends an execution reads that anyway: one without tags pays nothing for them.
ALTER TABLE lineage ADD COLUMN tags TEXT;
ALTER TABLE schedules ADD COLUMN tags TEXT NOT NULL DEFAULT '[]'; -- of what it begins
