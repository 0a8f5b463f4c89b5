"""`wire.api.FunctionSource` over HTTP: where a worker on any machine gets executions of durable functions from.

Resending anything is safe. What is said in logs goes through one request at a time: see `client.journal`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from perdure.client.channel import Ask
from perdure.client.http_blobs import HttpBlobs
from perdure.client.journal import HttpJournal, JournalPost
from perdure.client.tasks import MAX_WAIT_SECONDS
from perdure.core.functions import ClaimedExecution, ClaimRequest, Claims, Entry, HeldExecution, Reply
from perdure.core.work import Answer
from perdure.wire import codec, routes
from perdure.wire.bodies import AnswersReply, ClaimBody, OwnedBody

_GRACE_SECONDS = 10.0
"""For the network, beside the time that a server was asked to wait."""


class HttpFunctionSource(HttpBlobs):
    """The durable functions of the company that a key belongs to, at `url`."""

    @cached_property
    def _posts(self) -> dict[str, JournalPost]:
        """What is said in logs, by worker: each one's requests go one after another."""
        return {}

    async def claim(self, request: ClaimRequest, *, wait_seconds: float) -> Claims:
        wait = min(wait_seconds, MAX_WAIT_SECONDS)
        body = codec.dump(ClaimBody(request, wait))
        ask = Ask("claim_executions", "POST", routes.CLAIM, body=body, reply_seconds=wait + _GRACE_SECONDS)
        return codec.load(Claims, await self._channel.call(ask))

    async def renew(self, worker: str, held: Sequence[HeldExecution], lease_ms: int) -> list[Answer]:
        body = codec.dump(OwnedBody(worker, tuple(held), lease_ms))
        return await self._answers(Ask("renew_executions", "POST", routes.RENEW, body=body))

    async def release(self, worker: str, held: Sequence[HeldExecution]) -> list[Answer]:
        body = codec.dump(OwnedBody(worker, tuple(held)))
        return await self._answers(Ask("release_executions", "POST", routes.RELEASE, body=body))

    async def journal(self, worker: str, entries: Sequence[Entry]) -> list[Reply]:
        """Say all of it; each waits its turn behind what is being sent."""
        post = self._post(worker)
        said = [post.put(entry) for entry in entries]
        return [await one for one in said]

    def opened(self, worker: str, claimed: ClaimedExecution) -> HttpJournal:
        """Return the journal of a claimed execution."""
        return HttpJournal(self._post(worker), claimed.execution, claimed.fence)

    async def aclose(self) -> None:
        """Hang up. What was not said is not said any more."""
        for post in self._posts.values():
            await post.aclose()
        await super().aclose()

    def _post(self, worker: str) -> JournalPost:
        if worker not in self._posts:
            self._posts[worker] = JournalPost(self._channel, worker, self._channel.clock)
        return self._posts[worker]

    async def _answers(self, ask: Ask) -> list[Answer]:
        return list(codec.load(AnswersReply, await self._channel.call(ask)).answers)
