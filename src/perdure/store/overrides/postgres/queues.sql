-- name: lock_queues
-- differs because: SQLite has one writer and needs no row lock; here other servers lease from the same queue.
SELECT q.* FROM json_each(:wanted) c CROSS JOIN json_each(c.value) n
JOIN queues q ON q.company = c.key AND q.name = n.key
WHERE q.concurrency IS NOT NULL OR q.rate IS NOT NULL OR q.per_key IS NOT NULL OR q.turn IS NOT NULL
ORDER BY q.company, q.name
FOR UPDATE OF q;

-- name: lock_free_queues
-- differs because: whoever asks holds executions already and must not wait for a queue.
SELECT q.* FROM json_each(:wanted) c CROSS JOIN json_each(c.value) n
JOIN queues q ON q.company = c.key AND q.name = n.key
WHERE q.concurrency IS NOT NULL OR q.rate IS NOT NULL OR q.per_key IS NOT NULL OR q.turn IS NOT NULL
ORDER BY q.company, q.name
FOR UPDATE OF q SKIP LOCKED;
