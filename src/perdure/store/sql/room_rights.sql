-- name: put_rights
-- Keep what a company says may be done in a room.
INSERT INTO room_rights (room, company, revision, document, changed_by, changed_ms)
VALUES (:room, :company, :revision, :document, :by, :now_ms)
ON CONFLICT (room, company) DO UPDATE SET
    revision = excluded.revision, document = excluded.document,
    changed_by = excluded.changed_by, changed_ms = excluded.changed_ms;

-- name: rights_of
-- What one company said.
SELECT * FROM room_rights WHERE room = :room AND company = :company;

-- name: rights_in
-- What all companies said.
SELECT company, document FROM room_rights WHERE room = :room ORDER BY company;

-- name: insert_refusal
-- Remember what an agent declared and was not done.
INSERT INTO room_refusals (room, company, agent, seq, act, code, rule, at_ms)
VALUES (:room, :company, :agent, :seq, :act, :code, :rule, :now_ms);

-- name: refusals_of
-- The newest refusals of one agent's acts, the newest first.
SELECT seq, act, code, rule, at_ms FROM room_refusals
WHERE room = :room AND company = :company AND agent = :agent ORDER BY seq DESC LIMIT :limit;

-- name: insert_hold
-- Open a wait for a company's yes to an act in a room. name: of the act; empty in approvals of calls.
INSERT INTO waitpoints (
    shard, execution, address, id, company, kind, state, digest, opened_seq, opened_ms, rules, expires_ms, name
) VALUES (
    :shard, :execution, :address, :id, :company, 'approval', 'open', :digest, :opened_seq, :now_ms, :rules, :expires_ms,
    :act
);
