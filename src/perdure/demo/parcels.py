"""The crash demo in a browser: a server starts a worker, somebody kills it, another one goes on with the run.

The worker is `perdure worker` as one would type it, in a process of its own, with an agent that is in this package. It
knows the server's address and key from its environment, and nothing else of the user's that is called PERDURE_ or
INCIDENT_. Beside it the server runs what it runs for every execution, and the scripted model.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from perdure.core.views import StartRequest
from perdure.demo.parcels_script import PROMPT, STEPS
from perdure.demo.passing_folder import PassingFolder, clear_after_the_dead
from perdure.demo.processes import now_ms, surroundings
from perdure.errors import Conflict, PerdureError
from perdure.log import get_log
from perdure.wire.api import Api
from perdure.wire.bodies_demo import DemoView, DemoWorker

log = get_log(__name__)

TARGET = "perdure.demo.parcels_agent:tracker"
MOST_WORKERS = 3
"""Of one run. The last one is not killed: somebody has to bring it to its end."""
PAUSE_SECONDS = 2.5
"""How long nobody is there after a worker died, so that it can be seen."""
MOST_SECONDS = 180.0
"""How long a run may take. It is cancelled then."""
LEASE_MS = 1_500
FOLDERS = "perdure-demo-"
"""How the names of workers' folders begin."""


@dataclass
class _Run:
    """One run, and what there was for it."""

    folder: PassingFolder
    execution: str = ""
    workers: list[DemoWorker] = field(default_factory=list[DemoWorker])
    process: asyncio.subprocess.Process | None = None
    """The worker that is there now, once it is connected."""
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when that one has ended."""
    over: bool = False


class ParcelsDemo:
    """`CrashDemo`: one run at a time, with at most `MOST_WORKERS` processes, one after the other.

    None of them outlives it: `aclose` ends the last one, and each leaves by itself when its server is gone.
    """

    def __init__(self, api: Api) -> None:
        """`api`: the verbs of the default company."""
        self._api = api
        self._place: dict[str, str] = {}
        self._run: _Run | None = None
        self._playing: asyncio.Task[None] | None = None

    def open(self, url: str, key: str) -> None:
        """Say where the server listens and what opens it, before anything is begun. `key`: empty where none is asked
        for."""
        self._place = {"PERDURE_URL": url, **({"PERDURE_API_KEY": key} if key else {})}

    async def aclose(self) -> None:
        """End what goes on. The run stays in the store, as it is."""
        if self._playing is not None:
            self._playing.cancel()
            await asyncio.wait((self._playing,))

    def view(self) -> DemoView:
        run = self._run
        if run is None:
            return DemoView(available=True, steps=STEPS, kills_left=MOST_WORKERS - 1)
        kills_left = MOST_WORKERS - 1 - sum(one.ended_ms is not None for one in run.workers)
        return DemoView(True, run.execution or None, not run.over, STEPS, max(0, kills_left), tuple(run.workers))

    async def begin(self, by: str) -> DemoView:
        if self._run is not None and not self._run.over:
            raise Conflict("The demo runs already. Another one can begin when it has ended.", code="demo_runs")
        before, run = self._run, _Run(PassingFolder(FOLDERS))
        self._run = run  # at once: of two that ask together, one is told that it runs
        try:
            await asyncio.to_thread(clear_after_the_dead, FOLDERS)  # of servers that were killed
            run.execution = await self._start(by)
        except BaseException:
            self._run = before
            run.folder.remove()
            raise
        self._playing = asyncio.create_task(self._play(run), name="demo")
        return self.view()

    async def kill(self) -> DemoView:
        run = self._run
        if run is None or run.over:
            raise Conflict("The demo does not run: there is nothing to kill.", code="demo_over")
        if self.view().kills_left == 0:
            raise Conflict("The last worker is left alone, so that the run comes to its end.", code="no_kills_left")
        if run.process is None or run.process.returncode is not None:
            raise Conflict("No worker is connected just now: the next one is on its way.", code="no_worker")
        gone = run.gone
        run.process.kill()
        await gone.wait()
        return self.view()

    async def _start(self, by: str) -> str:
        from perdure.demo.parcels_agent import tracker  # noqa: PLC0415 - what a server without a demo need not import

        return (await self._api.start(StartRequest(tracker.compile(), PROMPT, by=by, tags=("demo",)))).id

    async def _play(self, run: _Run) -> None:
        """See that the run has a worker until it has ended."""
        serving = asyncio.create_task(self._serve(run), name="demo.worker")
        try:
            async with asyncio.timeout(MOST_SECONDS):
                await self._api.wait(run.execution)
        except TimeoutError:
            await self._api.cancel(run.execution, reason="the demo took too long")
        except PerdureError as error:
            log.warning("demo.not_followed", execution=run.execution, code=error.code, action="its worker is ended")
        finally:
            serving.cancel()
            await asyncio.wait((serving,))
            run.over = True
            await asyncio.to_thread(run.folder.remove)

    async def _serve(self, run: _Run) -> None:
        for number in range(1, MOST_WORKERS + 1):
            try:
                code = await self._one_worker(run, f"demo-worker-{number}")
            except OSError as error:
                log.warning("demo.no_worker", error=str(error), action="the run waits for a worker")
                return
            if code != -signal.SIGKILL:
                log.warning("demo.worker_ended", code=code, action="another one is started")
            await asyncio.sleep(PAUSE_SECONDS)

    async def _one_worker(self, run: _Run, name: str) -> int:
        """Start a worker, and return how it ended. Cancelled, it leaves nothing of it."""
        process = await self._started(run.folder.path, name)
        at, gone = len(run.workers), asyncio.Event()
        run.workers.append(DemoWorker("", process.pid, now_ms()))
        try:
            assert process.stdout is not None
            told = _told(await process.stdout.readline())
            if told is not None:
                run.workers[at] = replace(run.workers[at], worker=told, ready_ms=now_ms())
                run.process, run.gone = process, gone
            return await process.wait()
        finally:
            run.process, killed = None, process.returncode == -signal.SIGKILL
            if process.returncode is None:  # the run has ended, or the server goes
                process.kill()
                await process.wait()
            run.workers[at] = replace(run.workers[at], ended_ms=now_ms(), killed=killed)
            gone.set()

    async def _started(self, folder: Path, name: str) -> asyncio.subprocess.Process:
        own = ("--name", name, "--lease-ms", str(LEASE_MS), "--parent-pid", str(os.getpid()))
        # In a folder of its own, where no module of the user's stands in the way of one of ours.
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "perdure", "worker", TARGET, "--json", "--log-level", "warning", *own),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            cwd=folder,
            env=surroundings(folder) | self._place,
            start_new_session=True,
        )


def _told(line: bytes) -> str | None:
    """Return the name under which the log knows a worker, from the line that it prints when it is connected."""
    try:
        said: dict[str, Any] = json.loads(line)
        return str(said["worker"])
    except (ValueError, KeyError, TypeError):
        return None
