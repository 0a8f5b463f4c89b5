-- What stops agents in rooms: budgets, and the word of whoever may say stop.

-- A company's own caps on a day. room, agent: '' is all.
CREATE TABLE room_budgets (
    company TEXT NOT NULL,
    room TEXT NOT NULL,
    agent TEXT NOT NULL,
    usd_micros BIGINT,
    tokens BIGINT,
    unpriced_micros BIGINT, -- what a request counts for whose price nobody knows
    changed_by TEXT NOT NULL,
    changed_ms BIGINT NOT NULL,
    PRIMARY KEY (company, room, agent)
) {narrow};

-- What was spent on a day of the store's clock, in UTC, by what may have a budget. The row of the company alone is
-- locked by whoever changes any of it.
CREATE TABLE room_spending (
    company TEXT NOT NULL,
    room TEXT NOT NULL,
    agent TEXT NOT NULL,
    day BIGINT NOT NULL,
    reserved_micros BIGINT NOT NULL,
    reserved_tokens BIGINT NOT NULL,
    spent_micros BIGINT NOT NULL,
    spent_tokens BIGINT NOT NULL,
    PRIMARY KEY (company, room, agent, day)
) {narrow};

-- A request to a model that is under way, or whose end nobody saw.
CREATE TABLE room_reservations (
    shard INTEGER NOT NULL,
    execution TEXT NOT NULL,
    nonce TEXT NOT NULL,
    company TEXT NOT NULL,
    room TEXT NOT NULL,
    agent TEXT NOT NULL,
    day BIGINT NOT NULL,
    usd_micros BIGINT NOT NULL,
    tokens BIGINT NOT NULL,
    fence BIGINT NOT NULL,
    PRIMARY KEY (shard, execution, nonce)
) {narrow};

-- Who may do nothing in a room for now. company '' is everybody there; agent '' is the whole company.
CREATE TABLE room_stops (
    room TEXT NOT NULL,
    company TEXT NOT NULL,
    agent TEXT NOT NULL,
    by_company TEXT NOT NULL,
    by_name TEXT NOT NULL,
    reason TEXT NOT NULL,
    at_ms BIGINT NOT NULL,
    PRIMARY KEY (room, company, agent)
) {narrow};

-- Wakes that were paused because of a stop or a budget, and go on when it is lifted.
CREATE TABLE room_halted (
    shard INTEGER NOT NULL,
    execution TEXT NOT NULL,
    room TEXT NOT NULL,
    company TEXT NOT NULL,
    agent TEXT NOT NULL,
    why TEXT NOT NULL,
    PRIMARY KEY (shard, execution)
) {narrow};
CREATE INDEX room_halted_in ON room_halted (room, why);
CREATE INDEX room_halted_of ON room_halted (company, why);

{postgres}
DO 'DECLARE one NAME; BEGIN
    FOREACH one IN ARRAY ARRAY[
        ''room_budgets'', ''room_spending'', ''room_reservations'', ''room_stops'', ''room_halted''
    ] LOOP
        EXECUTE format($q$ALTER TABLE %I ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY$q$, one);
        EXECUTE format($q$CREATE POLICY upkeep ON %I USING (current_setting(''perdure.company'', true) = ''?all'')$q$, one);
    END LOOP;
    -- Money is each company''s own, in whatever room it was spent.
    FOREACH one IN ARRAY ARRAY[''room_budgets'', ''room_spending'', ''room_reservations''] LOOP
        EXECUTE format($q$CREATE POLICY own ON %I USING (company = current_setting(''perdure.company'', true))$q$, one);
    END LOOP;
END';

-- All who are in a room see who may do nothing there. The host stops anybody, every company its own.
CREATE POLICY seen ON room_stops FOR SELECT USING (
    EXISTS (
        SELECT 1 FROM room_seats s
        WHERE s.room = room_stops.room AND s.company = current_setting('perdure.company', true)
    )
);
CREATE POLICY made ON room_stops FOR INSERT WITH CHECK (
    EXISTS (
        SELECT 1 FROM room_seats s
        WHERE s.room = room_stops.room AND s.company = current_setting('perdure.company', true)
            AND s.company = room_stops.by_company AND s.company IN (s.host, room_stops.company)
    )
);
CREATE POLICY removed ON room_stops FOR DELETE USING (
    EXISTS (
        SELECT 1 FROM room_seats s
        WHERE s.room = room_stops.room AND s.company = current_setting('perdure.company', true)
            AND s.company IN (s.host, room_stops.company)
    )
);

-- The host lets wakes of all go on. They are written for all: the company of one may have left.
CREATE POLICY seen ON room_halted FOR SELECT USING (
    company = current_setting('perdure.company', true)
    OR EXISTS (
        SELECT 1 FROM room_seats s
        WHERE s.room = room_halted.room AND s.company = current_setting('perdure.company', true) AND s.company = s.host
    )
);
CREATE POLICY removed ON room_halted FOR DELETE USING (
    company = current_setting('perdure.company', true)
    OR EXISTS (
        SELECT 1 FROM room_seats s
        WHERE s.room = room_halted.room AND s.company = current_setting('perdure.company', true) AND s.company = s.host
    )
);
{end}
