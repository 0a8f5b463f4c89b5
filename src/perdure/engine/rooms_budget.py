"""Reserve what a request of a wake to its model may cost, before it is made, and settle it after: in the store.

All that a company has spent changes under the lock of one row, its purse of the day. So however many servers ask at
once, what is reserved and spent never passes a cap. A request whose holder died counts for what it was reserved for: it
may have been billed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from perdure.core.budgets import DAY_MS, Budget, BudgetView, Need, Spent, charge_of, micros_of, named, over, usd_of
from perdure.core.rooms import Actor
from perdure.engine.record import held_by, lost
from perdure.engine.rooms_stops import let_go_on
from perdure.errors import LeaseLost
from perdure.store.operation import Steps, operation
from perdure.store.protocol import Reads, Ref, Row
from perdure.store.tx import Tx

BUDGET = "budget"
"""Why a wake was paused."""
KEPT_DAYS = 62
"""For how long it is remembered what a day has seen."""


@dataclass(frozen=True, slots=True)
class Reserve:
    """A request that a wake wants to make."""

    ref: Ref
    fence: int
    nonce: str
    whose: tuple[str, str, str]
    """Company, room and agent."""
    need: Need
    company: str = ""
    """Empty: only servers hold wakes."""


@dataclass(frozen=True, slots=True)
class OverBudget:
    """It may not be made. `why` names the budget, and when there is one again."""

    why: str


@dataclass(frozen=True, slots=True)
class Settle:
    """How a request ended."""

    ref: Ref
    nonce: str
    payer: str
    """The company whose agent asked."""
    micros: int | None = None
    """None: not known, and counted for what was reserved."""
    tokens: int | None = None


@dataclass(frozen=True, slots=True)
class SetBudget:
    """A company's cap, or that it has none any more."""

    actor: Actor
    budget: Budget
    remove: bool = False


@operation()
def reserve(tx: Tx, rows: Sequence[Reserve]) -> Steps[OverBudget | LeaseLost | None]:
    """Reserve, for the holder alone. The same again changes nothing. What holders before it reserved is spent."""
    yield [row.ref for row in rows]
    # Purses are locked in one order, whatever the order of the rows.
    done = {row.nonce: _reserve(tx, row) for row in sorted(rows, key=lambda row: row.whose)}
    return [done[row.nonce] for row in rows]


def _reserve(tx: Tx, row: Reserve) -> OverBudget | LeaseLost | None:
    if held_by(tx, row) is None:
        return lost(row.ref)
    company, room, agent = row.whose
    tx.speak_for(company)
    day = tx.now_ms // DAY_MS
    tx.run("lock_purse", company=company, day=day)
    scope = {"shard": row.ref.shard, "execution": row.ref.execution}
    for former in tx.rows("reservations_before", **scope, fence=row.fence):
        _end(tx, former, former["usd_micros"], former["tokens"])
    if tx.row("reservation", **scope, nonce=row.nonce) is not None:
        return None
    budgets = [one for one in _budgets(tx, company) if one.room in ("", room) and one.agent in ("", agent)]
    charge = charge_of(row.need, budgets)
    seen = _seen(tx, company, day)
    for budget in budgets:
        if why := over(budget, seen.get((budget.room, budget.agent), Spent()), row.need, charge):
            return OverBudget(f"{named(company, budget)} is used up: {why}. It begins anew at 00:00 UTC.")
    whose = {"company": company, "room": room, "agent": agent, "day": day}
    tx.run(
        "insert_reservation",
        **scope,
        nonce=row.nonce,
        **whose,
        usd_micros=charge,
        tokens=row.need.tokens,
        fence=row.fence,
    )
    _add(tx, whose, reserved=(charge, row.need.tokens))
    return None


@operation()
def settle(tx: Tx, rows: Sequence[Settle]) -> Steps[None]:
    """Count what requests came to, in place of what was reserved. Each counts once."""
    yield ()
    for row in sorted(rows, key=lambda row: row.payer):
        tx.speak_for(row.payer)
        one = tx.row("reservation", shard=row.ref.shard, execution=row.ref.execution, nonce=row.nonce)
        if one is not None:
            tx.run("lock_purse", company=one["company"], day=one["day"])
            micros = one["usd_micros"] if row.micros is None else row.micros
            _end(tx, one, micros, one["tokens"] if row.tokens is None else row.tokens)
    return [None] * len(rows)


def _end(tx: Tx, one: Row, micros: int, tokens: int) -> None:
    scope = {"shard": one["shard"], "execution": one["execution"], "nonce": one["nonce"]}
    if tx.run("delete_reservation", **scope):
        whose = {name: one[name] for name in ("company", "room", "agent", "day")}
        _add(tx, whose, reserved=(-one["usd_micros"], -one["tokens"]), spent=(micros, tokens))


def _add(tx: Tx, whose: dict[str, str | int], *, reserved: tuple[int, int], spent: tuple[int, int] = (0, 0)) -> None:
    """Count it for everything that may have a budget: the company, its agent, the room, and the agent there."""
    amounts = {
        "reserved_micros": reserved[0],
        "reserved_tokens": reserved[1],
        "spent_micros": spent[0],
        "spent_tokens": spent[1],
    }
    places = product(("", whose["room"]), ("", whose["agent"]))
    tx.many("add_spending", [{**whose, "room": room, "agent": agent, **amounts} for room, agent in places])


def _budgets(reads: Reads | Tx, company: str) -> list[Budget]:
    rows = reads.rows("budgets_of", company=company)
    return [
        Budget(row["room"], row["agent"], usd_of(row["usd_micros"]), row["tokens"], usd_of(row["unpriced_micros"]))
        for row in rows
    ]


def _seen(tx: Tx, company: str, day: int) -> dict[tuple[str, str], Spent]:
    return {
        (row["room"], row["agent"]): Spent(
            row["spent_micros"] + row["reserved_micros"], row["spent_tokens"] + row["reserved_tokens"]
        )
        for row in tx.rows("spending_of", company=company, day=day)
    }


# -- caps --------------------------------------------------------------------------------------------------------------


@operation()
def set_budget(tx: Tx, rows: Sequence[SetBudget]) -> Steps[int]:
    """Set or remove caps, and let wakes go on that were paused because of one; those that do not fit are paused again.

    Returns how many went on.
    """
    found = [one for row in rows for one in _halted(tx, row)]
    yield [Ref(one["shard"], one["execution"]) for one in found]
    results: list[int] = []
    for row in rows:
        company, budget = row.actor.company, row.budget
        tx.speak_for(company)
        scope = {"company": company, "room": budget.room, "agent": budget.agent}
        if row.remove:
            tx.run("delete_budget", **scope)
        else:
            caps = {
                "usd_micros": micros_of(budget.usd),
                "tokens": budget.tokens,
                "unpriced_micros": micros_of(budget.unpriced_usd),
            }
            tx.run("put_budget", **scope, **caps, by=row.actor.name, now_ms=tx.now_ms)
        tx.run("forget_spending", company=company, day=tx.now_ms // DAY_MS - KEPT_DAYS)
        results.append(sum(let_go_on(tx, one["execution"], row.actor.name) for one in _halted(tx, row)))
    return results


def _halted(tx: Tx, row: SetBudget) -> list[Row]:
    tx.speak_for(row.actor.company)
    return tx.rows("halted_for", company=row.actor.company)


def has_budget(reads: Reads, company: str) -> bool:
    """Say whether what a company's agents ask for is counted at all."""
    return bool(reads.rows("budgets_of", company=company))


def budgets_view(reads: Reads, company: str, now_ms: int) -> list[BudgetView]:
    """Return a company's caps, and how they stand today."""
    day = now_ms // DAY_MS
    spent = {(row["room"], row["agent"]): row for row in reads.rows("spending_of", company=company, day=day)}
    views: list[BudgetView] = []
    for one in _budgets(reads, company):
        row = spent.get((one.room, one.agent))
        amounts = (
            (0, 0, 0, 0)
            if row is None
            else (row["spent_micros"], row["spent_tokens"], row["reserved_micros"], row["reserved_tokens"])
        )
        views.append(
            BudgetView(
                **{name: getattr(one, name) for name in ("room", "agent", "usd", "tokens", "unpriced_usd")},
                spent_usd=usd_of(amounts[0]) or 0.0,
                spent_tokens=amounts[1],
                reserved_usd=usd_of(amounts[2]) or 0.0,
                reserved_tokens=amounts[3],
                until_ms=(day + 1) * DAY_MS,
            )
        )
    return views
