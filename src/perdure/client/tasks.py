"""`wire.api.TaskSource` over HTTP: where a worker on any machine gets its tasks. Resending anything is safe."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace

from perdure.client.channel import Ask, ReplyLost
from perdure.client.http_blobs import HttpBlobs
from perdure.core.work import Answer, Begin, Held, LeasedTask, LeaseRequest, Report, WorkerInfo
from perdure.wire import codec, routes
from perdure.wire.bodies import AnswersReply, HeldBody, LeaseBody, TasksReply

MAX_WAIT_SECONDS = 60.0
_GRACE_SECONDS = 10.0
"""For the network, beside the time that a server was asked to wait."""
SILENCE_SECONDS = 20.0
"""A liveness connection without a sign for this long is closed: the server gives one every 5 s."""
_MOST_REPORTS = 500
_ENVELOPE_BYTES = 256 * 1024


class HttpTaskSource(HttpBlobs):
    """The queues of the company that the key belongs to, at `url`."""

    async def lease(self, request: LeaseRequest, *, wait_seconds: float) -> list[LeasedTask]:
        wait = min(wait_seconds, MAX_WAIT_SECONDS)
        ask = _post("lease", routes.LEASE, codec.dump(LeaseBody(request, wait)), wait + _GRACE_SECONDS)
        return list(codec.load(TasksReply, await self._channel.call(ask)).tasks)

    async def begin(self, begin: Begin) -> Answer:
        return (await self._answers("begin", routes.BEGIN, codec.dump(begin)))[0]

    async def report(self, worker: str, reports: Sequence[Report]) -> list[Answer]:
        """Tell how attempts ended, in as many requests as their sizes ask for."""
        answers: list[Answer] = []
        for texts in _batches([codec.dump(_sayable(report)) for report in reports]):
            body = b'{"worker":%s,"reports":[%s]}' % (codec.dump(worker), b",".join(texts))
            answers += await self._answers("report", routes.REPORT, body)
        return answers

    async def beat(self, worker: str, held: Sequence[Held]) -> list[Answer]:
        return await self._answers("beat", routes.BEAT, codec.dump(HeldBody(worker, tuple(held))))

    async def hand_back(self, worker: str, held: Sequence[Held]) -> list[Answer]:
        return await self._answers("hand_back", routes.HAND_BACK, codec.dump(HeldBody(worker, tuple(held))))

    async def alive(self, info: WorkerInfo) -> AsyncGenerator[str]:
        """Hold the liveness connection. Ends when it breaks; raises if it could not be opened. Sent once."""
        opened = False
        lines = _Lines()
        try:
            async with self._channel.stream(
                _post("alive", routes.ALIVE, codec.dump(info), SILENCE_SECONDS)
            ) as signs_of_life:
                async for piece in signs_of_life:
                    opened = True
                    yield lines.last(piece)
        except ReplyLost:
            if not opened:
                raise

    async def _answers(self, name: str, path: str, body: bytes) -> list[Answer]:
        return list(codec.load(AnswersReply, await self._channel.call(_post(name, path, body))).answers)


class _Lines:
    """Text that comes in pieces, read by the line."""

    def __init__(self) -> None:
        self._last, self._rest = b"", b""

    def last(self, piece: bytes) -> str:
        """Return the last whole line so far."""
        whole, newline, self._rest = (self._rest + piece).rpartition(b"\n")
        if newline:
            self._last = whole.rpartition(b"\n")[2]
        return self._last.decode(errors="replace")


def _post(name: str, path: str, body: bytes, reply_seconds: float = 30.0) -> Ask:
    return Ask(name, "POST", path, body=body, reply_seconds=reply_seconds)


def _batches(texts: list[bytes]) -> list[list[bytes]]:
    """Return the texts in order, in groups that fit into one request each."""
    groups: list[list[bytes]] = []
    size = 0
    for text in texts:
        size += len(text) + 1
        if not groups or size > routes.MAX_BODY_BYTES - _ENVELOPE_BYTES or len(groups[-1]) >= _MOST_REPORTS:
            groups.append([])
            size = len(text) + 1
        groups[-1].append(text)
    return groups


def _sayable(report: Report) -> Report:
    """Return the report with a message that is text everywhere: Python lets half a character into an error."""
    failure = report.failure
    if failure is None:
        return report
    message = failure.message.encode("utf-8", "replace").decode()
    return report if message == failure.message else replace(report, failure=replace(failure, message=message))
