"""Keys: asked for on every request, remembered for seconds, made once."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest

from perdure.core.hooks import Hook
from perdure.core.views import ServerInfo
from perdure.doors.a2a_seat import A2aTasks
from perdure.engine.keys import DEFAULT_COMPANY, PREFIX, Principal
from perdure.errors import PerdureError, Unauthorized
from perdure.server.auth import REMEMBER_SECONDS, KeyGate, OpenGate, admin_key
from perdure.server.changes import Changes
from perdure.system import SystemRandom
from perdure.wire.api import Api, FunctionSource, TaskSource
from perdure.wire.state_file import ServerState

pytestmark = pytest.mark.anyio

KEY = PREFIX + "k" * 43


@dataclass
class Keys:
    """A backend that knows keys and nothing else."""

    known: dict[str, Principal] = field(default_factory=dict[str, Principal])
    asked: int = 0
    accepting: bool = True
    failure: PerdureError | None = None

    def info(self) -> ServerInfo:
        return ServerInfo("1", "sto_1", "nonce", "sqlite", 0)

    async def authenticate(self, key: str) -> Principal | None:
        self.asked += 1
        return self.known.get(key)

    async def knows_token(self, secret: str) -> bool:
        return False

    async def hook(self, secret: str) -> Hook | None:
        return None

    async def say(self, hook: Hook, text: str, key: str) -> None:
        raise NotImplementedError

    async def add_key(self, company: str, name: str, key: str) -> None:
        self.known[key] = Principal(company, name)

    def changes(self, company: str) -> Changes:
        raise NotImplementedError

    @property
    def pushes(self) -> bool:
        return False

    def a2a(self, company: str) -> A2aTasks:
        raise NotImplementedError

    async def add_link(self, who: Principal, secret: str) -> int:
        raise NotImplementedError

    async def redeem(self, link: str, session: str) -> Principal | None:
        raise NotImplementedError

    async def end_session(self, session: str) -> None:
        raise NotImplementedError

    def ready(self) -> bool:
        return True

    def drain(self) -> None:
        return

    def api(self, company: str) -> Api:
        raise NotImplementedError

    def tasks(self, company: str) -> TaskSource:
        raise NotImplementedError

    def functions(self, company: str) -> FunctionSource:
        raise NotImplementedError


def bearer(key: str) -> dict[bytes, bytes]:
    return {b"authorization": f"Bearer {key}".encode("latin-1")}


@pytest.mark.parametrize(
    "head",
    [
        {},
        {b"authorization": b""},
        {b"authorization": b"Bearer"},
        {b"authorization": b"Bearer "},
        {b"authorization": b"Bearer null"},
        {b"authorization": b"Bearer undefined"},
        {b"authorization": KEY.encode()},
        {b"authorization": b"Basic " + KEY.encode()},
        {b"authorization": b"Bearer " + KEY.encode() + b"x"},
        {b"authorization": b"Bearer " + KEY.upper().encode()},
        {b"authorization": b"Bearer " + b"\xff" * 40},
        {b"authorization": b"Bearer " + b"%" * 5000},
    ],
)
async def test_without_a_good_key_nobody_is_let_in(head: dict[bytes, bytes]) -> None:
    gate = KeyGate(Keys({KEY: Principal("acme", "ada"), "": Principal("acme", "nobody")}))
    with pytest.raises(Unauthorized):
        await gate.admit(head)


async def test_the_company_comes_from_the_key() -> None:
    other = KEY + "2"
    gate = KeyGate(Keys({KEY: Principal("acme", "ada"), other: Principal("umbrella", "bob")}))
    assert await gate.admit(bearer(KEY)) == Principal("acme", "ada")
    assert await gate.admit(bearer(other)) == Principal("umbrella", "bob")


async def test_a_key_is_asked_about_once_and_again_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()
    now = loop.time()
    monkeypatch.setattr(loop, "time", lambda: now, raising=False)
    keys = Keys({KEY: Principal("acme", "ada")})
    gate = KeyGate(keys)
    for _ in range(3):
        await gate.admit(bearer(KEY))
    assert keys.asked == 1
    keys.known.clear()  # revoked
    now += REMEMBER_SECONDS + 0.1
    with pytest.raises(Unauthorized):
        await gate.admit(bearer(KEY))


async def test_a_wrong_key_is_never_remembered() -> None:
    keys = Keys()
    gate = KeyGate(keys)
    for _ in range(3):
        with pytest.raises(Unauthorized):
            await gate.admit(bearer(KEY))
    keys.known[KEY] = Principal("acme", "ada")
    assert (await gate.admit(bearer(KEY))).name == "ada"


async def test_the_memory_is_bounded() -> None:
    keys = Keys({KEY + str(number): Principal("acme", str(number)) for number in range(3000)})
    gate = KeyGate(keys)
    for key in keys.known:
        await gate.admit(bearer(key))
    assert len(gate._known) <= 1024


async def test_where_nobody_needs_a_key_everybody_is_the_default_company() -> None:
    assert (await OpenGate().admit({})).company == DEFAULT_COMPANY


async def test_the_first_start_makes_a_key_of_256_bits_that_works() -> None:
    keys = Keys()
    made = await admin_key(keys, SystemRandom(), None)
    assert made.is_new
    assert made.key.startswith(PREFIX)
    assert len(made.key.removeprefix(PREFIX)) == 43
    assert keys.known == {made.key: Principal(DEFAULT_COMPANY, "admin")}
    assert (await admin_key(keys, SystemRandom(), None)).key != made.key


async def test_the_next_start_keeps_the_key_of_the_state_file() -> None:
    keys = Keys()
    first = await admin_key(keys, SystemRandom(), None)
    again = await admin_key(keys, SystemRandom(), ServerState("", first.key, 0, "old", "sto_1"))
    assert (again.key, again.is_new) == (first.key, False)


@pytest.mark.parametrize(
    ("key", "store"), [("", "sto_1"), (PREFIX + "unknown" * 8, "sto_1"), (KEY, "another store"), (KEY + "2", "sto_1")]
)
async def test_a_key_of_another_store_or_company_is_not_kept(key: str, store: str) -> None:
    keys = Keys({KEY: Principal(DEFAULT_COMPANY, "admin"), KEY + "2": Principal("acme", "ada")})
    found = await admin_key(keys, SystemRandom(), ServerState("", key, 0, "old", store))
    assert found.is_new
    assert found.key != key
