-- Files in rooms: each put is a version of a name, and stays. The bytes lie in chunks, found by their fingerprint.

-- name, version: within the company that put it. blob: SHA-256 of the bytes. text_state: 'text', 'none', or why there is none.
CREATE TABLE room_files (
    room TEXT NOT NULL,
    id TEXT NOT NULL,
    seq BIGINT NOT NULL,
    company TEXT NOT NULL,
    author TEXT NOT NULL,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    version INTEGER NOT NULL,
    media TEXT NOT NULL,
    size BIGINT NOT NULL,
    blob TEXT NOT NULL,
    text_state TEXT NOT NULL,
    digest TEXT NOT NULL,
    at_ms BIGINT NOT NULL,
    PRIMARY KEY (room, id)
);
CREATE UNIQUE INDEX room_files_in_order ON room_files (room, seq);
CREATE UNIQUE INDEX room_files_by_name ON room_files (room, company, name, version);
CREATE INDEX room_files_by_blob ON room_files (room, blob);

-- Bytes as base64, so that both databases keep them alike. A chunk may be there before the file that it belongs to.
CREATE TABLE room_chunks (
    room TEXT NOT NULL,
    company TEXT NOT NULL,
    blob TEXT NOT NULL,
    number INTEGER NOT NULL,
    data TEXT NOT NULL,
    at_ms BIGINT NOT NULL,
    PRIMARY KEY (room, company, blob, number)
);
CREATE INDEX room_chunks_by_age ON room_chunks (room, company, at_ms);

-- What a file says, in pieces that can be found and shown.
CREATE TABLE room_passages (
    room TEXT NOT NULL,
    file TEXT NOT NULL,
    number INTEGER NOT NULL,
    company TEXT NOT NULL,
    text TEXT NOT NULL,
    PRIMARY KEY (room, file, number)
);

{postgres}
DO 'DECLARE one NAME; BEGIN
    FOREACH one IN ARRAY ARRAY[''room_files'', ''room_chunks'', ''room_passages''] LOOP
        EXECUTE format($q$ALTER TABLE %I ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY$q$, one);
        EXECUTE format($q$CREATE POLICY upkeep ON %I USING (current_setting(''perdure.company'', true) = ''?all'')$q$, one);
        EXECUTE format($q$
            CREATE POLICY seen ON %I FOR SELECT USING (EXISTS (
                SELECT 1 FROM room_seats s
                WHERE s.room = %I.room AND s.company = current_setting(''perdure.company'', true)
            ))
        $q$, one, one);
        EXECUTE format($q$
            CREATE POLICY made ON %I FOR INSERT WITH CHECK (EXISTS (
                SELECT 1 FROM room_seats s
                WHERE s.room = %I.room AND s.company = current_setting(''perdure.company'', true)
                    AND s.company = %I.company
            ))
        $q$, one, one, one);
    END LOOP;
END';
CREATE POLICY removed ON room_chunks FOR DELETE USING (company = current_setting('perdure.company', true));
{end}
