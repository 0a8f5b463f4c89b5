"""What there is to say of a log as a whole. Remembered, because a log only grows at its end. Reads nothing itself."""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from perdure.core.events import Event, Kind, is_model_call, reply_in
from perdure.core.views import UsageView, WaitView

REMEMBERED = 256
"""Executions whose gist is kept."""

_Place = tuple[str, int]
"""Address and time of a wait."""


@dataclass(slots=True)
class Gist:
    """Sums over model calls, and the waits that only a log knows. Its size is that of what is open."""

    seq: int = 0
    """Of the last event that is in it."""
    halted: dict[Kind, str | None] = field(default_factory=dict[Kind, "str | None"])
    """What was said when it was last paused, and when it was last stuck."""
    _calls: int = 0
    _input_tokens: int = 0
    _output_tokens: int = 0
    _cost: float = 0.0
    _unpriced: bool = False
    _waits: dict[str, deque[_Place]] = field(default_factory=dict[str, deque[_Place]])
    """Waits for signals that did not come, by name, the oldest first."""
    _unclaimed: Counter[str] = field(default_factory=Counter[str])
    """Signals that nothing waited for yet, by name."""
    _children: dict[str, WaitView] = field(default_factory=dict[str, WaitView])
    """By address."""

    def take(self, event: Event) -> None:
        """Add the next event of the log."""
        self.seq = event.seq
        said = event.data
        match event.kind:
            case Kind.STEP_RECORDED if is_model_call(event):
                self._call(reply_in(event))
            case Kind.FORKED:  # what stands before was paid by the origin
                self._calls = self._input_tokens = self._output_tokens = 0
                self._cost, self._unpriced = 0.0, False
            case Kind.PAUSED | Kind.STUCK:
                self.halted[event.kind] = said["message"] or None
            case Kind.SIGNAL:
                self._signal(str(said["name"]))
            case Kind.WAIT_OPENED if said["kind"] == "signal":
                self._wait(str(said["name"]), (event.address, event.at_ms))
            case Kind.CHILD_STARTED:
                detail = f"its child {said['execution']} of {said['agent']}"
                self._children[event.address] = WaitView("child", event.address, event.at_ms, detail)
            case Kind.CHILD_ENDED:
                self._children.pop(event.address, None)
            case _:
                pass

    def _call(self, reply: dict[str, Any] | None) -> None:
        self._calls += 1
        if reply is None:  # it failed: nobody says that it cost anything
            return
        self._input_tokens += reply["usage"]["input_tokens"]
        self._output_tokens += reply["usage"]["output_tokens"]
        cost = reply.get("cost_usd")
        if cost is None:
            self._unpriced = True
        else:
            self._cost += cost

    def _signal(self, name: str) -> None:
        if waits := self._waits.get(name):
            waits.popleft()
        else:
            self._unclaimed[name] += 1

    def _wait(self, name: str, place: _Place) -> None:
        if self._unclaimed[name]:
            self._unclaimed[name] -= 1
        else:
            self._waits.setdefault(name, deque()).append(place)

    @property
    def usage(self) -> UsageView:
        """What the recorded model calls come to."""
        cost = None if self._unpriced else self._cost
        return UsageView(self._input_tokens, self._output_tokens, self._calls, cost)

    def waits(self) -> Iterator[WaitView]:
        """Yield the waits for signals of which too few came, and for children that have not ended."""
        signals = [(since_ms, address, name) for name, all_ in self._waits.items() for address, since_ms in all_]
        for since_ms, address, name in sorted(signals):
            yield WaitView("signal", address, since_ms, f"signal {name}")
        yield from self._children.values()


class Gists:
    """The gists of executions that somebody looked at. Readers of any thread may share it."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, Gist] = OrderedDict()
        """Whoever reads on takes a gist out of it, and puts it back: nobody sees one that is being changed."""

    def take(self, name: str, last_seq: int, read: Callable[[int], Iterable[Event]]) -> Gist:
        """Return the gist of the log of that name up to `last_seq`; `read` yields what is above a number, up to it."""
        gist = self._known.pop(name, None)
        if gist is None or gist.seq > last_seq:  # of a later view than this one
            gist = Gist()
        for event in read(gist.seq):
            gist.take(event)
        return gist

    def keep(self, name: str, gist: Gist) -> None:
        """Remember one that was taken; that which was asked for longest ago is forgotten."""
        self._known[name] = gist
        while len(self._known) > REMEMBERED:
            self._known.popitem(last=False)
