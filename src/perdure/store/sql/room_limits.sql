-- name: put_budget
-- Keep a company's cap.
INSERT INTO room_budgets (company, room, agent, usd_micros, tokens, unpriced_micros, changed_by, changed_ms)
VALUES (:company, :room, :agent, :usd_micros, :tokens, :unpriced_micros, :by, :now_ms)
ON CONFLICT (company, room, agent) DO UPDATE SET
    usd_micros = excluded.usd_micros, tokens = excluded.tokens, unpriced_micros = excluded.unpriced_micros,
    changed_by = excluded.changed_by, changed_ms = excluded.changed_ms;

-- name: delete_budget
-- Take a cap away.
DELETE FROM room_budgets WHERE company = :company AND room = :room AND agent = :agent;

-- name: budgets_of
-- A company's caps.
SELECT room, agent, usd_micros, tokens, unpriced_micros FROM room_budgets WHERE company = :company ORDER BY room, agent;

-- name: lock_purse
-- See that nobody else changes what a company has spent on a day, until this transaction ends.
INSERT INTO room_spending (
    company, room, agent, day, reserved_micros, reserved_tokens, spent_micros, spent_tokens
) VALUES (:company, '', '', :day, 0, 0, 0, 0)
ON CONFLICT (company, room, agent, day) DO UPDATE SET reserved_micros = room_spending.reserved_micros;

-- name: spending_of
-- What a company has spent on a day.
SELECT room, agent, reserved_micros, reserved_tokens, spent_micros, spent_tokens FROM room_spending
WHERE company = :company AND day = :day;

-- name: add_spending
-- Add to what was spent or reserved on a day; what is taken back is below zero.
INSERT INTO room_spending (
    company, room, agent, day, reserved_micros, reserved_tokens, spent_micros, spent_tokens
) VALUES (:company, :room, :agent, :day, :reserved_micros, :reserved_tokens, :spent_micros, :spent_tokens)
ON CONFLICT (company, room, agent, day) DO UPDATE SET
    reserved_micros = room_spending.reserved_micros + excluded.reserved_micros,
    reserved_tokens = room_spending.reserved_tokens + excluded.reserved_tokens,
    spent_micros = room_spending.spent_micros + excluded.spent_micros,
    spent_tokens = room_spending.spent_tokens + excluded.spent_tokens;

-- name: forget_spending
-- Forget the days before one.
DELETE FROM room_spending WHERE company = :company AND day < :day;

-- name: insert_reservation
-- A request is about to be made; touches no row if that was said before.
INSERT INTO room_reservations (shard, execution, nonce, company, room, agent, day, usd_micros, tokens, fence)
VALUES (:shard, :execution, :nonce, :company, :room, :agent, :day, :usd_micros, :tokens, :fence)
ON CONFLICT (shard, execution, nonce) DO NOTHING;

-- name: reservation
-- One request.
SELECT * FROM room_reservations WHERE shard = :shard AND execution = :execution AND nonce = :nonce;

-- name: reservations_before
-- Requests of holders that are gone.
SELECT * FROM room_reservations WHERE shard = :shard AND execution = :execution AND fence < :fence;

-- name: delete_reservation
-- A request is over.
DELETE FROM room_reservations WHERE shard = :shard AND execution = :execution AND nonce = :nonce;

-- name: forget_reservations
-- What is left of an execution's requests: it stays counted.
DELETE FROM room_reservations WHERE shard = :shard AND execution = :execution;

-- name: put_stop
-- Have somebody do nothing in a room for now; touches no row if that was said before.
INSERT INTO room_stops (room, company, agent, by_company, by_name, reason, at_ms)
VALUES (:room, :company, :agent, :by_company, :by_name, :reason, :now_ms)
ON CONFLICT (room, company, agent) DO NOTHING;

-- name: room_stop
-- Who has stopped somebody in a room.
SELECT by_company, by_name FROM room_stops WHERE room = :room AND company = :company AND agent = :agent;

-- name: delete_stop
-- Let them go on.
DELETE FROM room_stops WHERE room = :room AND company = :company AND agent = :agent;

-- name: stop_on
-- What keeps a member of a room from acting, the widest first. everywhere: 1 of what holds in all rooms.
SELECT company, '' AS agent, by_company, by_name, reason, at_ms, 1 AS everywhere FROM company_stops
WHERE company = :company
UNION ALL
SELECT company, agent, by_company, by_name, reason, at_ms, 0 AS everywhere FROM room_stops
WHERE room = :room AND company IN ('', :company) AND agent IN ('', :agent)
ORDER BY everywhere DESC, company, agent LIMIT 1;

-- name: stops_in
-- All that is stopped in a room, and those in it that are stopped in all rooms.
SELECT company, agent, by_company, by_name, reason, at_ms, 0 AS everywhere FROM room_stops WHERE room = :room
UNION ALL
SELECT s.company, '' AS agent, s.by_company, s.by_name, s.reason, s.at_ms, 1 AS everywhere
FROM company_stops s JOIN room_members m ON m.company = s.company AND m.name = '' AND m.state = :joined
WHERE m.room = :room
ORDER BY company, agent, everywhere;

-- name: insert_halted
-- Remember a wake that was paused.
INSERT INTO room_halted (shard, execution, room, company, agent, why)
VALUES (:shard, :execution, :room, :company, :agent, :why)
ON CONFLICT (shard, execution) DO UPDATE SET why = excluded.why;

-- name: halted_in
-- Wakes that a stop has paused in a room.
SELECT company, agent, shard, execution FROM room_halted WHERE room = :room AND why = 'stopped' ORDER BY execution;

-- name: halted_of
-- Wakes of a company that a stop has paused, in whatever room.
SELECT room, company, agent, shard, execution FROM room_halted
WHERE company = :company AND why = 'stopped' ORDER BY execution;

-- name: put_company_stop
-- Have a company do nothing in any room for now; touches no row if that was said before.
INSERT INTO company_stops (company, by_company, by_name, reason, at_ms)
VALUES (:company, :by_company, :by_name, :reason, :now_ms)
ON CONFLICT (company) DO NOTHING;

-- name: take_company_stop
-- Have a stop that a company has set itself be somebody else's.
UPDATE company_stops SET by_company = :by_company, by_name = :by_name, reason = :reason, at_ms = :now_ms
WHERE company = :company AND by_company = company AND by_company <> :by_company;

-- name: company_stop
-- Who has stopped a company in all rooms.
SELECT by_company, by_name FROM company_stops WHERE company = :company;

-- name: delete_company_stop
-- Let it go on.
DELETE FROM company_stops WHERE company = :company;

-- name: halted_for
-- Wakes of a company that a budget has paused.
SELECT room, agent, shard, execution FROM room_halted WHERE company = :company AND why = 'budget' ORDER BY execution;

-- name: forget_halted
-- Forget that an execution was paused: it goes on, or is there no more.
DELETE FROM room_halted WHERE shard = :shard AND execution = :execution;
