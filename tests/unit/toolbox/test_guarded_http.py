"""Where a server may connect to: every spelling of an address that is not public, names that change, hosts in TLS."""

from __future__ import annotations

import gzip

import httpx2
import pytest

from answering_server import Says, Seen, answering
from perdure.toolbox.guarded_http import (
    AddressRefused,
    GuardedTransport,
    Outbound,
    SecretRefused,
    is_public,
    resolve,
    secret_names,
)

pytestmark = pytest.mark.anyio

NOT_PUBLIC = """
0.0.0.0 0.1.2.3 10.0.0.1 10.255.255.255 100.64.0.1 100.100.100.200 127.0.0.1 127.0.0.53 127.255.255.254 169.254.0.1
169.254.169.254 169.254.170.2 168.63.129.16 172.16.0.1 172.31.255.255 192.0.0.1 192.0.0.192 192.0.2.1 192.88.99.1
192.168.0.1 192.168.255.255 198.18.0.1 198.19.255.255 198.51.100.1 203.0.113.1 224.0.0.1 239.255.255.255 240.0.0.1
255.255.255.255 :: ::1 ::ffff:127.0.0.1 ::ffff:10.0.0.1 ::ffff:169.254.169.254 ::ffff:7f00:1 64:ff9b::7f00:1
64:ff9b::a9fe:a9fe 64:ff9b:1::1 100::1 2001::1 2001:db8::1 2002:7f00:1:: 2002:c0a8:1::1 fc00::1 fd00:ec2::254 fd12::1
fe80::1 fe80::1%1 fec0::1 ff02::1 ff0e::1
""".split()
PUBLIC = (
    "1.1.1.1 8.8.8.8 93.184.216.34 172.15.0.1 172.32.0.1 2606:4700:4700::1111 2a00:1450:4001::1 ::ffff:8.8.8.8".split()
)
SPELLINGS = "127.1 0x7f000001 2130706433 0177.0.0.1 127.0.0.1. localhost ①②⑦.0.0.1 [::1] [::ffff:127.0.0.1]".split()


@pytest.mark.parametrize("address", NOT_PUBLIC)
def test_no_address_that_is_not_public_passes(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_pass(address: str) -> None:
    assert is_public(address)


async def get(url: str, **options: object) -> httpx2.Response:
    transport = GuardedTransport(Outbound(), **options)  # type: ignore[arg-type]
    async with httpx2.AsyncClient(transport=transport, trust_env=False) as client:
        return await client.get(url)


@pytest.mark.parametrize("host", SPELLINGS)
async def test_no_spelling_of_loopback_gets_through(host: str) -> None:
    async with answering() as server:
        with pytest.raises((AddressRefused, httpx2.ConnectError, httpx2.InvalidURL)):
            await get(f"http://{host}:{server.port}/")
        assert server.seen == []


async def test_one_bad_address_among_good_ones_is_enough() -> None:
    async def both(_host: str, _port: int) -> list[str]:
        return ["93.184.216.34", "10.0.0.1"]

    with pytest.raises(AddressRefused, match=r"10\.0\.0\.1, which is no public address"):
        await get("http://example.com/", resolve=both)


async def test_a_name_is_asked_for_once_and_the_connection_goes_where_it_was_checked() -> None:
    asked: list[str] = []

    async def flips(host: str, port: int) -> list[str]:
        asked.append(host)
        return await resolve("127.0.0.1", port) if len(asked) == 1 else ["93.184.216.34"]

    async with answering() as server:
        transport = GuardedTransport(Outbound(allow_private=True), flips)
        async with httpx2.AsyncClient(transport=transport, trust_env=False) as client:
            assert (await client.get(f"http://shop.example:{server.port}/x")).status_code == 200
        assert asked == ["shop.example"]
        assert server.seen[0].headers["host"] == f"shop.example:{server.port}"


async def test_other_schemes_are_refused() -> None:
    with pytest.raises(AddressRefused, match="only http and https"):
        await GuardedTransport(Outbound()).handle_async_request(httpx2.Request("GET", "ftp://example.com/"))


def test_only_allowed_variables_are_looked_up() -> None:
    outbound = Outbound(variables={"SHOP_KEY": "s3cret"})
    headers = {"Authorization": "Bearer ${env:SHOP_KEY}", "X": "plain $HOME ${SHOP_KEY}"}
    assert outbound.resolved(headers) == {"Authorization": "Bearer s3cret", "X": "plain $HOME ${SHOP_KEY}"}
    assert outbound.hidden(headers).text("s3cret and s3cret") == "*** and ***"
    with pytest.raises(SecretRefused, match="--tool-env PATH"):
        outbound.resolved({"X": "${env:PATH}"})
    with pytest.raises(SecretRefused, match="no header can carry"):
        Outbound(variables={"BAD": "a\r\nX: y"}).resolved({"X": "${env:BAD}"})
    with pytest.raises(SecretRefused, match="no header can carry"):
        Outbound(variables={"BAD": "a "}).resolved({"X": "${env:BAD}"})
    assert "s3cret" not in repr(outbound)


def test_secrets_of_the_company_are_no_variables_and_the_other_way_round() -> None:
    outbound = Outbound(variables={"A": "of-the-server"}, secrets={"B": "of-the-company"})
    assert outbound.resolved({"X": "${env:A} ${secret:B}"}) == {"X": "of-the-server of-the-company"}
    for reference, said in (("${secret:A}", "perdure secrets set NAME"), ("${env:B}", "--tool-env B")):
        with pytest.raises(SecretRefused, match=said):
            outbound.resolved({"X": reference})
    assert secret_names({"X": "${env:A} ${secret:B}", "Y": "${secret:C}"}) == ["B", "C"]
    assert "of-the" not in repr(outbound)


async def test_an_answer_with_a_bound_is_taken_as_it_is() -> None:
    """Packed twice, ten kilobytes hold ten gigabytes: whoever unpacks them has no memory left."""
    packed = gzip.compress(gzip.compress(bytes(10_000_000)))
    says = Says(body=packed, headers={"Content-Encoding": "gzip, gzip"})
    asked: list[str] = []

    def answer(seen: Seen) -> Says:
        asked.append(seen.headers.get("accept-encoding", ""))
        return says

    async with answering(answer) as server:
        transport = GuardedTransport(Outbound(allow_private=True), max_bytes=len(packed))
        async with httpx2.AsyncClient(transport=transport, trust_env=False) as client:
            assert (await client.get(server.url)).content == packed
    assert asked == ["identity"]
