"""The scripted model plays the incident agent honestly: figures from the rows, failures said, the same reply again."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from perdure.demo.incident_script import MODEL, NOTE, incidents_of, reply
from perdure.models.recorded import reply_from_json

EXAMPLE = Path(__file__).parents[3] / "examples" / "incident_report"
COLUMNS = ["id", "opened_at", "resolved_at", "severity", "service", "title"]
ROWS = [
    ["I-1", "2026-01-05T09:00:00Z", "2026-01-05T10:30:00Z", "SEV1", "web", "down | *out*"],
    ["I-2", "2026-01-06T09:00:00Z", "2026-01-08T11:05:00Z", "SEV2", "mail", "slow"],
    ["I-3", "2026-01-07T09:00:00Z", "", "SEV2", "mail", "late"],
]
READ = {"rowCount": 3, "columns": COLUMNS, "rows": ROWS}
PDF = "/out/incident-report.pdf"


class Conversation:
    """What a runtime keeps: messages, to which replies and answers are added."""

    def __init__(self, prompt: str, tools: tuple[str, ...] = ("run_skill", "run_premium_skill")) -> None:
        self.messages: list[dict[str, Any]] = [{"role": "user", "text": prompt}]
        self.tools = tools

    @property
    def request(self) -> dict[str, Any]:
        turn = 1 + sum(message["role"] == "assistant" for message in self.messages)
        return {
            "model": MODEL,
            "instructions": "Make reports.",
            "messages": self.messages,
            "tools": [{"name": name, "description": "", "schema": {}} for name in self.tools],
            "call": f"exe_1/turn {turn}/model",
        }

    def next(self) -> dict[str, Any]:
        """Ask for a reply and keep it. Returns the call it makes as {name, skill, args}, or {text} if it makes none."""
        answer = reply(self.request)
        reply_from_json(answer)
        self.messages.append({"role": "assistant", "text": answer["text"], "tool_calls": answer["tool_calls"]})
        if not answer["tool_calls"]:
            assert answer["finish_reason"] == "stop"
            return {"text": answer["text"]}
        (made,) = answer["tool_calls"]
        assert answer["finish_reason"] == "tool_call"
        return {"name": made["name"], **json.loads(made["arguments"])}

    def answer(self, result: Any, *, failed: bool = False) -> None:
        text = result if isinstance(result, str) else json.dumps(result)
        call = self.messages[-1]["tool_calls"][0]["id"]
        self.messages.append({"role": "tool", "call_id": call, "text": text, "failed": failed})


def record(output: Any) -> dict[str, Any]:
    return {"id": "run_1", "status": "completed", "exitCode": 0, "stderr": "", "artifacts": [], "output": output}


def rendered(conversation: Conversation, output: Any = READ) -> str:
    """Bring a conversation to where the PDF is asked for; return the markdown."""
    conversation.next()
    conversation.answer(record(output))
    call = conversation.next()
    assert call["args"][::2] == ["--content", "--title"]
    return call["args"][1]


def test_a_report_takes_two_calls_and_ends_with_its_path() -> None:
    talk = Conversation("Create a PDF summary report of /data/incidents.csv.")
    assert talk.next() == {"name": "run_skill", "skill": "read-csv", "args": ["/data/incidents.csv"]}
    talk.answer(record(READ))
    call = talk.next()
    assert (call["name"], call["skill"]) == ("run_skill", "pdf-generate")
    talk.answer(record({"pdfFile": PDF, "pages": 1}))
    assert talk.next() == {"text": f"The report is ready: {PDF}\n\n{NOTE}"}


def test_figures_are_those_of_the_rows() -> None:
    markdown = rendered(Conversation("report on a.csv"))
    assert "**3 incidents**" in markdown
    assert "| SEV1 | 1 | 33.3% | 0 | 1 h 30 min |" in markdown
    assert "| SEV2 | 2 | 66.7% | 1 | 2 d 2 h 5 min |" in markdown
    assert "**I-2** took 2 d 2 h 5 min" in markdown
    assert "No service has a weekday" in markdown
    assert r"down \| \*out\*" in markdown, "what stands in the data is not markdown"
    assert NOTE in markdown


def test_the_pattern_in_the_example_is_found() -> None:
    export = subprocess.run(
        [sys.executable, EXAMPLE / "make_incidents.py"], check=True, capture_output=True, text=True
    ).stdout
    assert export == (EXAMPLE / "incidents.csv").read_text(), "make_incidents.py makes incidents.csv"
    header, *lines = [line.split(",") for line in export.splitlines()]
    markdown = rendered(Conversation("report on a.csv"), {"columns": header, "rows": lines, "rowCount": len(lines)})
    counts = Counter(line[header.index("severity")] for line in lines)
    assert all(f"| {severity} | {count} |" in markdown for severity, count in counts.items())
    assert "**checkout fails on Mondays.** 33 of its 40 incidents" in markdown
    assert "between 09:00 and 11:00 UTC" in markdown
    assert "give *deploy* as their cause" in markdown


def test_rows_that_were_not_included_are_said() -> None:
    assert "*97 more rows" in rendered(Conversation("report on a.csv"), READ | {"rowCount": 100})


@pytest.mark.parametrize(
    "output",
    [
        READ,
        [dict(zip(COLUMNS, row, strict=True)) for row in ROWS],
        {"rows": [dict(zip(COLUMNS, ROWS[0], strict=True))]},
    ],
)
def test_other_runners_shapes_are_understood(output: Any) -> None:
    assert incidents_of(output)[0].id == "I-1"


def test_a_record_with_text_alone_is_understood() -> None:
    talk = Conversation("report on 'my file.csv'")
    assert talk.next()["args"] == ["my file.csv"]
    talk.answer({"exitCode": 0, "stdout": json.dumps(READ)})
    assert talk.next()["skill"] == "pdf-generate"
    talk.answer({"exitCode": 0, "stdout": "done", "artifacts": [{"path": PDF}]})
    assert PDF in talk.next()["text"]


def paid(answer: Any, *, failed: bool = False) -> str:
    talk = Conversation("report on a.csv, then have a premium skill read it back")
    rendered(talk)
    talk.answer(record({"pdfFile": PDF}))
    assert talk.next() == {"name": "run_premium_skill", "skill": "pdf-to-markdown", "args": [PDF]}
    talk.answer(answer, failed=failed)
    text = talk.next()["text"]
    assert PDF in text
    return text


def test_the_paid_check_says_what_it_found() -> None:
    assert "found 4 of the 4 figures" in paid(record({"markdown": "3 incidents, SEV1 1, SEV2 2, I-2 the slowest"}))
    assert "found 1 of the 4 figures" in paid(record({"markdown": "13 incidents, I-2"}))


def test_a_rejected_check_is_said_and_not_asked_for_again() -> None:
    assert "The paid check was not done: rejected: over budget" in paid("rejected: over budget", failed=True)


def test_an_agent_without_the_paid_tool_says_so() -> None:
    talk = Conversation("premium report on a.csv", tools=("run_skill",))
    rendered(talk)
    talk.answer(record({"pdfFile": PDF}))
    assert "has no tool for it" in talk.next()["text"]


def test_a_later_message_may_ask_for_the_paid_check() -> None:
    talk = Conversation("report on a.csv")
    rendered(talk)
    talk.answer(record({"pdfFile": PDF}))
    talk.next()
    talk.messages.append({"role": "user", "text": "Now the premium check."})
    assert talk.next()["name"] == "run_premium_skill"


def test_failures_are_said_and_end_it() -> None:
    talk = Conversation("report on a.csv")
    talk.next()
    talk.answer("RuntimeError: read-csv failed: there is no file 'a.csv'", failed=True)
    assert "there is no file 'a.csv'" in talk.next()["text"]

    talk = Conversation("report on a.csv")
    talk.next()
    talk.answer(record({"rows": [["x"]], "columns": ["y"]}))
    assert "no rows with the columns of an incident" in talk.next()["text"]

    talk = Conversation("report on a.csv")
    rendered(talk)
    talk.answer("pdf-generate failed", failed=True)
    assert "the PDF could not be made" in talk.next()["text"]


def test_without_a_path_it_asks_for_one() -> None:
    assert "path of a .csv file" in Conversation("Make me a report").next()["text"]


def test_the_same_request_gets_the_same_reply_and_every_turn_another_id() -> None:
    talk = Conversation("report on a.csv")
    request = json.loads(json.dumps(talk.request))
    assert reply(request) == reply(request)
    rendered(talk)
    ids = [call["id"] for message in talk.messages for call in message.get("tool_calls", ())]
    assert len(set(ids)) == 2
    assert reply(request | {"call": "exe_2/turn 1/model"})["tool_calls"][0]["id"] not in ids


def test_usage_counts_words_and_says_so() -> None:
    usage = reply(Conversation("report on a.csv").request)["usage"]
    assert usage["input_tokens"] == len("Make reports. report on a.csv".split())
    assert usage["details"] == {"words_counted_as_tokens": 1}


def test_it_needs_nothing_but_the_standard_library() -> None:
    program = "import sys, pathlib; sys.modules.update(dict.fromkeys(['perdure'])); import incident_script"
    folder = Path(__file__).parents[3] / "src" / "perdure" / "demo"
    subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, {str(folder)!r})\n{program}"], check=True
    )
