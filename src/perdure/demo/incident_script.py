"""The scripted model of the demo: plays the incident agent by rule, and says in its report that it does.

A function from a request to a reply, standard library only. It keeps nothing: what to do next is read from the
conversation, as a model would. Figures are computed from the rows that the tool returned; sentences are fixed.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import statistics
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, cast

MODEL = "scripted/incident-report"
TITLE = "Incident report"
NOTE = "Written by a scripted model: the figures are computed from the rows, the sentences are fixed."

Row = dict[str, str]
Reply = dict[str, Any]

_CSV_PATH = re.compile(r"""["'`]([^"'`]+\.csv)["'`]|(\S+\.csv)\b""", re.IGNORECASE)
_PAID_WISH = re.compile(r"\b(premium|paid|pdf-to-markdown|transcript|read (it )?back)\b", re.IGNORECASE)
_NAMES = {
    "id": ("id", "incident", "number", "key"),
    "opened": ("opened_at", "opened", "created_at", "started_at", "created"),
    "ended": ("resolved_at", "closed_at", "ended_at", "closed"),
    "severity": ("severity", "priority", "sev"),
    "service": ("service", "component", "system", "team"),
    "cause": ("cause", "root_cause", "trigger", "category"),
    "title": ("title", "summary", "name", "description"),
    "impact": ("customer_impact_minutes", "impact_minutes"),
}
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


@dataclass(frozen=True, slots=True)
class Outcome:
    """How the last call of a skill ended."""

    failed: bool
    text: str
    """As the conversation has it: the run record, or why there is none."""

    @property
    def record(self) -> dict[str, Any]:
        return _object(self.text)

    @property
    def output(self) -> Any:
        """What the skill printed, if that is JSON; else None. Other runners give it as text alone."""
        record = self.record
        return record.get("output") or _parsed(str(record.get("stdout", "")))


@dataclass(frozen=True, slots=True)
class Incident:
    id: str
    opened: datetime
    resolved: datetime | None
    severity: str
    service: str
    cause: str
    title: str
    impact: int

    @property
    def took(self) -> timedelta:
        return (self.resolved or self.opened) - self.opened


def reply(request: dict[str, Any]) -> Reply:
    """Return the next reply to a conversation; both have the JSON form of `perdure.models.port`.

    The same request always gets the same reply, ids of calls included.
    """
    messages: list[dict[str, Any]] = request["messages"]
    said = "\n".join(str(message.get("text", "")) for message in messages if message["role"] == "user")
    path = _CSV_PATH.search(said)
    if not path:
        return _say(request, "Which CSV export shall I report on? Give me the path of a .csv file. " + NOTE)
    outcomes = _outcomes(messages)
    read = outcomes.get("read-csv")
    if read is None:
        return _call(request, "Reading the export.", "run_skill", "read-csv", [path[1] or path[2]])
    incidents = [] if read.failed else incidents_of(read.output)
    if not incidents:
        why = read.text[:500] if read.failed else "no rows with the columns of an incident were in the tool's output."
        return _say(request, f"There is no report: the export could not be read. {why}")
    made = outcomes.get("pdf-generate")
    if made is None:
        content = markdown(incidents, _left_out(read.output, incidents))
        arguments = ["--content", content, "--title", TITLE]
        return _call(request, "Rendering the summary.", "run_skill", "pdf-generate", arguments)
    pdf = _pdf_path(made)
    if pdf is None:
        return _say(request, f"There is no report: the PDF could not be made. {made.text[:500]}")
    return _after_pdf(request, pdf, said, outcomes.get("pdf-to-markdown"), incidents)


def _after_pdf(request: dict[str, Any], pdf: str, said: str, paid: Outcome | None, incidents: list[Incident]) -> Reply:
    lines = [f"The report is ready: {pdf}"]
    if _PAID_WISH.search(said):
        if not any(tool.get("name") == "run_premium_skill" for tool in request.get("tools") or ()):
            lines.append("The paid check was asked for, and this agent has no tool for it.")
        elif paid is None:
            text = "The report is rendered. Asking for the paid check of its text."
            return _call(request, text, "run_premium_skill", "pdf-to-markdown", [pdf])
        else:
            lines.append(_verdict(paid, incidents))
    return _say(request, "\n\n".join([*lines, NOTE]))


def _verdict(paid: Outcome, incidents: list[Incident]) -> str:
    if paid.failed or "exitCode" not in paid.record:  # whoever said no left no record of a run
        return f"The paid check was not done: {paid.text[:500]}"
    output: Any = paid.output
    text = str(cast("dict[str, Any]", output).get("markdown", "") if isinstance(output, dict) else paid.text)
    wanted = {str(len(incidents)), slowest(incidents)[0].id, *(str(count) for count in severities(incidents).values())}
    found = sum(bool(re.search(rf"(?<![\w-]){re.escape(figure)}(?!\w)", text)) for figure in wanted)
    return f"The paid check read the PDF back and found {found} of the {len(wanted)} figures looked for."


def incidents_of(output: Any) -> list[Incident]:
    """Return the incidents in what `read-csv` printed; rows without a severity or an opening time are left out."""
    incidents: list[Incident] = []
    for row in _rows(output):
        opened = _instant(_field(row, "opened"))
        if opened and _field(row, "severity"):
            incidents.append(
                Incident(
                    id=_field(row, "id"),
                    opened=opened,
                    resolved=_instant(_field(row, "ended")),
                    severity=_field(row, "severity"),
                    service=_field(row, "service"),
                    cause=_field(row, "cause"),
                    title=_field(row, "title"),
                    impact=int(_field(row, "impact")) if _field(row, "impact").isdecimal() else 0,
                )
            )
    return incidents


def severities(incidents: Iterable[Incident]) -> dict[str, int]:
    counts = Counter(incident.severity for incident in incidents)
    return dict(sorted(counts.items()))


def slowest(incidents: Iterable[Incident]) -> list[Incident]:
    """Return the five that took longest until they were resolved, slowest first (all of them, if none is resolved)."""
    given = list(incidents)
    resolved = [incident for incident in given if incident.resolved]
    return sorted(resolved or given, key=lambda incident: incident.took, reverse=True)[:5]


def markdown(incidents: list[Incident], left_out: int) -> str:
    """Return the summary: counts by severity, slowest resolutions, the pattern."""
    first, last = min(one.opened for one in incidents), max(one.opened for one in incidents)
    still_open = sum(one.resolved is None for one in incidents)
    parts = [
        f"**{len(incidents)} incidents** were opened between {_day(first)} and {_day(last)}. "
        f"{len(incidents) - still_open} of them are resolved, {still_open} are still open.",
        f"*{left_out} more rows of the export are not in these figures.*" if left_out else "",
        "## Counts by severity",
        _severity_table(incidents),
        "## Slowest resolution",
        _slowest_section(incidents),
        "## A pattern",
        _pattern_section(incidents),
        f"*{NOTE}*",
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


def _severity_table(incidents: list[Incident]) -> str:
    rows: list[list[str]] = []
    for severity, count in severities(incidents).items():
        these = [one for one in incidents if one.severity == severity]
        unresolved = sum(one.resolved is None for one in these)
        rows.append([severity, str(count), f"{count / len(incidents):.1%}", str(unresolved), _median(these)])
    return _table(["Severity", "Incidents", "Share", "Still open", "Median time to resolve"], rows)


def _slowest_section(incidents: list[Incident]) -> str:
    five = slowest(incidents)
    top = five[0]
    if top.resolved is None:
        return "None of these incidents is resolved yet."
    rows = [[one.id, _span(one.took), one.severity, _cell(one.service), _cell(one.title)] for one in five]
    told = f"**{top.id}** took {_span(top.took)}: {_cell(top.title)} ({top.severity}, {_cell(top.service)})."
    dates = f"It was opened on {_day(top.opened)} and resolved on {_day(top.resolved)}."
    return f"{told} {dates}\n\n" + _table(["Incident", "Time to resolve", "Severity", "Service", "Title"], rows)


def _pattern_section(incidents: list[Incident]) -> str:
    found = _standing_out(incidents)
    if found is None:
        return "No service has a weekday on which it fails clearly more often than chance would have it."
    service, weekday, expected = found
    whole = [one for one in incidents if one.service == service]
    these = [one for one in whole if one.opened.weekday() == weekday]
    day = _WEEKDAYS[weekday]
    cause, of_cause = Counter(one.cause for one in these).most_common(1)[0]
    hour, in_hours = _busiest_hours(these)
    dates = {one.opened.date() for one in these}
    days = {one.opened.date() for one in incidents if one.opened.weekday() == weekday}
    impact, all_impact = sum(one.impact for one in these), sum(one.impact for one in incidents)
    bullets = [f"{in_hours} of the {len(these)} began between {hour:02}:00 and {hour + 2:02}:00 UTC."]
    if cause:
        bullets.append(f"{of_cause} of the {len(these)} give *{_cell(cause)}* as their cause.")
    bullets.append(f"It happened on {len(dates)} of the {len(days)} {day}s.")
    if all_impact:
        bullets.append(f"They make up {impact / all_impact:.0%} of all minutes in which customers noticed.")
    return "\n".join(
        [
            f"**{_cell(service)} fails on {day}s.** {len(these)} of its {len(whole)} incidents were opened on a {day}; "
            f"spread over the week as all incidents are, it would have been about {expected:.0f}.\n",
            *(f"- {bullet}" for bullet in bullets),
            f"\nThe first thing to look at is what reaches {_cell(service)} on {day}s around {hour:02}:00 UTC.",
        ]
    )


def _standing_out(incidents: list[Incident]) -> tuple[str, int, float] | None:
    """Return the (service, weekday) furthest above what its share and the day's share predict, and the prediction."""
    services = Counter(one.service for one in incidents if one.service)
    weekdays = Counter(one.opened.weekday() for one in incidents)
    best: tuple[float, str, int, float] | None = None
    for (service, weekday), count in Counter((one.service, one.opened.weekday()) for one in incidents).items():
        expected = services[service] * weekdays[weekday] / len(incidents)
        surprise = (count - expected) / math.sqrt(expected) if expected else 0.0
        if count >= 5 and surprise > 3 and (best is None or surprise > best[0]):
            best = (surprise, service, weekday, expected)
    return best[1:] if best else None


def _busiest_hours(incidents: list[Incident]) -> tuple[int, int]:
    hours = Counter(one.opened.hour for one in incidents)
    start = max(range(23), key=lambda hour: hours[hour] + hours[hour + 1])
    return start, hours[start] + hours[start + 1]


def _table(header: list[str], rows: list[list[str]]) -> str:
    return "\n".join("| " + " | ".join(row) + " |" for row in [header, ["---"] * len(header), *rows])


def _median(incidents: list[Incident]) -> str:
    minutes = [one.took.total_seconds() / 60 for one in incidents if one.resolved]
    return _span(timedelta(minutes=round(statistics.median(minutes)))) if minutes else "-"


def _span(took: timedelta) -> str:
    minutes = round(took.total_seconds() / 60)
    days, rest = divmod(minutes, 24 * 60)
    parts = [(days, "d"), (rest // 60, "h"), (rest % 60, "min")]
    return " ".join(f"{amount} {unit}" for amount, unit in parts if amount) or "0 min"


def _day(moment: datetime) -> str:
    return f"{moment.day} {moment:%B %Y}"


def _cell(text: str) -> str:
    # What stands in the data is text, not markdown.
    return re.sub(r"([\\`*_\[\]<>|~])", r"\\\1", " ".join(text.split()))


def _rows(output: Any) -> list[Row]:
    data: Any = cast("dict[str, Any]", output).get("rows") if isinstance(output, dict) else output
    columns: Any = cast("dict[str, Any]", output).get("columns") if isinstance(output, dict) else None
    rows: list[Row] = []
    for item in cast("list[Any]", data) if isinstance(data, list) else []:
        if isinstance(item, dict):
            rows.append({str(key).lower(): str(value) for key, value in cast("dict[Any, Any]", item).items()})
        elif isinstance(item, list) and isinstance(columns, list):
            pairs = zip(cast("list[Any]", columns), cast("list[Any]", item), strict=False)
            rows.append({str(name).lower(): str(value) for name, value in pairs})
    return rows


def _left_out(output: Any, incidents: list[Incident]) -> int:
    total: Any = cast("dict[str, Any]", output).get("rowCount") if isinstance(output, dict) else None
    return max(0, total - len(incidents)) if isinstance(total, int) else 0


def _field(row: Row, name: str) -> str:
    return next((row[column].strip() for column in _NAMES[name] if column in row), "")


def _instant(text: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)


def _pdf_path(made: Outcome) -> str | None:
    if made.failed:
        return None
    output: Any = made.output
    if isinstance(output, dict) and "pdfFile" in output:
        return str(cast("dict[str, Any]", output)["pdfFile"])
    paths = [_object(artifact).get("path", "") for artifact in made.record.get("artifacts") or ()]
    return next((str(path) for path in paths if str(path).endswith(".pdf")), None)


def _outcomes(messages: list[dict[str, Any]]) -> dict[str, Outcome]:
    """Return how the last answered call of each skill ended."""
    skills: dict[str, str] = {}
    outcomes: dict[str, Outcome] = {}
    for message in messages:
        for call in message.get("tool_calls") or ():
            skills[str(call["id"])] = str(_object(call["arguments"]).get("skill", ""))
        if message["role"] == "tool":
            skill = skills.get(str(message.get("call_id")), "")
            outcomes[skill] = Outcome(bool(message.get("failed")), str(message.get("text", "")))
    return outcomes


def _object(value: Any) -> dict[str, Any]:
    parsed: Any = _parsed(value) if isinstance(value, str) else value
    return cast("dict[str, Any]", parsed) if isinstance(parsed, dict) else {}


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _call(request: dict[str, Any], text: str, tool: str, skill: str, args: list[str]) -> Reply:
    turn = 1 + sum(message["role"] == "assistant" for message in request["messages"])
    execution = str(request.get("call", "")).partition("/")[0]
    name = hashlib.sha256(f"{execution}/{turn}".encode()).hexdigest()[:16]
    arguments = json.dumps({"skill": skill, "args": args}, ensure_ascii=False)
    return _reply(request, text, [{"id": f"call_{name}", "name": tool, "arguments": arguments}])


def _say(request: dict[str, Any], text: str) -> Reply:
    return _reply(request, text, [])


def _reply(request: dict[str, Any], text: str, calls: list[dict[str, str]]) -> Reply:
    read = [str(request.get("instructions", ""))]
    for message in request["messages"]:
        read += [str(message.get("text", "")), *(str(call["arguments"]) for call in message.get("tool_calls") or ())]
    return {
        "text": text,
        "tool_calls": calls,
        "finish_reason": "tool_call" if calls else "stop",
        "usage": {
            "input_tokens": sum(map(_words, read)),
            "output_tokens": _words(text) + sum(_words(call["arguments"]) for call in calls),
            "cache_read_tokens": 0,
            "cache_write_tokens": 0,
            "details": {"words_counted_as_tokens": 1},
        },
        "model": MODEL,
        "cost_usd": 0.0,
        "native": None,
    }


def _words(text: str) -> int:
    return len(text.split())
