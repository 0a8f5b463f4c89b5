-- name: insert_schedule
-- Make a schedule; touches no row if there is one of that name.
INSERT INTO schedules (
    company, name, agent, definition, lane, input, cron, zone, missed, paused, next_ms, created_by, created_ms,
    tags, overlap
) VALUES (
    :company, :name, :agent, :definition, :lane, :input, :cron, :zone, :missed, 0, :next_ms, :by, :now_ms,
    :tags, :overlap
)
ON CONFLICT (company, name) DO NOTHING;

-- name: schedule
-- One schedule of a company.
SELECT * FROM schedules WHERE company = :company AND name = :name;

-- name: list_schedules
-- A company's schedules.
SELECT * FROM schedules WHERE company = :company ORDER BY name LIMIT :limit;

-- name: schedules_due
-- Schedules with a tick whose time has come, the longest due first.
SELECT * FROM schedules WHERE paused = 0 AND next_ms <= :now_ms ORDER BY next_ms LIMIT :limit;

-- name: advance_schedule
-- Go on to the next tick, if nobody did so, paused or replaced it since it was read.
UPDATE schedules SET next_ms = :next_ms
WHERE company = :company AND name = :name AND next_ms = :seen_ms AND paused = 0 AND created_ms = :created_ms;

-- name: hold_schedule
-- Lock a schedule, and return it as it is now.
UPDATE schedules SET missed = missed WHERE company = :company AND name = :name RETURNING *;

-- name: note_skipped
-- Remember a tick that began nothing, because what the schedule had begun last had not ended.
UPDATE schedules SET skipped = skipped + 1, skipped_ms = :tick_ms WHERE company = :company AND name = :name;

-- name: note_tick
-- Remember what a schedule began last.
UPDATE schedules SET last_tick_ms = :tick_ms, last_execution = :execution
WHERE company = :company AND name = :name;

-- name: pause_schedule
-- Pause a schedule, or let it go on with its next tick from now.
UPDATE schedules SET paused = :paused, next_ms = :next_ms WHERE company = :company AND name = :name;

-- name: delete_schedule
-- Take a schedule away; what it began goes on.
DELETE FROM schedules WHERE company = :company AND name = :name;
