"""Somebody who starts the run, says yes, and looks, over HTTP like anybody else. What was asked is a witness, too.

Blocking, without threads or loops: the process that forks has neither. A server that does not answer is no news.
"""

from __future__ import annotations

import http.client
import json
from typing import Any
from urllib.parse import quote, urlsplit

from perdure.core import states
from perdure.testing.client_log import ClientLog
from perdure.testing.crashtest.place import Place

ASK_SECONDS = 2.0
STARTER = "crashtest"
DECIDER = "crashtest-person"


class Refused(Exception):
    """The server said no."""


class NoAnswer(Exception):
    """Nobody answered, or the answer broke off."""


class Client:
    """The client of one run."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self.log = ClientLog(place.client_log)
        self.execution = ""
        self.view: dict[str, Any] = {}
        self.events: list[dict[str, Any]] = []
        self.tasks: list[dict[str, Any]] = []

    def start(self, spec: dict[str, Any], given: str) -> None:
        """Start the execution, or find the one that was started before."""
        body = {"spec": spec, "input": given, "idempotency_key": STARTER, "by": STARTER}
        with self.log.asking("start", key=STARTER, refusals=(Refused,)) as asked:
            self.execution = asked.execution = self._ask("POST", "/v1/executions", body)["id"]

    def look(self) -> None:
        """Take in how the execution stands, and what is new in its log."""
        self.view = self._ask("GET", self._path())
        self.tasks = self._ask("GET", self._path("/tasks"))["items"]
        while page := self._ask("GET", self._path(f"/events?after={len(self.events)}&limit=1000"))["items"]:
            self.events += page

    def approve(self) -> None:
        """Say yes to everything that waits for it, in as many names as it takes."""
        for approval in self.view.get("approvals", ()):
            names = approval["approvers"] or [f"{DECIDER}-{n}" for n in range(1, approval["quorum"] + 1)]
            left = [name for name in names if name not in approval["approved"]]
            for name in left[: approval["quorum"] - len(approval["approved"])]:
                self._decide(approval, name)

    def _decide(self, approval: dict[str, Any], by: str) -> None:
        path = f"/v1/approvals/{quote(approval['id'], safe='')}/decision"
        body = {"decision": "approve", "by": by, "digest": approval["digest"]}
        said = {"approval": approval["id"], "decision": "approve", "execution": self.execution}
        alone = approval["quorum"] == 1
        try:
            with self.log.asking("decide" if alone else "vote", refusals=(Refused,), **said):
                self._ask("POST", path, body)
        except Refused:
            return  # decided meanwhile, by a request whose answer was lost

    def rule(self, address: str, ruling: str, reason: str) -> bool:
        """Say what an uncertain effect was; tell whether it was accepted."""
        body = {"address": address, "ruling": ruling, "by": DECIDER, "reason": reason}
        try:
            with self.log.asking("rule", execution=self.execution, refusals=(Refused,), address=address, ruling=ruling):
                self._ask("POST", self._path("/effects/ruling"), body)
        except Refused:
            return False
        return True

    def why(self) -> str:
        """Return what the doctor says of an execution that does not move."""
        try:
            found = self._ask("GET", self._path("/doctor"))["items"]
        except (Refused, NoAnswer) as error:
            return str(error)
        return " ".join(one["what"] for one in found if one["level"] != "ok") or "nothing is wrong with it"

    @property
    def ended(self) -> bool:
        """Whether the execution has ended."""
        return self.view.get("state") in states.TERMINAL

    def _path(self, rest: str = "") -> str:
        return f"/v1/executions/{quote(self.execution, safe='')}{rest}"

    def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        url, key = self._place.note("server.url"), self._place.note("server.key")
        if not url:
            raise NoAnswer("no server was ready yet")
        address = urlsplit(url)
        connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=ASK_SECONDS)
        headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        try:
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            response = connection.getresponse()
            status, text = response.status, response.read()
            found = json.loads(text)
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise NoAnswer(f"{method} {path}: {error!r}") from error
        finally:
            connection.close()
        if status in (500, 503):
            raise NoAnswer(f"{method} {path}: {status} {text[:200]!r}")
        if status >= 400:
            raise Refused(f"{method} {path}: {status} {text[:300]!r}")
        return found
