-- name: blob
-- What is known of a blob.
SELECT bytes, whole, touched_ms FROM blobs WHERE company = :company AND hash = :hash;

-- name: blob_numbers
-- The numbers of its pieces that are there.
SELECT number FROM blob_chunks WHERE company = :company AND hash = :hash ORDER BY number;

-- name: blob_chunk
-- One of its pieces.
SELECT data FROM blob_chunks WHERE company = :company AND hash = :hash AND number = :number;

-- name: used_blob
-- A blob that a log of the company's refers to.
SELECT b.bytes FROM blob_uses u JOIN blobs b ON b.company = u.company AND b.hash = u.hash
WHERE u.shard = :shard AND u.execution = :execution AND u.hash = :hash AND u.company = :company AND b.whole = 1;

-- name: used_blobs
-- All that a log of the company's refers to.
SELECT u.hash, b.bytes FROM blob_uses u JOIN blobs b ON b.company = u.company AND b.hash = u.hash
WHERE u.shard = :shard AND u.execution = :execution AND u.company = :company AND b.whole = 1 ORDER BY u.hash;

-- name: open_blob
-- Note that somebody is about to send it. One that is there stays, and is not forgotten for now.
INSERT INTO blobs (company, hash, bytes, whole, touched_ms) VALUES (:company, :hash, :bytes, 0, :now_ms)
ON CONFLICT (company, hash) DO UPDATE SET touched_ms = excluded.touched_ms;

-- name: touch_blob
-- Keep it from being forgotten for now. Its row is locked from here on: who forgets it waits, and finds it touched.
UPDATE blobs SET touched_ms = :now_ms WHERE company = :company AND hash = :hash;

-- name: touch_whole_blob
-- The same for one that is referred to.
UPDATE blobs SET touched_ms = :now_ms WHERE company = :company AND hash = :hash AND whole = 1;

-- name: put_chunk
-- Keep a piece of a blob. The first that came with a number stays.
INSERT INTO blob_chunks (company, hash, number, data) VALUES (:company, :hash, :number, :data)
ON CONFLICT (company, hash, number) DO NOTHING;

-- name: finish_blob
-- Let a blob be referred to, if all of its pieces are there.
UPDATE blobs SET whole = 1, touched_ms = :now_ms
WHERE company = :company AND hash = :hash AND bytes = :bytes
    AND (SELECT COUNT(*) FROM blob_chunks c WHERE c.company = :company AND c.hash = :hash) = :chunks;

-- name: use_blob
-- Note that a log refers to a blob.
INSERT INTO blob_uses (shard, execution, hash, company) VALUES (:shard, :execution, :hash, :company)
ON CONFLICT (shard, execution, hash) DO NOTHING;

-- name: blobs_behind
-- A page of the blobs that nobody has touched for a while, the longest first, and whether a log refers to each. The page is
-- cut before that is looked up.
SELECT p.company, p.hash, p.touched_ms,
    EXISTS (SELECT 1 FROM blob_uses u WHERE u.company = p.company AND u.hash = p.hash) AS used
FROM (
    SELECT b.company, b.hash, b.touched_ms FROM blobs b
    WHERE b.touched_ms <= :before_ms AND (b.touched_ms, b.company, b.hash) > (:touched_ms, :company, :hash)
    ORDER BY b.touched_ms, b.company, b.hash LIMIT :limit
) p
ORDER BY p.touched_ms, p.company, p.hash;

-- name: delete_blob
-- Forget a blob, unless somebody touched it meanwhile.
DELETE FROM blobs WHERE company = :company AND hash = :hash AND touched_ms <= :before_ms;

-- name: delete_unwhole_blob
-- Forget one whose pieces do not add up to what they should.
DELETE FROM blobs WHERE company = :company AND hash = :hash AND whole = 0;

-- name: delete_chunks
-- Forget its pieces.
DELETE FROM blob_chunks WHERE company = :company AND hash = :hash;
