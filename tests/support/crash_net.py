"""A network of a process's own, with a host for the database, and from each server a way to it that can be cut.

    here (servers, workers, world) --way1--  router  --door--  host (the database)
                                   --way2--
                                   --way3--

A way is cut at the router, which forwards nothing any more and says nothing: no reset, no refusal. Namespaces are held
by processes and end with them; nothing of it is seen outside. Needs Linux, root and `ip`.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Literal

Way = Literal["both", "to", "from"]
"""What is lost: everything, what goes to the database or the server, or what comes from it."""
WAYS: tuple[Way, ...] = ("both", "to", "from")
NETWORK = "10.77.0.0/16"
_NEW_NETWORK = 0x40000000
_TO, _FROM = 100, 200
"""Where the router's rules for cut ways begin: behind those of its own addresses."""
_BEFORE_OURS, _OURS = (10, 11), 1_000
"""Here, where servers are met at addresses of this host: its own come after the rules that cut them."""
START_SECONDS = 20.0
Holder = subprocess.Popen[bytes]
"""A process that has a network."""


def why_not() -> str:
    """Say why no such network can be made here; empty if one can."""
    if missing := [name for name in ("ip", "unshare", "nsenter", "setpriv") if shutil.which(name) is None]:
        return f"{', '.join(missing)} is not installed"
    tried = subprocess.run(
        ["unshare", "--net", "ip", "link", "add", "name", "one", "type", "veth", "peer", "name", "other"],
        capture_output=True,
        text=True,
        check=False,
    )
    return f"no network of one's own may be made here: {tried.stderr.strip()}" if tried.returncode else ""


class Net:
    """The network. This process enters it for good. Owner: its one thread."""

    def __init__(self, ways: int) -> None:
        _call("unshare", _NEW_NETWORK)
        _ip("link set lo up")
        _ip(f"rule add pref {_OURS} lookup local")
        _ip("rule del pref 0")
        self._router, self._host = _held(), _held()
        self._link(self._router, "door", "10.77.0.254/24", self._host, "home", "10.77.0.1/24")
        _ip("route add default via 10.77.0.254", self._host)
        for number in range(1, ways + 1):
            near, far = f"10.77.{number}.1/24", f"10.77.{number}.254/24"
            self._link(None, f"way{number}", near, self._router, f"in{number}", far)
            if number > 1:
                _ip(f"addr add {self.address(number)}/24 dev home", self._host)
            _ip(f"route add {self.address(number)} via 10.77.{number}.254")
        command = ["nsenter", f"--net=/proc/{self._router.pid}/ns/net", "sysctl", "-qw", "net.ipv4.ip_forward=1"]
        subprocess.run(command, check=True)

    def address(self, number: int) -> str:
        """Return under which address the database is reached by that way."""
        return f"10.77.0.{number}"

    def cut(self, number: int, way: Way) -> None:
        """Lose what goes that way from here on."""
        if way != "from":
            _ip(f"rule add pref {_TO + number} iif in{number} blackhole", self._router)
        if way != "to":
            _ip(f"rule add pref {_FROM + number} to 10.77.{number}.0/24 blackhole", self._router)

    def heal(self, number: int) -> None:
        """Let everything pass again."""
        for rule in (_TO + number, _FROM + number):
            _ip(f"rule del pref {rule}", self._router, check=False)

    def hide(self, port: int, way: Way) -> None:
        """Lose what goes to a port of this host, or comes from it. Whoever connects anew is refused by the kernel."""
        if way != "from":
            _ip(f"rule add pref {_BEFORE_OURS[0]} ipproto tcp dport {port} blackhole")
        if way != "to":
            _ip(f"rule add pref {_BEFORE_OURS[1]} ipproto tcp sport {port} blackhole")

    def show(self, port: int) -> None:
        """Let everything pass again."""
        for pref, what in zip(_BEFORE_OURS, ("dport", "sport"), strict=True):
            _ip(f"rule del pref {pref} ipproto tcp {what} {port}", check=False)

    @contextmanager
    def at_the_host(self) -> Generator[None]:
        """What is started in this block runs on the database's host."""
        home = os.open("/proc/self/ns/net", os.O_RDONLY)
        there = os.open(f"/proc/{self._host.pid}/ns/net", os.O_RDONLY)
        try:
            _call("setns", there, _NEW_NETWORK)
            yield
        finally:
            _call("setns", home, _NEW_NETWORK)
            os.close(home)
            os.close(there)

    def close(self) -> None:
        """End what holds it."""
        for holder in (self._router, self._host):
            holder.kill()
            holder.wait()

    def _link(
        self,
        one: Holder | None,
        near: str,
        at: str,
        other: Holder,
        far: str,
        there: str,
    ) -> None:
        _ip(f"link add name {near} type veth peer name {far} netns {other.pid}", one)
        for where, name, address in ((one, near, at), (other, far, there)):
            _ip(f"addr add {address} dev {name}", where)
            _ip(f"link set {name} up", where)


def _held() -> Holder:
    """Return a process that does nothing, in a network of its own, and ends with this one."""
    holder = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", "unshare", "--net", "sleep", "infinity"])
    until = time.monotonic() + START_SECONDS
    ours = os.readlink("/proc/self/ns/net")
    while os.readlink(f"/proc/{holder.pid}/ns/net") == ours:
        if holder.poll() is not None or time.monotonic() > until:
            raise RuntimeError("no network of one's own came about")
        time.sleep(0.005)
    _ip("link set lo up", holder)
    return holder


def _ip(what: str, where: Holder | None = None, *, check: bool = True) -> None:
    enter = ["nsenter", f"--net=/proc/{where.pid}/ns/net"] if where else []
    done = subprocess.run([*enter, "ip", *what.split()], capture_output=True, text=True, check=False)
    if check and done.returncode:
        raise RuntimeError(f"ip {what}: {done.stderr.strip()}")


def _call(name: str, *given: Any) -> None:
    if getattr(ctypes.CDLL(None, use_errno=True), name)(*given):
        raise OSError(ctypes.get_errno(), f"{name}: {os.strerror(ctypes.get_errno())}")
