"""`perdure skills`, as people and programs meet it: in a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pypdf import PdfReader

CLI = [sys.executable, "-m", "perdure.cli.skills"]
SRC = Path(__file__).parents[2] / "src"
INCIDENTS = Path(__file__).parents[2] / "examples" / "incident_report" / "incidents.csv"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(SRC))
    return tmp_path


def skills(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*CLI, *args], capture_output=True, text=True, check=False)


def record_of(*args: str) -> dict[str, Any]:
    """Run a skill as a program would: an exit code of 0 and one JSON object, or it is a failure of ours."""
    done = skills("run", "--json", *args)
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


def write_skill(place: Path, name: str, script: str) -> None:
    (place / name / "scripts").mkdir(parents=True)
    (place / name / "SKILL.md").write_text(f"---\nname: {name}\ndescription: Does {name}.\n---\n")
    (place / name / "scripts" / "main.py").write_text(script)


def test_a_report_goes_from_csv_to_pdf_and_back(here: Path) -> None:
    read = record_of("read-csv", "--", str(INCIDENTS), "--group-by", "service,opened_at:weekday")
    assert read["output"]["rowCount"] == 325
    assert read["output"]["groups"][0]["groups"][0] == {"values": ["checkout", "Monday"], "count": 33}
    made = record_of("pdf-generate", "--", "--content", "# Report\n\n- 325 incidents", "--title", "Report")
    pdf = made["output"]["pdfFile"]
    assert made["artifacts"] == [
        {"path": pdf, "bytes": Path(pdf).stat().st_size, "sha256": made["artifacts"][0]["sha256"]}
    ]
    assert Path(pdf).is_relative_to(here / ".skills" / "exports" / made["id"])
    assert "325 incidents" in PdfReader(pdf).pages[0].extract_text()
    back = record_of("pdf-to-markdown", "--", pdf)
    assert back["price"] == 0.05
    assert back["output"]["markdown"].startswith("# Report\n\n- 325 incidents")


def test_list_says_which_are_free_and_what_others_cost(here: Path) -> None:
    lines = skills("list", "--brief").stdout.splitlines()
    assert [line.split()[:2] for line in lines] == [
        ["pdf-generate", "(Free)"],
        ["pdf-to-markdown", "$0.05"],
        ["read-csv", "(Free)"],
    ]
    listed = json.loads(skills("list", "--json").stdout)
    assert {one["name"]: one["price"] for one in listed["skills"]} == {
        "pdf-generate": 0,
        "pdf-to-markdown": 0.05,
        "read-csv": 0,
    }
    assert listed["problems"] == []
    assert "Read a CSV file" in skills("list").stdout


def test_a_broken_skill_is_named_beside_the_list(here: Path) -> None:
    (here / "skills" / "broken").mkdir(parents=True)
    (here / "skills" / "broken" / "SKILL.md").write_text("nothing")
    done = skills("list", "--brief")
    assert len(done.stdout.splitlines()) == 3
    assert "not usable" in done.stderr
    assert "broken" in done.stderr


def test_a_program_gets_a_record_also_of_what_could_not_run(here: Path) -> None:
    unknown = record_of("csv-read", "--", "x.csv")
    assert (unknown["status"], unknown["exitCode"], unknown["price"]) == ("failed", 127, 0)
    assert "did you mean 'read-csv'?" in unknown["stderr"]
    (here / "incidents.csv").write_text("a\n1\n")
    missing = record_of("read-csv", "--", "incident.csv")
    assert (missing["status"], missing["exitCode"]) == ("failed", 1)
    assert "Did you mean 'incidents.csv'?" in missing["stderr"]


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (["run", "csv-read"], 2, "did you mean 'read-csv'?"),
        (["run", "read-csv", "--", "absent.csv"], 1, "there is no file 'absent.csv'"),
        (["run", "read-csv"], 2, "usage: read-csv"),
        (["run", "read-csv", "--", "x.csv", "--limt", "5"], 2, "unrecognized arguments: --limt"),
        (["run", "pdf-generate", "--"], 2, "--content"),
        (["run", "pdf-to-markdown", "--", "absent.pdf"], 1, "there is no file 'absent.pdf'"),
        (["list", "--dir", "absent"], 2, "absent is not a folder"),
        (["run", "--dir", "absent", "read-csv"], 2, "absent is not a folder"),
        (["run", "--timeout", "0", "read-csv"], 2, "--timeout"),
        (["run", "--timeout", "nan", "read-csv"], 2, "--timeout"),
        (["run", "--timeout", "1e30", "read-csv"], 2, "--timeout"),
    ],
)
def test_a_mistake_gets_a_sentence_and_no_traceback(here: Path, args: list[str], code: int, said: str) -> None:
    done = skills(*args)
    assert done.returncode == code
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_errors_are_json_for_who_asks_for_json(here: Path) -> None:
    done = skills("list", "--json", "--dir", "absent")
    assert done.returncode == 2
    assert json.loads(done.stdout)["error"]["code"] == "no_such_dir"


def test_for_people_the_output_comes_as_it_is(here: Path) -> None:
    write_skill(here / "skills", "talk", "import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)")
    done = skills("run", "talk")
    assert (done.returncode, done.stdout) == (3, "out\n")
    assert done.stderr.startswith("err\nperdure: run_")


def test_arguments_that_look_like_options_reach_the_skill(here: Path) -> None:
    write_skill(here / "skills", "echo", "import sys, json; print(json.dumps(sys.argv[1:]))")
    args = ["--json", "--", "-x", "", "a b", "--out=here"]
    assert record_of("echo", "--", *args)["output"] == args
    assert record_of("pdf-generate", "--", "--content", "- a\n- b")["status"] == "completed"
    assert record_of("pdf-generate", "--", "--content", "---")["status"] == "completed"


def test_out_says_where_files_go(here: Path) -> None:
    made = record_of("--out", "given", "pdf-generate", "--", "--content", "x")
    assert Path(made["output"]["pdfFile"]).parent == here / "given" / made["id"]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a child with its parent")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_script_ends_when_its_runner_is_killed(here: Path, number: signal.Signals) -> None:
    pipe = here / "pipe"
    os.mkfifo(pipe)
    write_skill(
        here / "skills", "hold", "import sys, time; f = open(sys.argv[1], 'wb', 0); f.write(b'.'); time.sleep(3600)"
    )
    with subprocess.Popen([*CLI, "run", "--json", "hold", "--", str(pipe)], stdout=-3, stderr=-3) as runner:
        with pipe.open("rb", buffering=0) as held:
            assert held.read(1) == b"."
            runner.send_signal(number)
            assert held.read(1) == b"", "the pipe ends when the script does"
        assert runner.wait() != 0
