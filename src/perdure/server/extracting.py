"""Have the text of files read, in a process each that is limited and can be killed. What comes from there is data.

Guarantees: a file that eats memory, processor, output or time ends its own process and nothing else; a few are read at
a time, the others wait.
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import NamedTuple
from weakref import WeakKeyDictionary

from perdure.core.ports import Clock
from perdure.errors import InvalidInput
from perdure.toolbox.skills_process import EXIT_TIMED_OUT, EXIT_TOO_MUCH_OUTPUT, Ended, run_script

_READER = Path(__file__).parents[1] / "rooms" / "extract.py"
AT_A_TIME = 2
WAIT_MS = 30_000


class Limits(NamedTuple):
    """What the reading of one file may take."""

    memory_bytes: int = 1024**3
    cpu_seconds: int = 20
    wait_ms: int = WAIT_MS


class Extracted(NamedTuple):
    """What was read in a file."""

    state: str
    """`text`, `none`, or why there is no text."""
    text: str = ""


LIMITS = Limits()
_turns: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()
"""By event loop: a semaphore belongs to one."""


async def text_of(content: bytes, clock: Clock, limits: Limits = LIMITS) -> Extracted:
    """Return the text of a file: UTF-8 text of any kind, or a PDF. Never raises for what the file is."""
    async with _turns.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(AT_A_TIME)):
        return await asyncio.to_thread(_extract, content, clock, limits)


def _extract(content: bytes, clock: Clock, limits: Limits) -> Extracted:
    with tempfile.TemporaryDirectory(prefix="perdure-file-") as folder:
        file = Path(folder) / "file"
        file.write_bytes(content)
        args = [str(file), str(limits.memory_bytes), str(limits.cpu_seconds)]
        environment = {"PYTHONSAFEPATH": "1", "PYTHONDONTWRITEBYTECODE": "1"}
        try:
            ended = run_script(_READER, args, cwd=Path(folder), env=environment, timeout_ms=limits.wait_ms, clock=clock)
        except InvalidInput as error:
            return Extracted(f"no process could be started to read it: {error.message}"[:200])
    return _told(ended, limits)


def _told(ended: Ended, limits: Limits) -> Extracted:
    if ended.exit_code == 0:
        state, _, text = ended.stdout.partition("\n")
        return Extracted(state, text)
    match ended.exit_code:
        case 152:  # 128 + SIGXCPU
            why = f"reading it takes more than {limits.cpu_seconds} s of processor time"
        case code if code == EXIT_TIMED_OUT:
            why = f"reading it takes more than {limits.wait_ms // 1000} s"
        case code if code == EXIT_TOO_MUCH_OUTPUT:
            why = "it says more than is kept"
        case _:
            last = ended.stderr.strip().rpartition("\n")[2]
            why = f"its reader ended with {ended.exit_code}: {last}"
    return Extracted(why[:200])
