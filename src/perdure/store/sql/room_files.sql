-- name: insert_room_chunk
-- Keep a piece of a file's bytes; touches no row if it is there.
INSERT INTO room_chunks (room, company, blob, number, data, at_ms)
VALUES (:room, :company, :blob, :number, :data, :now_ms)
ON CONFLICT (room, company, blob, number) DO NOTHING;

-- name: drop_room_chunks
-- Forget a company's chunks that were sent long ago and belong to no file.
DELETE FROM room_chunks WHERE room = :room AND company = :company AND at_ms < :before AND NOT EXISTS (
    SELECT 1 FROM room_files f
    WHERE f.room = room_chunks.room AND f.blob = room_chunks.blob AND f.company = room_chunks.company
);

-- name: room_chunk_numbers
-- Which pieces a company has sent under a fingerprint.
SELECT number FROM room_chunks WHERE room = :room AND company = :company AND blob = :blob;

-- name: count_unused_chunks
-- How many of the pieces that a company has sent since a moment belong to no file.
SELECT COUNT(*) AS n FROM room_chunks c WHERE c.room = :room AND c.company = :company AND c.at_ms >= :since
  AND NOT EXISTS (SELECT 1 FROM room_files f WHERE f.room = c.room AND f.blob = c.blob AND f.company = c.company);

-- name: drop_room_blob
-- Forget what a company has sent under a fingerprint.
DELETE FROM room_chunks WHERE room = :room AND company = :company AND blob = :blob;

-- name: room_chunk
-- One piece of a company's bytes.
SELECT data, at_ms FROM room_chunks WHERE room = :room AND company = :company AND blob = :blob AND number = :number;

-- name: room_chunks_sent
-- How many of the first pieces are there, and all the times together at which they were sent.
SELECT COUNT(*) AS n, COALESCE(SUM(at_ms), 0) AS sent_ms FROM room_chunks
WHERE room = :room AND company = :company AND blob = :blob AND number < :chunks;

-- name: insert_room_file
-- Keep a version of a file.
INSERT INTO room_files (
    room, id, seq, company, author, kind, name, version, media, size, blob, text_state, digest, at_ms
) VALUES (
    :room, :id, :seq, :company, :author, :kind, :name, :version, :media, :size, :blob, :text_state, :digest, :now_ms
);

-- name: insert_room_passage
-- Keep a piece of what a file says.
INSERT INTO room_passages (room, file, number, company, text) VALUES (:room, :file, :number, :company, :text);

-- name: room_file
-- One version of a file.
SELECT * FROM room_files WHERE room = :room AND id = :id;

-- name: room_file_version
-- How many versions a company's file of this name has.
SELECT COALESCE(MAX(version), 0) AS version FROM room_files
WHERE room = :room AND company = :company AND name = :name;

-- name: room_file_bytes
-- How much a room's files hold.
SELECT COALESCE(SUM(size), 0) AS size FROM room_files WHERE room = :room;

-- name: room_files_after
-- Versions of files, the oldest first; an empty name matches all, `newest` leaves out those that have a later one.
SELECT f.* FROM room_files f WHERE f.room = :room AND f.seq > :after AND (:name = '' OR f.name = :name)
  AND (:newest = 0 OR NOT EXISTS (
    SELECT 1 FROM room_files n
    WHERE n.room = f.room AND n.company = f.company AND n.name = f.name AND n.version > f.version
  ))
ORDER BY f.seq LIMIT :limit;

-- name: room_passages_of
-- What a file says, in order.
SELECT number, text FROM room_passages WHERE room = :room AND file = :file AND number >= :first
ORDER BY number LIMIT :limit;
