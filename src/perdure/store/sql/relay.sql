-- name: keep_relay_onlooker
-- Say that somebody looks on at an execution from a server that does not hold it, or still does.
INSERT INTO relay_onlookers (shard, execution, since_ms, until_ms) VALUES (:shard, :execution, :now_ms, :until_ms)
ON CONFLICT (shard, execution) DO UPDATE SET until_ms = excluded.until_ms WHERE relay_onlookers.until_ms < excluded.until_ms;

-- name: relay_onlookers_at
-- At which of some executions, given as {id: shard}, somebody looks on from elsewhere, and how far their logs go.
SELECT w.execution, w.since_ms, e.next_seq - 1 AS head FROM json_each(:wanted) x
JOIN relay_onlookers w ON w.shard = CAST(CAST(x.value AS TEXT) AS INTEGER) AND w.execution = x.key
JOIN executions e ON e.shard = w.shard AND e.id = w.execution
WHERE w.until_ms > :now_ms;

-- name: relayed
-- Of some executions: how far the log goes, who holds them, until when somebody looks on, and the replies in the
-- making with what comes next of their texts. Given as {id: {shard: {reply: how much of it is known}}}. Not those of an
-- earlier holder, nor those that are recorded.
SELECT e.id AS execution, e.next_seq - 1 AS head, o.holder, w.until_ms,
    r.reply, r.address, r.attempt, r.fence, r.told, p.begins, p.piece
FROM json_each(:wanted) x CROSS JOIN json_each(x.value) s
JOIN executions e ON e.shard = CAST(s.key AS INTEGER) AND e.id = x.key
LEFT JOIN owned o ON o.shard = e.shard AND o.execution = e.id
LEFT JOIN relay_onlookers w ON w.shard = e.shard AND w.execution = e.id
LEFT JOIN relay_replies r ON r.shard = e.shard AND r.execution = e.id AND r.fence = e.fence AND NOT EXISTS (
    SELECT 1 FROM events n WHERE n.shard = r.shard AND n.execution = r.execution AND n.seq > r.since_seq
      AND n.address = r.address AND n.kind = 'step_recorded'
)
LEFT JOIN json_each(s.value) k ON k.key = r.reply
LEFT JOIN relay_pieces p ON p.shard = r.shard AND p.execution = r.execution AND p.reply = r.reply
    AND p.begins >= COALESCE(CAST(CAST(k.value AS TEXT) AS BIGINT), 0)
    AND p.begins < COALESCE(CAST(CAST(k.value AS TEXT) AS BIGINT), 0) + :most
ORDER BY e.id, r.reply, p.begins;

-- name: drop_relay_pieces
-- Take away what was told of a step's reply, by this holder and those before it.
DELETE FROM relay_pieces WHERE shard = :shard AND execution = :execution AND reply IN (
    SELECT r.reply FROM relay_replies r
    WHERE r.shard = :shard AND r.execution = :execution AND r.address = :address AND r.fence <= :fence
);

-- name: drop_relay_replies
-- Take those replies away themselves.
DELETE FROM relay_replies
WHERE shard = :shard AND execution = :execution AND address = :address AND fence <= :fence;

-- name: insert_relay_reply
-- Tell that a model is asked. A batch that is run again may have told it.
INSERT INTO relay_replies (shard, execution, reply, fence, address, attempt, since_seq, told)
VALUES (:shard, :execution, :reply, :fence, :address, :attempt, :since_seq, :told)
ON CONFLICT (shard, execution, reply) DO NOTHING;

-- name: insert_relay_piece
-- Tell what it says.
INSERT INTO relay_pieces (shard, execution, reply, begins, piece)
VALUES (:shard, :execution, :reply, :begins, :piece)
ON CONFLICT (shard, execution, reply, begins) DO NOTHING;

-- name: any_relay_left
-- Whether somebody looked on, and that long ago.
SELECT 1 AS one FROM relay_onlookers WHERE until_ms < :before_ms LIMIT 1;

-- name: sweep_relay_onlookers
-- Forget who looked on long ago.
DELETE FROM relay_onlookers WHERE until_ms < :before_ms;

-- name: sweep_relay_replies
-- Take away what nobody looks on at: whoever told it died.
DELETE FROM relay_replies WHERE NOT EXISTS (
    SELECT 1 FROM relay_onlookers o WHERE o.shard = relay_replies.shard AND o.execution = relay_replies.execution
);

-- name: sweep_relay_pieces
-- Likewise.
DELETE FROM relay_pieces WHERE NOT EXISTS (
    SELECT 1 FROM relay_onlookers o WHERE o.shard = relay_pieces.shard AND o.execution = relay_pieces.execution
);

-- name: forget_relay_onlookers
-- Who looked on at an execution.
DELETE FROM relay_onlookers WHERE shard = :shard AND execution = :execution;

-- name: forget_relay_replies
-- What was told of it.
DELETE FROM relay_replies WHERE shard = :shard AND execution = :execution;

-- name: forget_relay_pieces
-- Likewise.
DELETE FROM relay_pieces WHERE shard = :shard AND execution = :execution;
