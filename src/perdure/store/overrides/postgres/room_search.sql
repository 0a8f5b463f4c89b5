-- name: walk_by_index
-- differs because: PostgreSQL reads a table whole where a room is much of it, and its time then tells of the other rooms.
SELECT set_config('enable_seqscan', 'off', true) AS walked;

-- name: room_word_counts
-- differs because: PostgreSQL looks for words in a tsvector of each row, SQLite in an index of words.
WITH q AS MATERIALIZED (SELECT key AS word, CAST('''' || key || '''' AS TSQUERY) AS term FROM json_each(:words))
SELECT q.word, COUNT(*) AS n FROM room_entries e JOIN q ON e.terms @@ q.term
WHERE e.room = :room AND e.reader IN ('*', :company) AND e.seq <= :upto AND e.kind IN (:messages, :lines, :files)
  AND e.terms @@ (SELECT CAST(STRING_AGG('''' || key || '''', ' | ') AS TSQUERY) FROM json_each(:words))
GROUP BY q.word;

-- name: room_found
-- differs because: PostgreSQL looks for words in a tsvector of each row, SQLite in an index of words.
WITH q AS MATERIALIZED (
    SELECT CAST('''' || key || '''' AS TSQUERY) AS term, CAST(CAST(value AS TEXT) AS BIGINT) AS weight
    FROM json_each(:words)
), found AS MATERIALIZED (
    SELECT e.number, e.kind, e.id, e.part, e.seq,
        CAST((SELECT SUM(q.weight) FROM q WHERE e.terms @@ q.term) AS BIGINT) AS score
    FROM room_entries e
    WHERE e.room = :room AND e.reader IN ('*', :company) AND e.seq <= :upto AND e.kind IN (:messages, :lines, :files)
      AND e.terms @@ (SELECT CAST(STRING_AGG('''' || key || '''', ' | ') AS TSQUERY) FROM json_each(:words))
)
SELECT f.number, f.kind, f.id, f.part, f.seq, f.score, (SELECT COUNT(*) FROM found) AS n FROM found f
WHERE f.score < :score OR (f.score = :score AND (f.seq < :seq OR (f.seq = :seq AND f.part > :part)))
ORDER BY f.score DESC, f.seq DESC, f.part LIMIT :limit;
