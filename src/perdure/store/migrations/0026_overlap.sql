-- What becomes of a tick while what the schedule began last has not ended: allow, skip. How many were skipped, and the
-- last of them.
ALTER TABLE schedules ADD COLUMN overlap TEXT NOT NULL DEFAULT 'allow';
ALTER TABLE schedules ADD COLUMN skipped BIGINT NOT NULL DEFAULT 0;
ALTER TABLE schedules ADD COLUMN skipped_ms BIGINT;
