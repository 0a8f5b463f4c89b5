-- Whose text was before the agent that wrote it, its own company's apart, as JSON: it goes on where the content goes.
ALTER TABLE room_messages ADD COLUMN steered_by TEXT NOT NULL DEFAULT '[]';
ALTER TABLE room_tasks ADD COLUMN steered_by TEXT NOT NULL DEFAULT '[]';
ALTER TABLE room_memory ADD COLUMN steered_by TEXT NOT NULL DEFAULT '[]';
