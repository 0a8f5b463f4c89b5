-- Vectors of what rooms hold. How they are compared is Python's: see engine/room_vectors.py.

-- name: entries_without_vector
-- Some entries that have a vector neither of this model nor of a later one, with their words, behind a model and a room. For
-- who speaks for all.
SELECT e.number, e.words, e.model, e.room FROM room_entries e
WHERE (e.model, e.room) > (:after_model, :after_room) AND e.model < :model
ORDER BY e.model, e.room LIMIT :limit;

-- name: take_room_entries
-- Those of some entries, given as {number: 0}, of which that is still so.
SELECT e.number FROM json_each(:wanted) w CROSS JOIN room_entries e
WHERE e.number = CAST(w.key AS BIGINT) AND e.model < :model;

-- name: keep_room_vector
-- Keep the vector of an entry; nothing where it has one of this model or of a later one, or is gone.
UPDATE room_entries SET model = :model, vector = :vector WHERE number = :number AND model < :model;

-- name: room_vectors
-- The newest entries that a company may read and that have a vector of this model, the newest first.
SELECT f.number, f.vector FROM (
    SELECT a.number, a.seq, a.part, a.vector FROM (
        SELECT e.number, e.seq, e.part, e.vector FROM room_entries e
        WHERE e.model = :model AND e.room = :room AND e.reader = '*' AND e.seq <= :upto AND e.vector <> ''
          AND e.kind IN (:messages, :lines, :files)
        ORDER BY e.seq DESC, e.part DESC LIMIT :most
    ) a
    UNION ALL
    SELECT o.number, o.seq, o.part, o.vector FROM (
        SELECT e.number, e.seq, e.part, e.vector FROM room_entries e
        WHERE e.model = :model AND e.room = :room AND e.reader = :company AND e.seq <= :upto AND e.vector <> ''
          AND e.kind IN (:messages, :lines, :files)
        ORDER BY e.seq DESC, e.part DESC LIMIT :most
    ) o
) f ORDER BY f.seq DESC, f.part DESC LIMIT :most;

-- name: room_entries_numbered
-- Some entries that a company may read, given as {number: 0}.
SELECT e.number, e.kind, e.id, e.part, e.seq, e.words FROM json_each(:wanted) w CROSS JOIN room_entries e
WHERE e.number = CAST(w.key AS BIGINT) AND e.room = :room AND e.reader IN ('*', :company) AND e.seq <= :upto
  AND e.kind IN (:messages, :lines, :files);
