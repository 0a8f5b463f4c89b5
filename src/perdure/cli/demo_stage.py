"""Show a demo while it is played: one line for each thing that happens, as it happens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from rich.console import Console
from rich.text import Text

from perdure.cli import phrases
from perdure.cli.terminal import confirmed, home_short, state_text
from perdure.core import states
from perdure.core.events import Event, Kind, reply_in
from perdure.demo.plan import Kill, Plan
from perdure.demo.processes import Life, now_ms

if TYPE_CHECKING:
    from perdure.core.views import ApprovalView
    from perdure.demo.story import Endpoint
    from perdure.demo.watch import Facts

INDENT = 18
"""Where the text of a line begins."""

ERROR_ROOM = 200

COLOURS = {"client": "cyan", "server": "blue", "model": "magenta", "tool": "green", "person": "yellow"}

_DIES = {
    Kill.AFTER_FIRST_TURN: "while a tool of the second client runs",
    Kill.MID_CALL: "while the answer to a model request is on its way",
    Kill.WHILE_WAITING: "while a person is asked",
}


class Silent:
    """Show nothing, ask nobody."""

    def __init__(self, *, yes: bool) -> None:
        self._yes = yes

    def opens(self, plan: Plan) -> None: ...

    def endpoint(self, endpoint: Endpoint) -> None: ...

    def started(self, life: Life) -> None: ...

    def begun(self, execution: str) -> None: ...

    def happened(self, event: Event) -> None: ...

    def killed(self, life: Life) -> None: ...

    def seen(self, facts: Facts) -> None: ...

    def decide(self, approval: ApprovalView) -> Literal["approve", "reject"] | None:
        return "approve" if self._yes else None


class Shown:
    """Print to a console; ask there, if somebody can answer."""

    def __init__(self, out: Console, *, yes: bool, asks: bool) -> None:
        self._out = out
        self._yes = yes
        self._asks = asks
        self._began_ms = now_ms()
        self._skills: dict[str, str] = {}
        """What a tool call is about, by its address."""
        self._dead: dict[str, Life] = {}
        """Who was killed and has no successor yet."""
        self._server_died_ms = 0

    def opens(self, plan: Plan) -> None:
        model = (
            "The model is scripted, so no key is needed: a process that answers by rule and counts what it is asked. "
            "Everything else is real."
            if plan.scripted
            else f"The model is {plan.model}, and its answers cost what they cost. Everything is real."
        )
        what = Text.assemble(
            "An agent reads 325 incidents from a CSV, writes a summary and has a PDF made of it. Its ",
            ("client is killed", "bold red"),
            " in the middle of the first tool call, its ",
            ("server", "bold red"),
            f" {_DIES[plan.kill]}, and the same run ends right. ",
        )
        self._out.print(Text("Perdure: the crash, on stage", style="bold"))
        hang(self._out, Text(), what.append(model))
        self._out.print(Text(f"Files: {home_short(str(plan.folder))}", style="dim"), soft_wrap=True)
        self._out.print()

    def endpoint(self, endpoint: Endpoint) -> None:
        self._line(
            "model", Text.assemble(_pid(endpoint.pid), f"{endpoint.url}, counts in a log of its own what it is asked")
        )

    def started(self, life: Life) -> None:
        dead = self._dead.get(life.role)
        gone = phrases.duration(now_ms() - (dead.ended_ms or 0)) if dead else ""
        if life.role == "client" and life.ready_ms is None:
            self._came(life, "it knows the id only" if dead else "starts the agent, and runs its tools")
        elif life.role == "client":
            self._line("client", Text(f"its worker is connected, {gone} after the kill"))
            self._dead.pop("client")
        else:
            self._came(life, f"back after {gone}" if dead else "a fresh store, one SQLite file")
            self._dead.pop("server", None)

    def _came(self, life: Life, words: str) -> None:
        self._line(life.role, Text.assemble(_pid(life.pid), (f"$ {life.command}", "bold"), (f"  {words}", "dim")))

    def begun(self, execution: str) -> None:
        self._line("client", Text.assemble("execution ", (execution, "bold cyan")))

    def happened(self, event: Event) -> None:
        match event.kind:
            case Kind.STEP_RECORDED if (reply := reply_in(event)) is not None:
                self._line("model", _reply(event, reply, self._out.width - INDENT - len("turn 1: → ")))
            case Kind.TASK_SCHEDULED:
                self._skills[event.address] = str(event.data["args"].get("skill") or event.data["tool"])
            case Kind.TASK_COMPLETED:
                done = f"{self._skills[event.address]}: done, attempt {event.data['attempt']}"
                through = event.data["started_ms"] < self._server_died_ms < event.at_ms
                self._line("tool", Text(done + (", kept by its worker while no server was there" if through else "")))
            case Kind.TASK_FAILED | Kind.ATTEMPT_FAILED:
                why = phrases.clip(str(event.data["error"]), ERROR_ROOM)
                self._line("tool", Text(f"{self._skills[event.address]}: {why}", style="red"))
            case Kind.ATTEMPT_LOST:
                words = f"{self._skills[event.address]}: attempt {event.data['attempt']} lost with its worker"
                self._line("tool", Text(words, style="yellow"))
            case Kind.TAKEN_OVER:
                self._line("server", Text("takes the run over from the dead one; what is recorded is not asked again"))
            case Kind.WAIT_RESOLVED:
                said = "approved" if event.data["decision"] == "approve" else "rejected"
                self._line("person", Text(f"{said} by {phrases.plain(event.data['by'])}"))
            case Kind.COMPLETED | Kind.FAILED | Kind.CANCELLED:
                self._line("server", state_text(event.kind.value))
            case _:
                pass

    def killed(self, life: Life) -> None:
        self._dead[life.role] = life
        if life.role == "server":
            self._server_died_ms = life.ended_ms or 0
        self._out.print()
        mark = Text.assemble((" SIGKILL ", "bold white on red"), f" {life.role} {life.pid}, while {life.during}")
        self._line(life.role, mark)

    def seen(self, facts: Facts) -> None:
        waits = [f", for {phrases.plain(one.detail)}" for one in facts.view.waits]
        held = any(task.state in states.TASK_HELD for task in facts.tasks)
        patient = "  (it gives a silent worker 3 s)" if "client" in self._dead and held else ""
        self._line("server", Text.assemble("says: ", state_text(facts.view.state), *waits, (patient, "dim")))

    def decide(self, approval: ApprovalView) -> Literal["approve", "reject"] | None:
        price = _price(approval.args.get("skill"))
        cost = f" It costs {price} (pretended: nobody is charged)" if price else ""
        self._line("person", Text.assemble(("A person has to say yes first.", "bold yellow"), cost))
        rows = [("tool", approval.tool), *((name, phrases.exact(value)) for name, value in approval.args.items())]
        for name, value in rows:
            hang(self._out, Text(f"{'':{INDENT}}{name:<6} ", style="dim"), Text(value, style="bold"))
        if self._yes:
            return "approve"
        return ("approve" if confirmed(f"{'':{INDENT}}Approve?") else "reject") if self._asks else None

    def _line(self, who: str, text: Text) -> None:
        at = f"{(now_ms() - self._began_ms) / 1000:.1f} s"
        label = Text.assemble((f"{at:>7}", "dim"), "  ", (f"{who:<7}", COLOURS.get(who, "")), "  ")
        hang(self._out, label, text)


def hang(out: Console, label: Text, text: Text) -> None:
    """Print a label and, beside it, text that stays in its column. Nothing is padded, so pipes get clean lines."""
    for number, line in enumerate(text.wrap(out, max(20, out.width - label.cell_len))):
        line.rstrip()
        out.print(Text.assemble(label if number == 0 else " " * label.cell_len, line), no_wrap=True, overflow="ignore")


def _pid(pid: int) -> tuple[str, str]:
    return f"{pid:<7}", "dim"


def _reply(event: Event, reply: dict[str, Any], room: int) -> Text:
    turn = event.address.partition("/")[0]
    calls = [phrases.written_call(call["name"], call["arguments"], room) for call in reply["tool_calls"]]
    says = "; ".join(calls) or phrases.clip(reply["text"], room)
    return Text.assemble((f"{turn}: ", ""), ("→ " if calls else "", "dim"), says)


def _price(skill: object) -> str | None:
    from perdure.toolbox.skills import list_skills

    return next((one.price_label for one in list_skills() if one.name == skill), None)
