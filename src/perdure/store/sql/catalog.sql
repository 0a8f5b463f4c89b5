-- What a database says of itself. Each has its own catalog, so each query here is overridden.

-- name: table_names
-- The names of its tables.
SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name;

-- name: table_columns
-- The columns of its tables.
SELECT m.name, p.name AS column_name, LOWER(p.type) AS type, p."notnull" AS required
FROM sqlite_master m JOIN pragma_table_info(m.name) p WHERE m.type = 'table' ORDER BY m.name, p.cid;

-- name: index_names
-- The names of its indexes.
SELECT name FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL ORDER BY name;

-- name: stored_bytes
-- How much its tables and indexes take.
SELECT c.page_count * s.page_size AS bytes FROM pragma_page_count() c, pragma_page_size() s;
