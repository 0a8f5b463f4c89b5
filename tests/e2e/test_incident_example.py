"""The incident report example, run as its README says: whole, killed in the middle, and with another skills runner.

The model is the scripted one behind an address of this test's; it counts what it was asked.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from pypdf import PdfReader

import http_server
from perdure import AgentHandle, AgentRuntime
from perdure.client.stream_events import ApprovalRequested
from perdure.demo.incident_script import reply

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "incident_report"


class ModelEndpoint(ThreadingHTTPServer):
    """Answers `POST /model` from the script."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def turns(self) -> list[int]:
        """Which turn each request asked for, in order."""
        return [sum(message["role"] == "assistant" for message in one["messages"]) + 1 for one in self.asked]


class _Handler(BaseHTTPRequestHandler):
    server: ModelEndpoint

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.asked.append(request)
        body = json.dumps(reply(request)).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def model() -> Iterator[ModelEndpoint]:
    endpoint = ModelEndpoint()
    thread = threading.Thread(target=endpoint.serve_forever, name="model-endpoint")
    thread.start()
    yield endpoint
    endpoint.shutdown()
    thread.join()
    endpoint.server_close()


@pytest.fixture
def env(model: ModelEndpoint, tmp_path: Path) -> dict[str, str]:
    """Surroundings with a store of their own and nobody's server."""
    return {
        **os.environ,
        "PYTHONPATH": str(ROOT / "src"),
        "PERDURE_STORE": str(tmp_path / "perdure.db"),
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "INCIDENT_MODEL": "scripted/incident-report",
        "INCIDENT_BASE_URL": f"http://127.0.0.1:{model.server_port}",
    }


def program(name: str, *args: str) -> list[str]:
    return [sys.executable, str(EXAMPLE / name), *args]


def pdf_in(output: str) -> PdfReader:
    (line,) = [line for line in output.splitlines() if line.startswith("The report is ready: ")]
    return PdfReader(line.removeprefix("The report is ready: "))


@pytest.mark.sqlite_only("a program that is its own server has a file")
def test_it_runs_to_a_report(env: dict[str, str], model: ModelEndpoint, tmp_path: Path) -> None:
    done = subprocess.run(program("run.py"), env=env, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "completed" in done.stdout
    assert "checkout fails on Mondays" in pdf_in(done.stdout).pages[0].extract_text()
    assert model.turns == [1, 2, 3]


@pytest.mark.sqlite_only("a program that is its own server has a file")
def test_another_process_finishes_what_a_killed_one_began(
    env: dict[str, str], model: ModelEndpoint, tmp_path: Path
) -> None:
    """The first process is killed while its first tool runs; turn 1 is recorded by then and not asked for again."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    stuck = tmp_path / "stuck.py"
    stuck.write_text(
        "import sys\n"
        "if sys.argv[1] == 'list': print('read-csv (Free)')\n"
        f"else: open({str(pipe)!r}, 'w').write('running'); sys.stdin.read()\n"
    )
    held = env | {"SKILLS_COMMAND": f"{sys.executable} {stuck}"}
    with subprocess.Popen(
        program("start.py"), env=held, cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as first:
        assert pipe.read_text() == "running"
        first.kill()
        assert first.stdout is not None
        execution = next(line for line in first.stdout.read().split() if line.startswith("exe_"))
    done = subprocess.run(
        program("resume.py", execution), env=env, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert len(pdf_in(done.stdout).pages) == 1
    assert model.turns == [1, 2, 3]


@pytest.mark.parametrize("decision", [[], ["--reject", "over budget"]])
def test_the_paid_skill_waits_for_a_person_while_nobody_is_alive(
    env: dict[str, str], model: ModelEndpoint, tmp_path: Path, decision: list[str]
) -> None:
    with http_server.process(tmp_path / "server.db") as server:
        env |= {"PERDURE_URL": f"{server.url}/api", "PERDURE_API_KEY": server.key}
        with subprocess.Popen(
            program("start.py", "--premium"), env=env, cwd=tmp_path, stdout=subprocess.PIPE, text=True
        ) as first:
            assert first.stdout is not None
            execution = next(line.strip() for line in first.stdout if line.startswith("exe_"))
            with AgentRuntime(server.url, api_key=server.key) as runtime:
                news = AgentHandle(execution, runtime).stream()
                asked = next(event for event in news if isinstance(event, ApprovalRequested))
            first.kill()
        decided = subprocess.run(
            program("approve.py", execution, *decision),
            env=env,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
        )
        assert decided.stdout.startswith(f"run_premium_skill {asked.args}")
        done = subprocess.run(
            program("resume.py", execution), env=env, cwd=tmp_path, capture_output=True, text=True, check=True
        )
        again = subprocess.run(
            program("approve.py", execution), env=env, cwd=tmp_path, capture_output=True, text=True, check=False
        )
    assert len(pdf_in(done.stdout).pages) == 1
    assert ("over budget" if decision else "found 6 of the 6 figures") in done.stdout
    assert model.turns == [1, 2, 3, 4]
    assert (again.returncode, again.stderr) == (1, f"{execution} waits for nobody: it is completed\n")


def pipeline(code: str, env: dict[str, str], cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run code that has the example's module at hand."""
    code = f"import sys; sys.path.insert(0, {str(EXAMPLE)!r}); import json, incident_pipeline as p\n{code}"
    return subprocess.run([sys.executable, "-c", code], env=env, cwd=cwd, capture_output=True, text=True, check=False)


def test_the_free_tool_refuses_what_costs_money(env: dict[str, str], tmp_path: Path) -> None:
    done = pipeline("print(json.dumps(p.run_skill('pdf-to-markdown', ['x.pdf'])))", env, tmp_path)
    assert "not one of the free skills" in json.loads(done.stdout)["refused"]


def test_only_the_paid_tool_asks_first(env: dict[str, str], tmp_path: Path) -> None:
    code = "print(json.dumps([one.options.approval_required for one in p.report_agent.definitions().values()]))"
    assert json.loads(pipeline(code, env, tmp_path).stdout) == [False, True]


def test_any_runner_with_the_two_verbs_will_do(env: dict[str, str], tmp_path: Path) -> None:
    runner = tmp_path / "bin" / "skills"
    runner.parent.mkdir()
    runner.write_text(
        f"#!{sys.executable}\n"
        "import json, sys\n"
        "if sys.argv[1:] == ['list', '--brief']: print('- word-count (Free)  Count words\\n- transcript $0.10')\n"
        "else:\n"
        "    verb, form, name, dashes, *args = sys.argv[1:]\n"
        "    assert (verb, form, dashes) == ('run', '--json', '--')\n"
        "    print(json.dumps({'exitCode': len(args) - 1, 'stdout': name, 'stderr': 'too many'}))\n"
    )
    runner.chmod(0o755)
    other = env | {"SKILLS_COMMAND": "skills", "PATH": f"{runner.parent}:{env['PATH']}"}
    code = "print(json.dumps([p.run_skill('word-count', ['x']), p.run_skill('transcript', ['x'])]))"
    ran, refused = json.loads(pipeline(code, other, tmp_path).stdout)
    assert ran == {"exitCode": 0, "stdout": "word-count", "stderr": "too many"}
    assert "refused" in refused
    failed = pipeline("p.run_skill('word-count', ['x', 'y'])", other, tmp_path)
    assert "RuntimeError: word-count failed: too many" in failed.stderr


def test_a_runner_that_leaves_no_record_is_a_failure(env: dict[str, str], tmp_path: Path) -> None:
    code = "p.run('read-csv', [])"
    failed = pipeline(code, env | {"SKILLS_COMMAND": f"{sys.executable} -c 'raise SystemExit(\"no luck\")'"}, tmp_path)
    assert "RuntimeError: read-csv left no record: no luck" in failed.stderr
