-- How PostgreSQL keeps the tables that change most. SQLite needs none of it: it uses a freed place again at once.
{postgres}
-- Each event of an execution writes its row anew. No index is on what changes unless its state does, so the new version
-- can stay on its page and no index is touched, as long as there is room: hence the third of each page that is left free.
ALTER TABLE executions SET (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);

-- Rows that live for moments: small tables, full of dead rows soon, read from their oldest end, where those lie. A share
-- of so few rows says nothing; after a thousand they are cleared, and without pauses, because there is little to read.
ALTER TABLE ready SET (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0
);
ALTER TABLE owned SET (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0
);
ALTER TABLE timers SET (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0
);
ALTER TABLE deadlines SET (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0
);

-- A task's state and lease are indexed, so each of its moves leaves a dead row and dead entries of indexes behind, among
-- many rows of tasks that are over: a fifth of them all, the default, would be too many to wait for.
ALTER TABLE tasks SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);

-- Only appended to until retention deletes whole logs; what these leave is to be used again before the table has grown
-- by a fifth.
ALTER TABLE events SET (
    autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_insert_scale_factor = 0.05,
    autovacuum_analyze_scale_factor = 0.02, toast.autovacuum_vacuum_scale_factor = 0.05
);
{end}
