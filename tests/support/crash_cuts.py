"""Which servers are cut off now, from what, and until when. Owner: whoever drives a run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from crash_net import Net, Way


@dataclass(frozen=True, slots=True)
class Cut:
    """One of them."""

    server: str
    until: float
    """By the monotonic clock."""
    heal: Callable[[], None]


class Cuts:
    """Cuts ways in a network, one a server at a time, and heals them."""

    def __init__(self, net: Net | None) -> None:
        self._net = net
        self._cuts: dict[str, Cut] = {}

    @property
    def servers(self) -> frozenset[str]:
        """Those that are cut off from something."""
        return frozenset(self._cuts)

    def from_database(self, server: str, number: int, way: Way, until: float) -> None:
        """Lose what the server of that number and the database say to each other."""
        net = self._begin(server)
        net.cut(number, way)
        self._cuts[server] = Cut(server, until, partial(net.heal, number))

    def from_everybody(self, server: str, port: int, way: Way, until: float) -> None:
        """Lose what workers and clients and the server on that port say to each other."""
        net = self._begin(server)
        net.hide(port, way)
        self._cuts[server] = Cut(server, until, partial(net.show, port))

    def heal(self, *servers: str) -> None:
        """Let everything pass again."""
        for server in servers:
            if (cut := self._cuts.pop(server, None)) is not None:
                cut.heal()

    def heal_due(self, now: float) -> None:
        """Heal what has lasted its time."""
        self.heal(*[cut.server for cut in self._cuts.values() if cut.until <= now])

    def _begin(self, server: str) -> Net:
        assert self._net is not None, "this case needs a network of its own"
        self.heal(server)
        return self._net
