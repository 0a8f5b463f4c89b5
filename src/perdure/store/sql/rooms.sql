-- name: insert_room
-- Make a room; touches no row if it is there.
INSERT INTO rooms (id, company, name, created_by, created_ms) VALUES (:id, :company, :name, :by, :now_ms)
ON CONFLICT (id) DO NOTHING;

-- name: room
-- A room.
SELECT * FROM rooms WHERE id = :room;

-- name: room_member
-- How a company, or an agent of it, stands to a room.
SELECT * FROM room_members WHERE room = :room AND company = :company AND name = :name;

-- name: put_room_member
-- Say how a company, or an agent of it, stands to a room.
INSERT INTO room_members (room, company, name, state, definition, on_crash, changed_by, changed_ms)
VALUES (:room, :company, :name, :state, :definition, :on_crash, :by, :now_ms)
ON CONFLICT (room, company, name) DO UPDATE SET
    state = excluded.state, definition = excluded.definition, on_crash = excluded.on_crash,
    changed_by = excluded.changed_by, changed_ms = excluded.changed_ms;

-- name: give_room_seat
-- Let a room be there for a company: the host's right.
INSERT INTO room_seats (room, company, host) SELECT id, :company, company FROM rooms WHERE id = :room
ON CONFLICT DO NOTHING;

-- name: room_seat
-- Whether a room is there for a company.
SELECT 1 AS one FROM room_seats WHERE room = :room AND company = :company;

-- name: take_room_seat
-- Let it be there no more.
DELETE FROM room_seats WHERE room = :room AND company = :company;

-- name: remove_room_agents
-- Take all agents of a company out of a room.
UPDATE room_members SET state = :state, changed_by = :by, changed_ms = :now_ms
WHERE room = :room AND company = :company AND name <> '';

-- name: room_members
-- Who is in a room, or was invited.
SELECT company, name, state, definition, on_crash, changed_ms FROM room_members
WHERE room = :room AND state <> 'gone' ORDER BY company, name;

-- name: room_companies
-- The companies that are in a room, or were invited.
SELECT company FROM room_members WHERE room = :room AND name = '' AND state <> 'gone' ORDER BY company;

-- name: count_room_agents
-- How many agents of a company are in a room.
SELECT COUNT(*) AS n FROM room_members WHERE room = :room AND company = :company AND name <> '' AND state = 'joined';

-- name: rooms_of
-- The rooms that a company is in or may join; or the named one of them.
SELECT r.id, r.name, r.company AS host, m.state, r.created_by, r.created_ms
FROM room_members m JOIN rooms r ON r.id = m.room
WHERE m.company = :company AND m.name = '' AND m.state <> 'gone' AND (:room = '' OR m.room = :room)
ORDER BY r.created_ms, r.id;

-- name: insert_room_message
-- Keep a message.
INSERT INTO room_messages (
    room, id, seq, company, author, kind, text, addressed, thread, hops, digest, at_ms, steered_by
) VALUES (
    :room, :id, :seq, :company, :author, :kind, :text, :addressed, :thread, :hops, :digest, :now_ms, :steered_by
);

-- name: room_message
-- One message.
SELECT * FROM room_messages WHERE room = :room AND id = :id;

-- name: room_messages_after
-- Messages of a room, the oldest first: a page that is bounded in size as well as in number, with at least one.
SELECT id, seq, company, author, kind, text, addressed, thread, at_ms, steered_by FROM (
    SELECT m.*, SUM(LENGTH(text)) OVER (ORDER BY seq) - LENGTH(text) AS before FROM room_messages m
    WHERE room = :room AND seq > :after
    ORDER BY seq LIMIT :limit
) page
WHERE before < :most ORDER BY seq;

-- name: room_thread_after
-- A message and what is about it, or what is about a task, the oldest first: bounded likewise.
SELECT id, seq, company, author, kind, text, addressed, thread, at_ms, steered_by FROM (
    SELECT about.*, SUM(LENGTH(text)) OVER (ORDER BY seq) - LENGTH(text) AS before FROM (
        SELECT id, seq, company, author, kind, text, addressed, thread, at_ms, steered_by FROM room_messages
        WHERE room = :room AND id = :thread AND seq > :after
        UNION ALL
        SELECT id, seq, company, author, kind, text, addressed, thread, at_ms, steered_by FROM room_messages
        WHERE room = :room AND thread = :thread AND thread <> '' AND seq > :after
        ORDER BY seq LIMIT :limit
    ) about
) page
WHERE before < :most ORDER BY seq;

-- name: room_messages_last
-- The newest messages of a room up to a place in its ledger, the newest first.
SELECT id, seq, company, author, kind, text, addressed, thread, at_ms, steered_by FROM room_messages
WHERE room = :room AND seq <= :upto ORDER BY seq DESC LIMIT :limit;

-- name: insert_room_task
-- Open a task.
INSERT INTO room_tasks (
    room, id, seq, company, author, kind, title, to_company, to_agent, thread, state, holder, result, hops, digest,
    opened_ms, changed_ms, steered_by
) VALUES (
    :room, :id, :seq, :company, :author, :kind, :title, :to_company, :to_agent, :thread, :state, '', '', :hops, :digest,
    :now_ms, :now_ms, :steered_by
);

-- name: room_task
-- One task.
SELECT * FROM room_tasks WHERE room = :room AND id = :id;

-- name: set_room_task
-- Change a task.
UPDATE room_tasks SET state = :state, holder = :holder, result = :result, changed_ms = :now_ms
WHERE room = :room AND id = :id;

-- name: room_tasks_after
-- Tasks of a room, the oldest first: bounded as messages are.
SELECT * FROM (
    SELECT t.*, SUM(LENGTH(title) + LENGTH(result)) OVER (ORDER BY seq) - LENGTH(title) - LENGTH(result) AS before
    FROM room_tasks t
    WHERE room = :room AND seq > :after
    ORDER BY seq LIMIT :limit
) page
WHERE before < :most ORDER BY seq;

-- name: room_tasks_in
-- Those in one state.
SELECT * FROM (
    SELECT t.*, SUM(LENGTH(title) + LENGTH(result)) OVER (ORDER BY seq) - LENGTH(title) - LENGTH(result) AS before
    FROM room_tasks t
    WHERE room = :room AND state = :state AND seq > :after
    ORDER BY seq LIMIT :limit
) page
WHERE before < :most ORDER BY seq;

-- name: room_tasks_to
-- Those in one state that are for a company or its agents.
SELECT * FROM (
    SELECT t.*, SUM(LENGTH(title) + LENGTH(result)) OVER (ORDER BY seq) - LENGTH(title) - LENGTH(result) AS before
    FROM room_tasks t
    WHERE room = :room AND to_company = :to_company AND state = :state AND seq > :after
    ORDER BY seq LIMIT :limit
) page
WHERE before < :most ORDER BY seq;

-- name: room_tasks_to_agent
-- Those in one state that are for one agent.
SELECT * FROM (
    SELECT t.*, SUM(LENGTH(title) + LENGTH(result)) OVER (ORDER BY seq) - LENGTH(title) - LENGTH(result) AS before
    FROM room_tasks t
    WHERE room = :room AND to_company = :to_company AND to_agent = :to_agent AND to_agent <> '' AND state = :state
      AND seq > :after
    ORDER BY seq LIMIT :limit
) page
WHERE before < :most ORDER BY seq;

-- name: room_tasks_for
-- Tasks that are not closed and that an agent may take on, the oldest first.
SELECT id, seq, company, author, title, to_company, to_agent, thread, state, holder, result, opened_ms,
    changed_ms, steered_by
FROM room_tasks
WHERE room = :room AND to_company = :company AND to_agent IN ('', :agent) AND state IN ('open', 'claimed')
ORDER BY seq LIMIT :limit;

-- name: insert_room_memory
-- Keep a line.
INSERT INTO room_memory (room, id, seq, company, author, text, source, salt, digest, at_ms, steered_by)
VALUES (:room, :id, :seq, :company, :author, :text, :source, :salt, :digest, :now_ms, :steered_by);

-- name: insert_room_reader
-- Let a company read a line.
INSERT INTO room_readers (room, line, company, owner, seq) VALUES (:room, :line, :company, :owner, :seq)
ON CONFLICT (room, line, company) DO NOTHING;

-- name: room_memory_line
-- One line.
SELECT * FROM room_memory WHERE room = :room AND id = :id;

-- name: room_memory_after
-- Lines that a company may read, the oldest first: bounded as messages are.
SELECT id, seq, company, author, text, source, at_ms, steered_by FROM (
    SELECT m.*, SUM(LENGTH(m.text)) OVER (ORDER BY m.seq) - LENGTH(m.text) AS before
    FROM (
        SELECT line, seq FROM room_readers WHERE room = :room AND company = '*' AND seq > :after
        UNION ALL
        SELECT line, seq FROM room_readers WHERE room = :room AND company = :company AND seq > :after
        ORDER BY seq LIMIT :limit
    ) r CROSS JOIN room_memory m WHERE m.room = :room AND m.id = r.line
) page
WHERE before < :most ORDER BY seq;

-- name: room_memory_last
-- The newest lines that a company may read, the newest first.
SELECT m.id, m.seq, m.company, m.author, m.text, m.source, m.at_ms, m.steered_by
FROM (
    SELECT line, seq FROM room_readers WHERE room = :room AND company = '*'
    UNION ALL
    SELECT line, seq FROM room_readers WHERE room = :room AND company = :company
    ORDER BY seq DESC LIMIT :limit
) r CROSS JOIN room_memory m WHERE m.room = :room AND m.id = r.line ORDER BY m.seq DESC;

-- name: room_readers
-- Who may read a line.
SELECT company FROM room_readers WHERE room = :room AND line = :line ORDER BY company;

-- name: insert_room_wake
-- Claim a cause for an agent; touches no row if it was claimed before.
INSERT INTO room_wakes (room, company, agent, cause, execution, at_ms)
VALUES (:room, :company, :agent, :cause, :execution, :now_ms)
ON CONFLICT (room, company, agent, cause) DO NOTHING;

-- name: room_wakes
-- The claims of a room, the newest first.
SELECT company, agent, cause, execution, at_ms FROM room_wakes WHERE room = :room
ORDER BY at_ms DESC, execution DESC LIMIT :limit;

-- name: wake_of
-- The claim that owns an execution, if it is a wake.
SELECT room, company, agent, cause FROM room_wakes WHERE execution = :execution;

-- name: states_of
-- The states of some executions, given as {id: shard}.
SELECT e.id, e.state FROM json_each(:wanted) w
JOIN executions e ON e.shard = CAST(CAST(w.value AS TEXT) AS INTEGER) AND e.id = w.key;

-- name: room_head
-- Where a room's ledger ends. By the room, which is there for its members alone: around executions there is no wall.
SELECT e.next_seq, e.chain FROM rooms r JOIN executions e ON e.id = r.id WHERE r.id = :room AND e.shard = :shard;
