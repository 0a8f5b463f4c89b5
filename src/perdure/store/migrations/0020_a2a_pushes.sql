-- Who is to be told of what tasks of A2A do. What there is to tell stands in the log, since it happened; this says how
-- far each was told. due_ms: when to try next, if there is something to tell, or until when somebody is at it; NULL:
-- never again. version: of the protocol that is spoken to them.
CREATE TABLE a2a_pushes (
    shard INTEGER NOT NULL,
    execution TEXT NOT NULL,
    id TEXT NOT NULL,
    company TEXT NOT NULL,
    agent TEXT NOT NULL,
    url TEXT NOT NULL,
    token TEXT NOT NULL,
    scheme TEXT NOT NULL,
    credentials TEXT NOT NULL,
    version TEXT NOT NULL,
    told_seq BIGINT NOT NULL,
    tries BIGINT NOT NULL,
    due_ms BIGINT,
    given_up_ms BIGINT,
    error TEXT NOT NULL,
    PRIMARY KEY (shard, execution, id)
);
CREATE INDEX a2a_pushes_due ON a2a_pushes (due_ms);
CREATE INDEX a2a_pushes_of ON a2a_pushes (company, execution);
