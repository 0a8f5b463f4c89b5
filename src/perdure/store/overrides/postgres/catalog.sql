-- name: table_names
-- differs because: it is this database's own catalog.
SELECT c.relname AS name FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND pg_table_is_visible(c.oid) AND n.nspname NOT IN ('pg_catalog', 'information_schema')
ORDER BY 1;

-- name: table_columns
-- differs because: it is this database's own catalog.
SELECT c.relname AS name, a.attname AS column_name, format_type(a.atttypid, a.atttypmod) AS type,
    CAST(a.attnotnull AS INTEGER) AS required
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
WHERE c.relkind IN ('r', 'p') AND pg_table_is_visible(c.oid) AND n.nspname NOT IN ('pg_catalog', 'information_schema')
ORDER BY c.relname, a.attnum;

-- name: index_names
-- differs because: it is this database's own catalog.
SELECT c.relname AS name FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('i', 'I') AND pg_table_is_visible(c.oid) AND n.nspname NOT IN ('pg_catalog', 'information_schema')
ORDER BY 1;

-- name: stored_bytes
-- differs because: it is this database's own catalog.
SELECT COALESCE(SUM(pg_total_relation_size(c.oid)), 0) AS bytes
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND pg_table_is_visible(c.oid) AND n.nspname NOT IN ('pg_catalog', 'information_schema');

-- name: end_stalled
-- differs because: sessions of a server can outlive what their processes do.
SELECT a.pid AS session, pg_terminate_backend(a.pid) AS ended
FROM pg_stat_activity a JOIN pg_stat_activity mine
    ON mine.datid = a.datid AND mine.usesysid = a.usesysid AND mine.application_name = a.application_name
WHERE mine.pid = pg_backend_pid() AND a.pid <> mine.pid AND a.state = :wanted
    AND EXTRACT(EPOCH FROM mine.query_start - a.state_change) * 1000 > :idle_ms;
