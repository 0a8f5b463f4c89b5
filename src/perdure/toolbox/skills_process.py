"""Run one script in a child process, within a time and an output limit, and say how it ended.

Named edge: starts and kills processes. On Linux the script dies with its runner, even when that is killed with -9.
What a script starts itself is killed with it as long as it stays in its process group.
"""

from __future__ import annotations

import errno
import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from perdure.core.ports import Clock
from perdure.errors import InvalidInput

STDOUT_BYTES = 2 * 1024 * 1024
"""A record holds the output twice, as text and parsed, and has to fit into one stored value of 8 MB."""

STDERR_BYTES = 64 * 1024
"""The end is kept: that is where a failing program says why."""

EXIT_TIMED_OUT = 124
EXIT_TOO_MUCH_OUTPUT = 125
EXIT_CANNOT_RUN = 126
EXIT_UNKNOWN = 127

_LOOK_SECONDS = 0.05
_LAUNCHER = Path(__file__).with_name("skills_launch.py")


@dataclass(frozen=True, slots=True)
class Ended:
    """How a script ended."""

    exit_code: int
    """The script's own; 128 + N when signal N ended it; 124 and 125 when a limit did."""
    stdout: str
    stderr: str
    duration_ms: int


def run_script(
    script: Path, args: Sequence[str], *, cwd: Path, env: Mapping[str, str], timeout_ms: int, clock: Clock
) -> Ended:
    """Run `script` to its end or to a limit. A `.py` file runs on this interpreter, any other file runs itself.

    Raises `InvalidInput` (`skill_not_started`) when the system cannot start it. Whatever ends this call, also an
    exception, ends the script.
    """
    started = clock.monotonic_ms()
    with tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
        process = _start(_command(script, args), cwd, env, stdout, stderr)
        try:
            limit = _wait(process, stdout, started + timeout_ms, clock)
        finally:
            code = _end(process)
        if limit == EXIT_TIMED_OUT:
            note = f"\nstopped: it ran longer than {timeout_ms / 1000:g} s. Raise the limit with --timeout.\n"
        else:
            note = _TOO_MUCH if limit else ""
        return Ended(
            exit_code=limit or (code if code >= 0 else 128 - code),
            stdout=_text(stdout, STDOUT_BYTES),
            stderr=_tail(stderr) + note,
            duration_ms=clock.monotonic_ms() - started,
        )


def _command(script: Path, args: Sequence[str]) -> list[str]:
    command = [sys.executable, str(script), *args] if script.suffix == ".py" else [str(script), *args]
    if sys.platform != "linux":
        return command
    return [sys.executable, "-I", "-S", str(_LAUNCHER), str(os.getpid()), *command]


def _start(
    command: list[str], cwd: Path, env: Mapping[str, str], stdout: IO[bytes], stderr: IO[bytes]
) -> subprocess.Popen[bytes]:
    # Files and not pipes: no reader thread, no full pipe, and a stray grandchild cannot hold us up.
    try:
        return subprocess.Popen(
            command,
            cwd=cwd,
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
        )
    except OSError as error:
        hint = _too_long_hint(command) if error.errno == errno.E2BIG else ""
        message = f"the script could not be started: {error.strerror}.{hint}"
        raise InvalidInput(message, code="skill_not_started") from None
    except ValueError:
        message = "an argument holds a NUL character, which no program can take; leave it out."
        raise InvalidInput(message, code="skill_bad_args") from None


def _too_long_hint(command: Sequence[str]) -> str:
    longest = max(len(os.fsencode(part)) for part in command)
    return f" Its longest argument has {longest:,} bytes: put it into a file and pass the path of that."


def _wait(process: subprocess.Popen[bytes], stdout: IO[bytes], deadline_ms: int, clock: Clock) -> int:
    """Return when the script has ended (0) or reached a limit (its exit code)."""
    watch = _open_watch(process)
    try:
        while True:
            ended = _ended_soon(process, watch)
            if os.fstat(stdout.fileno()).st_size > STDOUT_BYTES:
                return EXIT_TOO_MUCH_OUTPUT
            if ended:
                return 0
            if clock.monotonic_ms() >= deadline_ms:
                return EXIT_TIMED_OUT
    finally:
        if watch is not None:
            os.close(watch)


def _open_watch(process: subprocess.Popen[bytes]) -> int | None:
    if sys.platform != "linux":
        return None
    try:
        return os.pidfd_open(process.pid)
    except OSError:  # a kernel before 5.3, or a sandbox that forbids it
        return None


def _ended_soon(process: subprocess.Popen[bytes], watch: int | None) -> bool:
    if watch is not None:
        poll = select.poll()
        poll.register(watch, select.POLLIN)
        return bool(poll.poll(_LOOK_SECONDS * 1000))
    try:
        process.wait(_LOOK_SECONDS)
    except subprocess.TimeoutExpired:
        return False
    return True


_TOO_MUCH = f"\nstopped: it printed more than {STDOUT_BYTES:,} bytes. Let it write a file into SKILL_OUT_DIR instead.\n"


def _end(process: subprocess.Popen[bytes]) -> int:
    # Only while it is not reaped: until then its number, and that of its group, cannot belong to anybody else.
    if process.returncode is None:
        try:
            if sys.platform == "win32":
                process.kill()
            else:
                os.killpg(process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):  # macOS: EPERM for a group of which only a zombie is left
            pass
    return process.wait()


def _text(source: IO[bytes], limit: int) -> str:
    source.seek(0)
    return source.read(limit).decode(errors="replace")


def _tail(source: IO[bytes]) -> str:
    size = source.seek(0, os.SEEK_END)
    source.seek(max(0, size - STDERR_BYTES))
    text = source.read(STDERR_BYTES).decode(errors="replace")
    return text if size <= STDERR_BYTES else f"[{size - STDERR_BYTES:,} bytes left out]\n{text}"
