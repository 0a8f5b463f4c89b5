-- What is read again and again costs what is read, however large the room is.

-- What is about a message or a task, in order: asked for as long as somebody waits for an answer.
CREATE INDEX room_messages_in_thread ON room_messages (room, thread, seq) WHERE thread <> '';

-- seq: the line's. In order for each reader, past lines that are not for that reader: each wake reads the newest.
ALTER TABLE room_readers ADD COLUMN seq BIGINT NOT NULL DEFAULT 0;
{postgres}
SELECT set_config('perdure.company', '?all', true);
{end}
UPDATE room_readers SET seq = COALESCE(
    (SELECT m.seq FROM room_memory m WHERE m.room = room_readers.room AND m.id = room_readers.line), 0
);
CREATE INDEX room_readers_in_order ON room_readers (room, company, seq);
