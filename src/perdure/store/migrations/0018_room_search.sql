-- What is found in rooms: an entry for each message, each line of memory and each passage of a file's newest version, and
-- for each who may read it. docs/decisions/0017-search-in-rooms.md says why it is so.

-- reader: a company, or '*' for all in the room. part: of a passage, its number. number: a fingerprint of room, reader, id
-- and part. words: the different words of the text, as core/room_search.py cuts them, with spaces between.
CREATE TABLE room_entries (
    number BIGINT NOT NULL PRIMARY KEY,
    room TEXT NOT NULL,
    company TEXT NOT NULL, -- whose the text is
    reader TEXT NOT NULL,
    kind TEXT NOT NULL,
    id TEXT NOT NULL,
    part INTEGER NOT NULL,
    seq BIGINT NOT NULL, -- in the room's ledger
    words TEXT NOT NULL
);
CREATE UNIQUE INDEX room_entries_of ON room_entries (room, reader, id, part);

{sqlite}
-- In the index every word bears the room and the reader that it is for. So a search walks over entries that the asking
-- company may read and no other: what others wrote, or how much, is not in its time, its counts or its ranks.
CREATE VIRTUAL TABLE room_words USING fts5 (
    words, content = '', detail = none, columnsize = 0, tokenize = "ascii tokenchars '_'"
);
CREATE TRIGGER room_entries_made AFTER INSERT ON room_entries BEGIN
    INSERT INTO room_words (rowid, words) VALUES (
        NEW.number,
        NEW.room || '_' || HEX(NEW.reader) || '_'
            || REPLACE(NEW.words, ' ', ' ' || NEW.room || '_' || HEX(NEW.reader) || '_')
    ){then}
END;
CREATE TRIGGER room_entries_removed AFTER DELETE ON room_entries BEGIN
    INSERT INTO room_words (room_words, rowid, words) VALUES (
        'delete',
        OLD.number,
        OLD.room || '_' || HEX(OLD.reader) || '_'
            || REPLACE(OLD.words, ' ', ' ' || OLD.room || '_' || HEX(OLD.reader) || '_')
    ){then}
END;
{end}

{postgres}
-- No index on it: below a wall PostgreSQL uses none for @@, which might tell of rows that the wall hides.
ALTER TABLE room_entries ADD COLUMN terms TSVECTOR
    GENERATED ALWAYS AS (array_to_tsvector(string_to_array(words, ' '))) STORED;

ALTER TABLE room_entries ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY upkeep ON room_entries USING (current_setting('perdure.company', true) = '?all');
CREATE POLICY seen ON room_entries FOR SELECT USING (
    reader IN ('*', current_setting('perdure.company', true))
    AND EXISTS (
        SELECT 1 FROM room_seats s
        WHERE s.room = room_entries.room AND s.company = current_setting('perdure.company', true)
    )
);
CREATE POLICY made ON room_entries FOR INSERT WITH CHECK (
    EXISTS (
        SELECT 1 FROM room_seats s
        WHERE s.room = room_entries.room AND s.company = current_setting('perdure.company', true)
            AND s.company = room_entries.company
    )
);
-- Of a file whose newer version takes its place.
CREATE POLICY removed ON room_entries FOR DELETE USING (
    company = current_setting('perdure.company', true) AND kind = 'file'
);
{end}
