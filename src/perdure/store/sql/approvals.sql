-- name: insert_approval
-- Open a wait for a person's decision.
INSERT INTO waitpoints (
    shard, execution, address, id, company, kind, state, digest, opened_seq, opened_ms, rules, expires_ms
) VALUES (
    :shard, :execution, :address, :id, :company, 'approval', 'open', :digest, :opened_seq, :now_ms, :rules, :expires_ms
);

-- name: decide_approval
-- Write the decision down.
UPDATE waitpoints SET
    state = :state, decision = :decision, decided_by = :by, reason = :reason, decided_ms = :now_ms,
    digest = :digest, value = :value
WHERE shard = :shard AND execution = :execution AND address = :address AND state = 'open';

-- name: propose_approval
-- Other arguments are to be agreed on: what was said to the former ones does not count for these.
UPDATE waitpoints SET digest = :digest, value = :value
WHERE shard = :shard AND execution = :execution AND address = :address AND state = 'open';

-- name: consume_approval
-- Use an approval up; touches no row unless just this call was approved and is not made yet.
UPDATE waitpoints SET consumed_ms = :now_ms
WHERE shard = :shard AND execution = :execution AND address = :address
  AND state = 'resolved' AND decision IN ('approve', 'edit') AND digest = :digest AND consumed_ms IS NULL;

-- name: insert_vote
-- One person's word; the first one counts.
INSERT INTO votes (shard, execution, address, voter, decision, reason, at_ms)
VALUES (:shard, :execution, :address, :voter, :decision, :reason, :now_ms)
ON CONFLICT (shard, execution, address, voter) DO NOTHING;

-- name: votes_on
-- Who has spoken on an approval, in order.
SELECT voter, decision, reason, at_ms FROM votes
WHERE shard = :shard AND execution = :execution AND address = :address ORDER BY at_ms, voter;

-- name: delete_votes
-- Begin again.
DELETE FROM votes WHERE shard = :shard AND execution = :execution AND address = :address;

-- name: set_expiry
-- Have an approval expire.
INSERT INTO deadlines (shard, execution, address, kind, due_ms)
VALUES (:shard, :execution, :address, 'approval', :due_ms)
ON CONFLICT (shard, execution, address, kind) DO UPDATE SET due_ms = excluded.due_ms;

-- name: delete_expiry
-- Take an approval's deadline off, once.
DELETE FROM deadlines
WHERE shard = :shard AND execution = :execution AND address = :address AND kind = 'approval';

-- name: approvals_due
-- Approvals whose time is over.
SELECT shard, execution, address FROM deadlines
WHERE kind = 'approval' AND due_ms <= :now_ms ORDER BY due_ms LIMIT :limit;

-- name: cancel_of
-- Who cancelled an execution.
SELECT data FROM events
WHERE shard = :shard AND execution = :execution AND kind = 'cancel_requested' ORDER BY seq LIMIT 1;

-- name: starters_of
-- What a log says of who started or forked its execution.
SELECT data FROM events
WHERE shard = :shard AND execution = :execution AND kind IN ('started', 'forked') ORDER BY seq;
