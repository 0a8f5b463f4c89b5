-- What is found in rooms. Words come as JSON, {word: weight}, cut by core/room_search.py: letters, digits and signs alone.

-- name: insert_room_entry
-- Have a text found by who may read it. Two entries of one number are less likely than a broken disk; the second is lost.
INSERT INTO room_entries (number, room, company, reader, kind, id, part, seq, words)
VALUES (:number, :room, :company, :reader, :kind, :id, :part, :seq, :words)
ON CONFLICT DO NOTHING;

-- name: drop_room_entries
-- Have the passages of a file's older versions found no more.
DELETE FROM room_entries WHERE room = :room AND reader = '*' AND id IN (
    SELECT f.id FROM room_files f
    WHERE f.room = :room AND f.company = :company AND f.name = :name AND f.version < :version
);

-- name: walk_by_index
-- Have what follows in this view go by the room and the reader, and not through what all rooms have: SQLite always does.
SELECT '' AS walked;

-- name: room_word_counts
-- How many texts that a company may read have each word, counted up to `most`.
SELECT q.key AS word, (SELECT COUNT(*) FROM (
    SELECT 1 FROM room_words w
    WHERE w.terms MATCH '"' || :room || '_2A_' || q.key || '" OR "' || :room || '_' || HEX(:company) || '_' || q.key || '"'
      AND w.room = :room AND w.reader IN ('*', :company) AND w.seq <= :upto
      AND w.kind IN (:messages, :lines, :files)
    LIMIT :most
) f) AS n FROM json_each(:words) q;

-- name: room_found
-- What has any of the words and may be read by a company, the best first, behind a place; and how many there are.
WITH found AS (
    SELECT w.number, w.kind, w.id, w.part, w.seq, SUM(CAST(CAST(q.value AS TEXT) AS BIGINT)) AS score
    FROM json_each(:words) q CROSS JOIN room_words w
    WHERE w.terms MATCH '"' || :room || '_2A_' || q.key || '" OR "' || :room || '_' || HEX(:company) || '_' || q.key || '"'
      AND w.room = :room AND w.reader IN ('*', :company) AND w.seq <= :upto
      AND w.kind IN (:messages, :lines, :files)
    GROUP BY w.number
)
SELECT f.number, f.kind, f.id, f.part, f.seq, f.score, (SELECT COUNT(*) FROM found) AS n FROM found f
WHERE f.score < :score OR (f.score = :score AND (f.seq < :seq OR (f.seq = :seq AND f.part > :part)))
ORDER BY f.score DESC, f.seq DESC, f.part LIMIT :limit;

-- name: room_found_messages
-- Some messages, given as {id: …}. To SQLite a CROSS JOIN is an order: else it would go through the room for each.
SELECT m.id, m.company, m.author, m.text, m.thread, m.at_ms, m.steered_by
FROM json_each(:wanted) w CROSS JOIN room_messages m WHERE m.room = :room AND m.id = w.key;

-- name: room_found_lines
-- Some lines of memory that a company may read, given as {id: …}.
SELECT m.id, m.company, m.author, m.text, m.at_ms, m.steered_by
FROM json_each(:wanted) w CROSS JOIN room_memory m WHERE m.room = :room AND m.id = w.key
  AND EXISTS (SELECT 1 FROM room_readers r WHERE r.room = m.room AND r.line = m.id AND r.company IN ('*', :company));

-- name: room_found_passages
-- Some passages, given as {file: {number: …}}.
SELECT p.file AS id, p.number AS part, f.company, f.author, p.text, f.at_ms, f.name, f.version
FROM json_each(:wanted) w CROSS JOIN json_each(w.value) n CROSS JOIN room_passages p CROSS JOIN room_files f
WHERE p.room = :room AND p.file = w.key AND p.number = CAST(n.key AS INTEGER) AND f.room = p.room AND f.id = p.file;
