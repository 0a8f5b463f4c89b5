"""Skills are found by name, first place first, and a run leaves a record whatever happens in it."""

from __future__ import annotations

import hashlib
import json
import os
import signal
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from perdure.errors import InvalidInput, NotFound
from perdure.testing.clock import FakeClock
from perdure.toolbox.skills import list_skills, nearest, read_catalog, refusal, run_skill
from perdure.toolbox.skills_process import STDERR_BYTES, STDOUT_BYTES

MakeSkill = Callable[..., Path]


class HurriedClock(FakeClock):
    """A clock on which an hour passes between any two looks."""

    def monotonic_ms(self) -> int:
        self.advance(3600)
        return super().monotonic_ms()


def test_the_bundled_skills_are_there(skills_dir: Path) -> None:
    prices = {skill.name: skill.price_label for skill in list_skills()}
    assert prices == {"pdf-generate": "(Free)", "pdf-to-markdown": "$0.05", "read-csv": "(Free)"}
    assert read_catalog().problems == ()


def test_the_first_of_a_name_wins(make_skill: MakeSkill, tmp_path: Path) -> None:
    def who(*dirs: Path) -> object:
        return run_skill("read-csv", dirs=dirs).output

    make_skill("read-csv", "print('\"here\"')", place=Path("skills"))
    assert who() == "here", "./skills comes before the bundled ones"
    make_skill("read-csv", "print('\"path\"')")
    assert who() == "path", "PERDURE_SKILLS_PATH comes before ./skills"
    make_skill("read-csv", "print('\"dir\"')", place=tmp_path / "given")
    assert who(tmp_path / "given") == "dir", "what is given comes first"
    assert who(tmp_path / "given" / "read-csv") == "dir", "a skill folder itself may be given"
    assert [skill.name for skill in list_skills()].count("read-csv") == 1


def test_a_broken_folder_hides_nothing_else(make_skill: MakeSkill, monkeypatch: pytest.MonkeyPatch) -> None:
    make_skill("fine", "print(1)")
    broken = make_skill("broken", "print(1)")
    (broken / "SKILL.md").write_text("no front matter")
    monkeypatch.setenv("PERDURE_SKILLS_PATH", f"{broken.parent}{os.pathsep}/absent/place")
    catalog = read_catalog()
    assert "fine" in [skill.name for skill in catalog.skills]
    assert [str(broken) in problem or "/absent/place" in problem for problem in catalog.problems] == [True, True]


def test_a_given_folder_that_is_not_there_is_refused(skills_dir: Path) -> None:
    with pytest.raises(InvalidInput) as caught:
        list_skills(["absent"])
    assert caught.value.code == "no_such_dir"


@pytest.mark.parametrize(
    ("wrong", "right"),
    [("readcsv", "read-csv"), ("csv-read", "read-csv"), ("pdf-generator", "pdf-generate"), ("xyz", None)],
)
def test_an_unknown_skill_is_refused_with_the_nearest_name(skills_dir: Path, wrong: str, right: str | None) -> None:
    with pytest.raises(NotFound) as caught:
        run_skill(wrong)
    assert caught.value.code == "unknown_skill"
    assert repr(right) in caught.value.message if right else "perdure skills list" in caught.value.message
    assert nearest(wrong, [skill.name for skill in list_skills()]) == right


def test_a_record_says_what_happened(make_skill: MakeSkill, tmp_path: Path) -> None:
    make_skill(
        "report",
        "import os, sys, json, pathlib\n"
        "out = pathlib.Path(os.environ['SKILL_OUT_DIR']); (out / 'sub').mkdir()\n"
        "(out / 'sub' / 'b.txt').write_text('two'); (out / 'a.txt').write_text('one')\n"
        "(out / 'link').symlink_to('/etc/passwd')\n"
        "print('working', file=sys.stderr); print(json.dumps({'args': sys.argv[1:], 'cwd': os.getcwd()}))\n",
        metadata="  price: 0.25\n",
    )
    clock = FakeClock()
    record = run_skill("report", ["--x", "a b", "ü\n"], clock=clock)
    folder = tmp_path / "out" / record.id
    assert (record.status, record.exit_code, record.stderr, record.price) == ("completed", 0, "working\n", 0.25)
    assert record.output == {"args": ["--x", "a b", "ü\n"], "cwd": str(Path.cwd())}
    assert [(a.path, a.bytes, a.sha256) for a in record.artifacts] == [
        (str(folder / "a.txt"), 3, hashlib.sha256(b"one").hexdigest()),
        (str(folder / "sub" / "b.txt"), 3, hashlib.sha256(b"two").hexdigest()),
    ]
    assert record.id.startswith("run_")
    assert record.started_at == "2023-11-14T22:13:20.000Z"
    assert sorted(record.to_json()) == sorted(
        "id skill status exitCode stdout stderr artifacts price durationMs startedAt output".split()
    )
    json.dumps(record.to_json(), allow_nan=False)


def test_two_runs_have_two_folders_and_an_empty_one_is_removed(make_skill: MakeSkill, tmp_path: Path) -> None:
    make_skill("touch", "import os, sys\nif sys.argv[1:]: open(os.environ['SKILL_OUT_DIR'] + '/x', 'w').close()\n")
    first, second, empty = run_skill("touch", ["x"]), run_skill("touch", ["x"]), run_skill("touch")
    assert first.artifacts[0].path != second.artifacts[0].path
    assert empty.artifacts == ()
    assert sorted(os.listdir(tmp_path / "out")) == sorted([first.id, second.id])


@pytest.mark.parametrize(
    ("printed", "output"),
    [
        ('{"a": 1}', {"a": 1}),
        ('reading...\n{"a": 1}\n', {"a": 1}),
        ("[\n1,\n2\n]\n", [1, 2]),
        ("not json", None),
        ("", None),
        ("NaN", None),
        ("[" * 100_000, None),
    ],
)
def test_json_that_is_printed_is_parsed(make_skill: MakeSkill, tmp_path: Path, printed: str, output: object) -> None:
    (tmp_path / "printed").write_text(printed)
    make_skill("say", f"print(open({str(tmp_path / 'printed')!r}).read(), end='')")
    record = run_skill("say")
    assert record.output == output
    assert record.stdout == printed


def test_a_script_that_fails_leaves_a_failed_record(make_skill: MakeSkill) -> None:
    make_skill("fail", "import sys; sys.exit('no luck')")
    record = run_skill("fail")
    assert (record.status, record.exit_code, record.stderr) == ("failed", 1, "no luck\n")


def test_a_script_ended_by_a_signal_has_the_code_a_shell_would_give(make_skill: MakeSkill) -> None:
    make_skill("suicide", "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
    assert run_skill("suicide").exit_code == 128 + signal.SIGSEGV


def test_a_script_that_hangs_is_stopped(make_skill: MakeSkill) -> None:
    make_skill("hang", "import time\nwhile True: time.sleep(3600)")
    record = run_skill("hang", timeout=timedelta(seconds=2), clock=HurriedClock())
    assert (record.status, record.exit_code) == ("failed", 124)
    assert "longer than 2 s" in record.stderr


def test_a_script_that_floods_is_stopped(make_skill: MakeSkill) -> None:
    make_skill("flood", "while True: print('x' * 4096)")
    record = run_skill("flood")
    assert (record.status, record.exit_code) == ("failed", 125)
    assert len(record.stdout) == STDOUT_BYTES
    assert "SKILL_OUT_DIR" in record.stderr


def test_output_just_over_the_limit_is_not_passed_off_as_whole(make_skill: MakeSkill) -> None:
    make_skill("much", f"print('x' * {STDOUT_BYTES})")
    assert run_skill("much").exit_code == 125


def test_of_a_long_stderr_the_end_is_kept(make_skill: MakeSkill) -> None:
    make_skill("complain", f"import sys; sys.stderr.write('x' * {STDERR_BYTES * 2}); sys.exit('the reason')")
    record = run_skill("complain")
    assert record.stderr.endswith("the reason\n")
    assert len(record.stderr) < STDERR_BYTES + 100


def test_bytes_that_are_not_text_do_not_break_a_record(make_skill: MakeSkill) -> None:
    make_skill("binary", r"import sys; sys.stdout.buffer.write(b'\xff\x00ok')")
    assert run_skill("binary").stdout == "\ufffd\x00ok"


def test_children_end_with_their_script(make_skill: MakeSkill, tmp_path: Path) -> None:
    """The child holds the pipe open; that it ends is seen by the pipe's end."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    child = f"import time; f = open({str(pipe)!r}, 'w'); print(1, flush=True); time.sleep(3600)"
    script = f"import subprocess, sys; child = [sys.executable, '-c', {child!r}]\n"
    make_skill("parent", script + "subprocess.Popen(child, stdout=subprocess.PIPE).stdout.readline()\n")
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    os.set_blocking(reader, True)
    try:
        assert run_skill("parent").status == "completed"
        assert os.read(reader, 1) == b""
    finally:
        os.close(reader)


def test_a_script_sees_no_keys_but_those_it_names(make_skill: MakeSkill, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "PERDURE_API_KEY", "PERDURE_FAILPOINTS_LOG", "DATABASE_URL", "NAMED_KEY"):
        monkeypatch.setenv(name, "secret")
    make_skill("env", "import os, json; print(json.dumps(dict(os.environ)))", metadata="  env: NAMED_KEY\n")
    seen = run_skill("env").output
    assert isinstance(seen, dict)
    assert [name for name, value in seen.items() if value == "secret"] == ["NAMED_KEY"]
    assert seen["SKILL_NAME"] == "env"
    assert seen["PATH"] == os.environ["PATH"]


def test_a_script_reads_nothing_from_the_terminal(make_skill: MakeSkill) -> None:
    make_skill("ask", "import sys; print(repr(sys.stdin.read()))")
    assert run_skill("ask").stdout == "''\n"


def test_a_script_in_another_language_runs_by_itself(make_skill: MakeSkill) -> None:
    folder = make_skill("shell", "x")
    script = folder / "scripts" / "main.sh"
    script.write_text('#!/bin/sh\necho "[\\"$1\\"]"\n')
    script.chmod(0o755)
    (folder / "SKILL.md").write_text((folder / "SKILL.md").read_text().replace("scripts/main.py", "scripts/main.sh"))
    assert run_skill("shell", ["a b"]).output == ["a b"]
    script.chmod(0o644)
    record = run_skill("shell")
    assert record.exit_code == 126
    assert "Permission denied" in record.stderr


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [(["a\0b"], "skill_bad_args", "NUL"), (["x" * 200_000], "skill_not_started", "200,000 bytes")],
)
def test_arguments_that_no_program_can_take_are_refused(
    make_skill: MakeSkill, args: list[str], code: str, said: str
) -> None:
    make_skill("any", "pass")
    with pytest.raises(InvalidInput) as caught:
        run_skill("any", args)
    assert caught.value.code == code
    assert said in caught.value.message


def test_a_skill_of_instructions_is_not_run(make_skill: MakeSkill) -> None:
    make_skill("words")
    with pytest.raises(InvalidInput) as caught:
        run_skill("words")
    assert caught.value.code == "skill_has_no_script"


def test_an_export_folder_that_cannot_be_made_is_named(make_skill: MakeSkill, tmp_path: Path) -> None:
    make_skill("any", "pass")
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInput) as caught:
        run_skill("any", out=tmp_path / "file")
    assert caught.value.code == "skills_out_unusable"
    assert str(tmp_path / "file") in caught.value.message


def test_a_run_that_never_began_has_a_record_too(skills_dir: Path) -> None:
    record = refusal("nope", NotFound("there is no skill 'nope'", code="unknown_skill"))
    assert (record.status, record.exit_code, record.price, record.stdout) == ("failed", 127, 0.0, "")
    assert refusal("x", InvalidInput("no")).exit_code == 126
