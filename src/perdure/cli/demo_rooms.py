"""Show the rooms demo: a line for each thing in the room as it happens, then its ledger, and what was checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from rich.text import Text

from perdure.cli import phrases
from perdure.cli.demo_stage import hang
from perdure.cli.terminal import asks, confirmed, console, grid, home_short, path_typed, print_json
from perdure.core.rooms import RoomKind
from perdure.demo.processes import now_ms
from perdure.demo.rooms_document import rooms_document
from perdure.demo.rooms_evidence import in_flight, judge_rooms
from perdure.demo.rooms_play import play_rooms
from perdure.demo.rooms_story import ACME, GLOBEX, PLANNER, SUPPLIER

if TYPE_CHECKING:
    from rich.console import Console

    from perdure.core.views import ApprovalView
    from perdure.demo.evidence import Claim
    from perdure.demo.processes import Life
    from perdure.demo.rooms_story import Line, RoomsPlan, RoomsStory

INDENT = 27
"""Where the text of a line begins."""
_COLOURS = {ACME: "cyan", GLOBEX: "magenta"}
_PLAIN = {
    RoomKind.CREATED: "makes the room",
    RoomKind.INVITED: "invites",
    RoomKind.JOINED: "joins",
    RoomKind.AGENT_REGISTERED: "has an agent live here:",
    RoomKind.RIGHTS_SET: "says what its agent may do alone, and what waits for a person",
    RoomKind.REMEMBERED: "keeps a line in the memory",
    RoomKind.HELD: "declares an offer, which waits for a yes of globex",
    RoomKind.REFUSED: "its offer is not made",
    RoomKind.WAKE_ENDED: "its wake ends",
}


class Silent:
    """Show nothing, ask nobody."""

    def __init__(self, *, yes: bool) -> None:
        self._yes = yes

    def opens(self, plan: RoomsPlan) -> None: ...

    def started(self, life: Life) -> None: ...

    def wrote(self, line: Line, text: str) -> None: ...

    def killed(self, life: Life) -> None: ...

    def decide(self, approval: ApprovalView) -> Literal["approve", "reject"] | None:
        return "approve" if self._yes else None


class Shown:
    """Print to a console; ask there, if somebody can answer."""

    def __init__(self, out: Console, *, yes: bool, asks: bool) -> None:
        self._out, self._yes, self._asks = out, yes, asks
        self._began_ms = now_ms()
        self._dead = False

    def opens(self, plan: RoomsPlan) -> None:
        what = Text.assemble(
            f"acme builds a bridge, globex sells timber. Each has an agent in one room, {PLANNER} and {SUPPLIER}, each "
            "with its own company's model. In the middle of a wake the ",
            ("server is killed", "bold red"),
            ", and a person of globex decides on what its agent offers. The models are scripted, so no key is needed: "
            "a process that answers by rule and counts what it is asked. Everything else is real.",
        )
        self._out.print(Text("Perdure: two companies in one room", style="bold"))
        hang(self._out, Text(), what)
        self._out.print(Text(f"Files: {home_short(str(plan.folder))}", style="dim"), soft_wrap=True)
        self._out.print()

    def started(self, life: Life) -> None:
        words = "takes over what the dead one left" if self._dead else "a fresh store"
        shown = ((f"{life.pid} ", "dim"), (f"$ {life.command}", "bold"), (f"  {words}", "dim"))
        self._line("server", Text.assemble(*shown))

    def wrote(self, line: Line, text: str) -> None:
        self._line(line.by, Text(_told(line, text)))

    def killed(self, life: Life) -> None:
        self._dead = True
        self._out.print()
        mark = Text.assemble((" SIGKILL ", "bold white on red"), f" {life.pid}, when {life.during}")
        self._line("server", mark)
        self._out.print()

    def decide(self, approval: ApprovalView) -> Literal["approve", "reject"] | None:
        asked = Text.assemble(("A person of globex has to say yes first.", "bold yellow"))
        self._line("globex/bob", asked)
        for name in ("by", "to", "title", "steered_by"):
            label = Text(f"{'':{INDENT}}{name.replace('_', ' '):<11}", style="dim")
            hang(self._out, label, Text(phrases.exact(approval.args.get(name)), style="bold"))
        if self._yes:
            return "approve"
        return ("approve" if confirmed(f"{'':{INDENT}}Approve?") else "reject") if self._asks else None

    def _line(self, who: str, text: Text) -> None:
        at = f"{(now_ms() - self._began_ms) / 1000:.1f} s"
        label = Text.assemble((f"{at:>7}", "dim"), "  ", (f"{who:<16}", _colour(who)), "  ")
        hang(self._out, label, text)


def show_rooms(plan: RoomsPlan, *, yes: bool, as_json: bool, kept: bool) -> bool:
    """Play and show it; return whether every claim holds. `kept`: the files stay, so that one can look at them."""
    out = console()
    story = play_rooms(plan, Silent(yes=yes) if as_json else Shown(out, yes=yes, asks=asks(yes)))
    claims = judge_rooms(story)
    if as_json:
        print_json(rooms_document(story, claims))
    else:
        _show_ending(out, story, claims, kept=kept)
    return all(claim.holds for claim in claims)


def _told(line: Line, text: str) -> str:
    said = line.said
    match line.kind:
        case RoomKind.POSTED:
            return f"“{text}”"
        case RoomKind.TASK_OPENED:
            word = f", on the word of {said['on_word_of']}" if said.get("on_word_of") else ""
            return f"asks {said.get('to')}{word}: “{text}”"
        case RoomKind.TASK_CHANGED:
            return f"{said.get('verb')}s “{text}”"
        case RoomKind.INVITED | RoomKind.AGENT_REGISTERED as kind:
            return f"{_PLAIN[kind]} {line.about}"
        case kind:
            return _PLAIN.get(RoomKind(kind), line.act)


def _colour(who: str) -> str:
    return _COLOURS.get(who.partition("/")[0], "blue")


def _show_ending(out: Console, story: RoomsStory, claims: Sequence[Claim], *, kept: bool) -> None:
    _title(out, "The room's ledger")
    _show_ledger(out, story)
    _title(out, "Evidence")
    for claim in claims:
        mark = ("✓", "green") if claim.holds else ("✗", "bold red")
        hang(out, Text.assemble("  ", mark, " "), Text.assemble(claim.says, (f"  {claim.found}", "dim")))
    out.print()
    hang(out, Text(), Text(in_flight(story)))
    out.print()
    took = phrases.duration(story.ended_ms - story.began_ms)
    if all(claim.holds for claim in claims):
        out.print(Text.assemble(("✓ ", "bold green"), f"All of this happened, and was checked, in {took}."))
    else:
        out.print(Text("✗ Not all of this holds: see the evidence, and please report it.", style="bold red"))
    if kept:
        ledger, program = path_typed(str(story.plan.ledger)), path_typed(str(story.plan.folder / "verify.py"))
        out.print(Text.assemble(("  look again  ", "dim"), f"python {program} {ledger}"), soft_wrap=True)
        out.print(Text.assemble(("  do it       ", "dim"), f"{home_short(str(story.plan.example))}/README.md"))


def _title(out: Console, text: str) -> None:
    out.print()
    out.print(Text(text, style="bold"))


def _show_ledger(out: Console, story: RoomsStory) -> None:
    """Print it. What a line is about, and what woke its writer, are given by the line that they began with."""
    numbers: dict[str, int] = {}
    for line in story.lines:
        numbers.setdefault(line.about, line.seq)
    died = len(story.at_death)
    table = grid("SEQ", "ACT", "BY", "ABOUT", "WOKEN BY", "ON WORD OF", "HASH")
    for line in story.lines:
        woken = numbers.get(str(line.said.get("woken_by") or "?"))
        word = str(line.said.get("on_word_of", ""))
        about, by_line = _about(line, numbers), f"line {woken}" if woken else ""
        table.add_row(str(line.seq), line.act, line.by, about, by_line, word, line.hash[:12])
        if line.seq == died:
            table.add_row("", Text("the server is killed", style="bold red"), "", "", "", "", "")
    out.print(table)
    out.print(Text(story.verified.said, style="green" if story.verified.code == 0 else "bold red"), soft_wrap=True)


def _about(line: Line, numbers: Mapping[str, int]) -> str:
    """Return a name as it is, and an id as the line that it began with."""
    if line.about and numbers[line.about] != line.seq:
        return f"line {numbers[line.about]}"
    return "" if line.about.startswith(("msg_", "rtk_", "mem_")) else line.about
