"""Addresses that must not be dialled: whatever name, proxy or redirect leads there, no connection is tried."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from aiohttp.abc import AbstractResolver, ResolveResult
from msgspec.structs import replace

from crawler.base.settings.parts import FetchSettings
from crawler.url.refusal.forbidden_targets import Rule
from crawler.web.fetch import Failure, Fetcher, Response
from tests.web.fetch.sites import page, site
from tests.web.fetch.test_failures import Names

NOTHING = FetchSettings(connect_timeout=2.0, headers_timeout=2.0)
PRIVATE = replace(NOTHING, allow_private=True)


class Turns(AbstractResolver):
    """A name service whose answer is another one each time; the last stays."""

    def __init__(self, *answers: str) -> None:
        self._answers = list(answers)
        self.asked: list[str] = []

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        self.asked.append(host)
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        kind = socket.AF_INET6 if ":" in answer else socket.AF_INET
        return [ResolveResult(hostname=host, host=answer, port=port, family=kind, proto=0, flags=0)]

    async def close(self) -> None:
        pass


@pytest.fixture
def dialled(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """What was dialled. Nothing leaves the machine: any address but loopback fails at once."""
    tried: list[Any] = []
    connect = asyncio.selector_events.BaseSelectorEventLoop.sock_connect

    async def watched(loop: Any, sock: socket.socket, address: Any) -> None:
        tried.append(address[0])
        if not str(address[0]).startswith("127."):
            raise OSError(f"{address[0]} must not be dialled in a test")
        await connect(loop, sock, address)

    monkeypatch.setattr(asyncio.selector_events.BaseSelectorEventLoop, "sock_connect", watched)
    yield tried
    assert all(str(address).startswith("127.") for address in tried)


async def fetch(href: str, settings: FetchSettings, resolver: AbstractResolver | None = None) -> Response | Failure:
    async with Fetcher(settings, concurrency=1, per_host=1, resolver=resolver) as fetcher:
        return await fetcher.fetch(href)


@pytest.mark.parametrize(
    ("href", "settings", "rule"),
    [
        ("http://127.0.0.1/", NOTHING, Rule.PRIVATE_ADDRESS),
        ("http://localhost/", NOTHING, Rule.PRIVATE_ADDRESS),
        ("http://[::ffff:169.254.1.1]/", PRIVATE, Rule.LINK_LOCAL),
        ("http://169.254.169.254/latest/", PRIVATE, Rule.METADATA_ADDRESS),
        ("http://metadata.google.internal/", PRIVATE, Rule.METADATA_ADDRESS),
        ("http://name.test:25/", PRIVATE, Rule.BLOCKED_PORT),
    ],
)
async def test_what_the_url_says_is_refused_before_a_name_service_is_asked(
    dialled: list[Any], href: str, settings: FetchSettings, rule: Rule
) -> None:
    names = Turns("127.0.0.1")
    answer = await fetch(href, settings, names)
    assert isinstance(answer, Failure)
    assert answer.refusal is not None
    assert answer.refusal.rule is rule
    assert answer.kind.excluded
    assert not names.asked
    assert not dialled


@pytest.mark.parametrize(
    ("address", "settings", "rule"),
    [
        ("10.0.0.1", NOTHING, Rule.PRIVATE_ADDRESS),
        ("::1", NOTHING, Rule.PRIVATE_ADDRESS),
        ("64:ff9b::a00:1", NOTHING, Rule.PRIVATE_ADDRESS),
        ("169.254.1.1", PRIVATE, Rule.LINK_LOCAL),
        ("fe80::1", PRIVATE, Rule.LINK_LOCAL),
        ("169.254.169.254", PRIVATE, Rule.METADATA_ADDRESS),
        ("fd00:ec2::254", PRIVATE, Rule.METADATA_ADDRESS),
        ("10.0.0.1", replace(NOTHING, allow_networks=("192.168.0.0/16",)), Rule.PRIVATE_ADDRESS),
    ],
)
async def test_what_a_name_resolves_to_is_refused(
    dialled: list[Any], address: str, settings: FetchSettings, rule: Rule
) -> None:
    answer = await fetch("http://name.test/", settings, Turns(address))
    assert isinstance(answer, Failure)
    assert answer.refusal is not None
    assert answer.refusal.rule is rule
    assert not dialled


async def test_the_address_that_is_dialled_is_the_one_that_is_checked(dialled: list[Any]) -> None:
    """A name whose address is permitted when it is looked up first, and another one after that."""
    local = replace(NOTHING, allow_networks=("127.0.0.1",))
    async with site(page(b"x")) as served:
        port = served.url.rpartition(":")[2].rstrip("/")
        names = Turns("127.0.0.1", "10.0.0.1")
        async with Fetcher(local, concurrency=1, per_host=1, resolver=names) as fetcher:
            assert await fetcher.resolve(f"http://name.test:{port}/") == "127.0.0.1"
        async with Fetcher(local, concurrency=1, per_host=1, resolver=names) as fetcher:
            answer = await fetcher.fetch(f"http://name.test:{port}/")
    assert isinstance(answer, Failure)
    assert answer.refusal is not None
    assert answer.refusal.subject == "10.0.0.1"
    assert served.connections == 0
    assert not dialled


async def test_a_network_that_is_permitted_is_dialled(dialled: list[Any]) -> None:
    local = replace(NOTHING, allow_networks=("127.0.0.0/8",))
    async with site(page(b"x")) as served:
        answer = await fetch(served.url, local)
    assert isinstance(answer, Response)
    assert dialled == ["127.0.0.1"]


async def test_all_addresses_of_a_name_are_checked(dialled: list[Any]) -> None:
    names = Names(both=["::1", "127.0.0.1", "10.0.0.1"], one=["10.0.0.1", "127.0.0.1"])
    async with site(page(b"x")) as served:
        port = served.url.rpartition(":")[2]
        refused = await fetch(f"http://both:{port}", NOTHING, names)
        assert isinstance(refused, Failure)
        assert refused.refusal is not None
        assert served.connections == 0
        found = await fetch(f"http://one:{port}", replace(NOTHING, allow_networks=("127.0.0.1",)), names)
    assert isinstance(found, Response), "the refused ones are skipped"


async def test_credentials_in_a_url_are_not_sent() -> None:
    async with site(page(b"x")) as served:
        answer = await fetch(served.url.replace("//", "//user:secret@"), PRIVATE)
        assert isinstance(answer, Response)
        assert b"authorization" not in served.requests[0].lower()
