"""Signed requests, as a server and an independent verifier see them."""

from __future__ import annotations

import asyncio
import sys
from datetime import timedelta
from pathlib import Path

import pytest
from http_message_signatures import InvalidSignature
from msgspec.structs import replace

from crawler.base.settings.load import SettingsError
from crawler.base.settings.parts import IdentitySettings, Settings
from crawler.base.settings.sites import Sites
from crawler.web.fetch import Fetcher, Response, check_access
from crawler.web.identity.keys import DAY, KeySet, key_at, key_from, new_key, write_key_file
from crawler.web.identity.signer import Signer
from tests.web.fetch.certificates import Authority
from tests.web.fetch.proxies import proxy
from tests.web.fetch.sites import LOCAL, page, site
from tests.web.identity.keys import AGENT, key_file, received, request, verifier

COVERED = ('"@authority"', '"signature-agent";key="sig1"')
FORBIDDEN = "403 Forbidden"
ASKS = 'Accept-Signature: sig1=("@authority" "signature-agent");created;expires;keyid;tag="web-bot-auth"'


def fetcher(identity: IdentitySettings, **fetch: object) -> Fetcher:
    settings = Settings(fetch=replace(LOCAL, **fetch), identity=identity)
    return Fetcher(Sites(settings), concurrency=4, per_host=1, environ={})


def always(identity: IdentitySettings) -> IdentitySettings:
    return replace(identity, sign="always")


def is_signed(head: bytes) -> bool:
    return b"\r\nSignature: " in head


async def test_each_request_verifies(tmp_path: Path) -> None:
    async with (
        site(page(b"hello"), keep_alive=True) as served,
        fetcher(always(key_file(tmp_path))) as network,
    ):
        for first in range(0, 200, 4):
            await asyncio.gather(*(network.fetch(f"{served.url}page/{first + n}?a=b") for n in range(4)))
    check, nonces = verifier(), set()
    for head in served.requests:
        (result,) = check.verify(
            received(head), expect_tag="web-bot-auth", require_components=COVERED, max_age=timedelta(minutes=5)
        )
        parameters = result.parameters
        assert list(parameters) == ["created", "expires", "keyid", "alg", "nonce", "tag"]
        assert int(parameters["expires"]) - int(parameters["created"]) == 60
        assert result.covered_components[COVERED[1]] == f'"{AGENT}"'
        nonces.add(result.nonce)
    assert len(served.requests) == len(nonces) == 200


async def test_a_host_is_asked_unsigned_until_it_asks_for_signatures(tmp_path: Path) -> None:
    refusal = page(b"", ASKS, status=FORBIDDEN)
    async with (
        site(page(b""), refusal, page(b"hello")) as served,
        site(page(b"")) as other,
        fetcher(key_file(tmp_path)) as network,
    ):
        answers = [await network.fetch(served.url) for _ in range(4)]
        await network.fetch(other.url)
    assert [is_signed(head) for head in served.requests] == [False, False, True, True]
    assert [isinstance(answer, Response) and answer.unsigned for answer in answers] == [False, True, False, False]
    assert not is_signed(other.requests[0]), "it has not asked"


async def test_a_signed_request_that_is_refused_is_refused(tmp_path: Path) -> None:
    async with site(page(b"", ASKS, status=FORBIDDEN)) as served, fetcher(key_file(tmp_path)) as network:
        answers = [await network.fetch(served.url) for _ in range(2)]
    assert [isinstance(answer, Response) and answer.unsigned for answer in answers] == [True, False]


@pytest.mark.parametrize(
    ("answer", "asks"),
    [
        (page(b"", ASKS), True),
        (page(b"", 'Accept-Signature: sig1=("@authority")'), True),
        (page(b"<p>Only agents with Web Bot Auth", status=FORBIDDEN), True),
        (page(b"", "Vary: Accept", "Vary: Signature-Agent", status="401 Unauthorized"), True),
        (page(b"", 'WWW-Authenticate: Web-Bot-Auth realm="x"', status="429 Too Many Requests"), True),
        (page(b"<p>Write to us with your signature", status=FORBIDDEN), False),
        (page(b"<p>A page about Web Bot Auth"), False),
    ],
)
async def test_what_counts_as_asking(answer: bytes, asks: bool, tmp_path: Path) -> None:
    async with site(answer) as served, fetcher(key_file(tmp_path)) as network:
        for _ in range(2):
            await network.fetch(served.url)
    assert [is_signed(head) for head in served.requests] == [False, asks]


async def test_nothing_is_signed_if_the_settings_say_never(tmp_path: Path) -> None:
    identity = replace(key_file(tmp_path), sign="never")
    async with site(page(b"", ASKS, status=FORBIDDEN)) as served, fetcher(identity) as network:
        for _ in range(2):
            await network.fetch(served.url)
    assert not any(map(is_signed, served.requests))


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_through_a_proxy_the_host_is_signed_for(scheme: str, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    tls = authority.server("DNS:shop.example") if scheme == "https" else None
    async with site(page(b"hello"), tls=tls) as served, proxy(to=served.url) as relay:
        network = fetcher(always(key_file(tmp_path)), proxy=relay.address, ca_file=str(authority.file))
        async with network:
            await network.fetch(f"{scheme}://SHOP.example/a")
    head = served.requests[0]
    (result,) = verifier().verify(received(head, scheme), expect_tag="web-bot-auth", require_components=COVERED)
    assert result.covered_components['"@authority"'] == "shop.example"
    assert is_signed(relay.heads[0]) == (scheme == "http"), "what opens a tunnel is for the proxy"


async def test_other_keys_of_settings_that_were_read_again(tmp_path: Path) -> None:
    identity, second = key_file(tmp_path), key_from(b"2" * 32, begins=1)
    async with site(page(b"", ASKS)) as served, fetcher(identity) as network:
        await network.fetch(served.url)
        write_key_file(tmp_path / "identity.jwk", KeySet([key_from(b"1" * 32), second], AGENT))
        network.change(Sites(Settings(fetch=LOCAL, identity=identity)))
        assert network.signs(served.url.split("/")[2], known=True), "the job knows that it asks"
        await network.fetch(served.url)
    assert verifier(second).verify(received(served.requests[1]), expect_tag="web-bot-auth")


def test_two_keys_while_they_are_replaced() -> None:
    first = new_key(0, [])
    second = new_key(300 * DAY, [first])
    now = 0.0
    signer = Signer([first, second], AGENT, always=True, clock=lambda: now)

    def signed_by() -> str | None:
        headers = signer.headers("h.test")
        return next((key.kid for key in (first, second) if f'keyid="{key.kid}"' in str(headers)), None)

    assert signed_by() == first.kid
    now = 300 * DAY + 60.0
    assert signed_by() == first.kid, "the directory with the second may not have come to all"
    now = 301 * DAY
    assert signed_by() == second.kid
    now = 366.0 * DAY
    assert signed_by() == second.kid, "the first has expired"
    assert key_at([first], now) is None
    now = 700.0 * DAY
    assert (signer.headers("h.test"), signer.key_for("h.test")) == ({}, None)


def test_a_signature_is_for_one_authority() -> None:
    headers = Signer([key_from(b"1" * 32)], AGENT, always=True).headers("a.test")
    check = verifier()
    assert check.verify(request("https://a.test/x", headers), expect_tag="web-bot-auth")
    with pytest.raises(InvalidSignature):
        check.verify(request("https://b.test/x", headers), expect_tag="web-bot-auth")


def test_without_the_library_one_line_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    identity = key_file(tmp_path)
    monkeypatch.setitem(sys.modules, "nacl.signing", None)
    with pytest.raises(SettingsError, match="pip install pynacl"):
        check_access(Settings(identity=identity))
