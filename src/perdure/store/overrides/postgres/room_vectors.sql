-- name: take_room_entries
-- differs because: on PostgreSQL others write meanwhile; what they have locked is left to the next pass, and nothing waits.
SELECT e.number FROM json_each(:wanted) w CROSS JOIN room_entries e
WHERE e.number = CAST(w.key AS BIGINT) AND e.model < :model
FOR UPDATE OF e SKIP LOCKED;
