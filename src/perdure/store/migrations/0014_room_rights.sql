-- What may be done in rooms, and on whose word.

-- A company's document for a room: roles and rules, as core/rights.py reads them.
CREATE TABLE room_rights (
    room TEXT NOT NULL,
    company TEXT NOT NULL,
    revision BIGINT NOT NULL,
    document TEXT NOT NULL,
    changed_by TEXT NOT NULL,
    changed_ms BIGINT NOT NULL,
    PRIMARY KEY (room, company)
);

-- What agents declared and was not done, for their next wakes. seq: in the room's ledger.
CREATE TABLE room_refusals (
    room TEXT NOT NULL,
    company TEXT NOT NULL,
    agent TEXT NOT NULL,
    seq BIGINT NOT NULL,
    act TEXT NOT NULL,
    code TEXT NOT NULL,
    rule TEXT NOT NULL,
    at_ms BIGINT NOT NULL,
    PRIMARY KEY (room, company, agent, seq)
) {narrow};

{postgres}
-- Each company's own, while it is in the room: what it allows and what its agents tried is nobody else's to read.
DO 'DECLARE one NAME; BEGIN
    FOREACH one IN ARRAY ARRAY[''room_rights'', ''room_refusals''] LOOP
        EXECUTE format($q$ALTER TABLE %I ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY$q$, one);
        EXECUTE format($q$CREATE POLICY upkeep ON %I USING (current_setting(''perdure.company'', true) = ''?all'')$q$, one);
        EXECUTE format($q$
            CREATE POLICY seen ON %I FOR SELECT USING (EXISTS (
                SELECT 1 FROM room_seats s
                WHERE s.room = %I.room AND s.company = current_setting(''perdure.company'', true)
                    AND s.company = %I.company
            ))
        $q$, one, one, one);
        EXECUTE format($q$
            CREATE POLICY made ON %I FOR INSERT WITH CHECK (EXISTS (
                SELECT 1 FROM room_seats s
                WHERE s.room = %I.room AND s.company = current_setting(''perdure.company'', true)
                    AND s.company = %I.company
            ))
        $q$, one, one, one);
    END LOOP;
END';
CREATE POLICY changed ON room_rights FOR UPDATE USING (
    EXISTS (
        SELECT 1 FROM room_seats s
        WHERE s.room = room_rights.room AND s.company = current_setting('perdure.company', true)
            AND s.company = room_rights.company
    )
);
{end}
