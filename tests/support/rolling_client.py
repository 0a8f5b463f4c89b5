"""A client of the rolling upgrades: begins executions and says yes to what waits for a yes, until a file says stop.

    python rolling_client.py URL NAME FOLDER

Runs on the old version's library and on the new one's. A server that is away for a moment is asked again; what was
asked and what came of it is in the client's log.
"""

from __future__ import annotations

import itertools
import os
import sys
import time
from pathlib import Path

from perdure import AgentRuntime, Conflict
from perdure.errors import Retryable
from perdure.testing.client_log import ClientLog
from rolling_agent import SIGNED, agent

PAUSE_SECONDS = 0.1
KEPT = " kept"
"""Orders that nobody approves before the upgrade is over: their executions wait all through it."""


def main(url: str, name: str, folder: Path) -> None:
    """Work until `stop` is there."""
    log = ClientLog(folder / "client.jsonl")
    with AgentRuntime(url, api_key=os.environ["PERDURE_API_KEY"], serve_tools=False) as runtime:
        for number in itertools.count():
            if (folder / "stop").exists():
                return
            order = f"{name}-{number}" + ("", KEPT + SIGNED, SIGNED)[number % 3]
            begin(runtime, log, order, folder)
            agree(runtime, log)
            time.sleep(PAUSE_SECONDS)


def begin(runtime: AgentRuntime, log: ClientLog, order: str, folder: Path) -> None:
    """Begin one execution, under its key until a server has said yes."""
    while not (folder / "stop").exists():
        try:
            with log.asking("start", key=order) as asked:
                asked.execution = runtime.start(agent, order, idempotency_key=order).execution_id
                return
        except Retryable:
            time.sleep(PAUSE_SECONDS)


def agree(runtime: AgentRuntime, log: ClientLog) -> None:
    """Approve what waits now. Somebody else may be faster, and a server that is away is asked the next time."""
    try:
        for one in runtime.wait(runtime.api.approvals()):
            if KEPT in str(one.args["order"]):
                continue
            about = {"approval": one.id, "decision": "approve"}
            with log.asking("decide", execution=one.execution, refusals=(Conflict,), **about):
                runtime.wait(runtime.api.decide(one.id, "approve", by="ops"))
    except (Retryable, Conflict):
        return


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
