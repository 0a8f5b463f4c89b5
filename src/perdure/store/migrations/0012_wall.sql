-- The second wall: below the application, rows of rooms are there for the company that the transaction speaks for, and for
-- no other. Here by row-level security; a SQLite file's connections bring the same rules along: store/sqlite_wall.py.
-- docs/decisions/0015-the-second-wall.md says what it stops.

-- For whom a room is there: those who are in it or may join. The rules ask this table, and it asks no other.
CREATE TABLE room_seats (
    room TEXT NOT NULL,
    company TEXT NOT NULL,
    host TEXT NOT NULL,
    PRIMARY KEY (room, company)
) {narrow};
INSERT INTO room_seats (room, company, host)
SELECT m.room, m.company, r.company FROM room_members m JOIN rooms r ON r.id = m.room
WHERE m.name = '' AND m.state <> 'gone';

-- Whose the line is: only its owner says who may read it, and no rule about readers has to ask for the line.
ALTER TABLE room_readers ADD COLUMN owner TEXT NOT NULL DEFAULT '';
UPDATE room_readers SET owner = COALESCE(
    (SELECT m.company FROM room_memory m WHERE m.room = room_readers.room AND m.id = room_readers.line), ''
);

{postgres}
-- What looks after the whole store (a check, a copy) speaks for all. Without a company, nothing is there.
DO 'DECLARE one NAME; BEGIN
    FOREACH one IN ARRAY ARRAY[
        ''rooms'', ''room_seats'', ''room_members'', ''room_messages'', ''room_tasks'', ''room_memory'', ''room_readers'',
        ''room_wakes''
    ] LOOP
        EXECUTE format($q$ALTER TABLE %I ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY$q$, one);
        EXECUTE format($q$CREATE POLICY upkeep ON %I USING (current_setting(''perdure.company'', true) = ''?all'')$q$, one);
    END LOOP;
END';

CREATE POLICY seen ON room_seats FOR SELECT USING (current_setting('perdure.company', true) IN (company, host));
CREATE POLICY given ON room_seats FOR INSERT WITH CHECK (
    host = current_setting('perdure.company', true)
    AND EXISTS (SELECT 1 FROM rooms r WHERE r.id = room_seats.room AND r.company = room_seats.host)
);
CREATE POLICY taken ON room_seats FOR DELETE USING (current_setting('perdure.company', true) IN (company, host));

CREATE POLICY seen ON rooms FOR SELECT USING (
    company = current_setting('perdure.company', true)
    OR EXISTS (
        SELECT 1 FROM room_seats s WHERE s.room = rooms.id AND s.company = current_setting('perdure.company', true)
    )
);
CREATE POLICY made ON rooms FOR INSERT WITH CHECK (company = current_setting('perdure.company', true));

CREATE POLICY seen ON room_members FOR SELECT USING (
    EXISTS (
        SELECT 1 FROM room_seats s
        WHERE s.room = room_members.room AND s.company = current_setting('perdure.company', true)
    )
);
CREATE POLICY made ON room_members FOR INSERT WITH CHECK (
    EXISTS (
        SELECT 1 FROM room_seats s
        WHERE s.room = room_members.room AND s.company = current_setting('perdure.company', true)
            AND s.company IN (s.host, room_members.company)
    )
);
CREATE POLICY changed ON room_members FOR UPDATE USING (
    EXISTS (
        SELECT 1 FROM room_seats s
        WHERE s.room = room_members.room AND s.company = current_setting('perdure.company', true)
            AND s.company IN (s.host, room_members.company)
    )
);

CREATE POLICY seen ON room_messages FOR SELECT USING (
    EXISTS (
        SELECT 1 FROM room_seats s
        WHERE s.room = room_messages.room AND s.company = current_setting('perdure.company', true)
    )
);
CREATE POLICY made ON room_messages FOR INSERT WITH CHECK (
    EXISTS (
        SELECT 1 FROM room_seats s
        WHERE s.room = room_messages.room AND s.company = current_setting('perdure.company', true)
            AND s.company = room_messages.company
    )
);

CREATE POLICY seen ON room_tasks FOR SELECT USING (
    EXISTS (
        SELECT 1 FROM room_seats s
        WHERE s.room = room_tasks.room AND s.company = current_setting('perdure.company', true)
    )
);
CREATE POLICY made ON room_tasks FOR INSERT WITH CHECK (
    EXISTS (
        SELECT 1 FROM room_seats s
        WHERE s.room = room_tasks.room AND s.company = current_setting('perdure.company', true)
            AND s.company = room_tasks.company
    )
);
CREATE POLICY changed ON room_tasks FOR UPDATE USING (
    EXISTS (
        SELECT 1 FROM room_seats s
        WHERE s.room = room_tasks.room AND s.company = current_setting('perdure.company', true)
            AND s.company IN (room_tasks.company, room_tasks.to_company)
    )
);

CREATE POLICY seen ON room_readers FOR SELECT USING (
    EXISTS (
        SELECT 1 FROM room_seats s
        WHERE s.room = room_readers.room AND s.company = current_setting('perdure.company', true)
    )
);
CREATE POLICY made ON room_readers FOR INSERT WITH CHECK (
    EXISTS (
        SELECT 1 FROM room_seats s
        WHERE s.room = room_readers.room AND s.company = current_setting('perdure.company', true)
            AND s.company = room_readers.owner
    )
);

CREATE POLICY seen ON room_memory FOR SELECT USING (
    EXISTS (
        SELECT 1 FROM room_seats s
        WHERE s.room = room_memory.room AND s.company = current_setting('perdure.company', true)
    )
    AND (
        company = current_setting('perdure.company', true)
        OR EXISTS (
            SELECT 1 FROM room_readers r WHERE r.room = room_memory.room AND r.line = room_memory.id
                AND r.owner = room_memory.company AND r.company IN ('*', current_setting('perdure.company', true))
        )
    )
);
CREATE POLICY made ON room_memory FOR INSERT WITH CHECK (
    EXISTS (
        SELECT 1 FROM room_seats s
        WHERE s.room = room_memory.room AND s.company = current_setting('perdure.company', true)
            AND s.company = room_memory.company
    )
);

CREATE POLICY seen ON room_wakes FOR SELECT USING (
    EXISTS (
        SELECT 1 FROM room_seats s
        WHERE s.room = room_wakes.room AND s.company = current_setting('perdure.company', true)
    )
);
CREATE POLICY made ON room_wakes FOR INSERT WITH CHECK (
    EXISTS (
        SELECT 1 FROM room_seats s
        WHERE s.room = room_wakes.room AND s.company = current_setting('perdure.company', true)
    )
);
{end}
