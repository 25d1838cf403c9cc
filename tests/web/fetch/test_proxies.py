"""Requests through proxies: which, how, and whose fault it is if nothing comes back."""

from __future__ import annotations

import logging
from base64 import b64encode
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from crawler.base.settings.load import SettingsError
from crawler.base.settings.parts import FetchSettings
from crawler.web.fetch import Failure, FailureKind, Fetcher, Response
from crawler.web.fetch.proxies import Proxies
from tests.asked import free_port
from tests.web.fetch.certificates import Authority
from tests.web.fetch.proxies import proxy
from tests.web.fetch.sites import HASTY, LOCAL, page, site

PUBLIC = replace(LOCAL, allow_private=False)  # the address of a proxy is the user's choice, and not refused


async def fetch(url: str, settings: FetchSettings, environ: Mapping[str, str] | None = None) -> Response | Failure:
    async with Fetcher(settings, concurrency=4, per_host=1, environ=environ or {}) as fetcher:
        return await fetcher.fetch(url)


async def get(url: str, settings: FetchSettings, environ: Mapping[str, str] | None = None) -> Response:
    answer = await fetch(url, settings, environ)
    assert isinstance(answer, Response), answer
    return answer


async def test_http_through_a_proxy() -> None:
    async with site(page(b"hello")) as served, proxy(to=served.url) as relay:
        answer = await get("http://shop.example/a?b", replace(PUBLIC, proxy=relay.address))
    assert answer.body == b"hello"
    assert relay.asked == ["http://shop.example/a?b"], "the name is resolved by the proxy"
    assert answer.address is None, "which is not the host's"
    assert b"Proxy-Authorization" not in relay.heads[0]


async def test_https_through_a_proxy(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    tls = authority.server("DNS:shop.example")
    async with site(page(b"hello"), tls=tls) as served, proxy(to=served.url) as relay:
        settings = replace(PUBLIC, proxy=relay.address, ca_file=str(authority.file))
        answer = await get("https://shop.example/", settings)
        wrong = await fetch("https://bank.example/", settings)
    assert answer.body == b"hello"
    assert relay.asked[0] == "shop.example:443"
    assert isinstance(wrong, Failure)
    assert wrong.kind is FailureKind.TLS, "certificates are checked by name behind a proxy too"


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_login_for_the_proxy(scheme: str, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    tls = authority.server("DNS:shop.example") if scheme == "https" else None
    secret = tmp_path / "login"
    secret.write_text("me:p@ss/:\n")
    async with site(page(b"hello"), tls=tls) as served, proxy(to=served.url) as relay:
        settings = replace(PUBLIC, proxy=relay.address, proxy_login=f"file:{secret}", ca_file=str(authority.file))
        await get(f"{scheme}://shop.example/", settings)
    login = b64encode(b"me:p@ss/:")
    assert b"Proxy-Authorization: Basic " + login + b"\r\n" in relay.heads[0]
    assert all(login not in request for request in served.requests if scheme == "https"), "only the proxy gets it"


@pytest.mark.parametrize("scheme", ["socks5", "socks5h"])
async def test_socks(scheme: str, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    tls = authority.server("DNS:shop.example")
    async with (
        site(page(b"plain")) as plain,
        site(page(b"safe"), tls=tls) as safe,
        proxy("socks5", to=plain.url) as to_plain,
        proxy("socks5", to=safe.url, login="me:secret") as to_safe,
    ):
        address = to_plain.address.replace("socks5", scheme)
        assert (await get("http://shop.example/", replace(PUBLIC, proxy=address))).body == b"plain"
        settings = replace(PUBLIC, proxy=to_safe.address, proxy_login="env:LOGIN", ca_file=str(authority.file))
        assert (await get("https://shop.example/", settings, {"LOGIN": "me:secret"})).body == b"safe"
        wrong = await fetch("https://shop.example/", settings, {"LOGIN": "me:wrong"})
    assert to_plain.asked == ["shop.example:80"]
    assert to_safe.asked == ["shop.example:443"]
    assert isinstance(wrong, Failure)
    assert wrong.kind is FailureKind.PROXY


@pytest.mark.parametrize(
    ("code", "kind"),
    [(1, FailureKind.UNREACHABLE), (4, FailureKind.UNREACHABLE), (5, FailureKind.REFUSED), (8, FailureKind.PROXY)],
)
async def test_what_a_socks_proxy_says_of_the_destination(code: int, kind: FailureKind) -> None:
    async with proxy("socks5", refuse=bytes([code])) as relay:
        failure = await fetch("http://shop.example/", replace(PUBLIC, proxy=relay.address))
    assert isinstance(failure, Failure)
    assert failure.kind is kind


DEAD = ["http://127.0.0.1:{port}", "socks5://127.0.0.1:{port}", "http://proxy.invalid:3128"]


@pytest.mark.parametrize("url", ["http://shop.example/", "https://shop.example/"])
@pytest.mark.parametrize("address", DEAD)
async def test_a_dead_proxy_is_its_own_fault(address: str, url: str, caplog: pytest.LogCaptureFixture) -> None:
    settings = replace(HASTY, proxy=address.format(port=free_port()))
    with caplog.at_level(logging.WARNING, "crawler"):
        async with Fetcher(settings, concurrency=4, per_host=1, environ={}) as fetcher:
            failures = [await fetcher.fetch(url) for _ in range(3)]
    for failure in failures:
        assert isinstance(failure, Failure)
        assert failure.kind is FailureKind.PROXY, failure
        assert failure.kind.transient
    assert len(caplog.messages) == 1, "one line, not one for each URL"


async def test_addresses_are_not_looked_up_behind_a_proxy() -> None:
    async with Fetcher(replace(LOCAL, proxy="http://127.0.0.1:1"), concurrency=1, per_host=1, environ={}) as fetcher:
        assert await fetcher.resolve("http://127.0.0.1:8000/") is None


def chosen(settings: dict[str, Any], environ: dict[str, str], url: str) -> str | None:
    scheme, _, host = url.partition("://")
    host, _, port = host.partition(":")
    found = Proxies(FetchSettings(**settings), environ).of(scheme, host, port or {"http": "80", "https": "443"}[scheme])
    return None if found is None else found.shown


CHOICES = [
    ({}, {}, "http://a.org", None),
    ({}, {"HTTP_PROXY": "http://p:1"}, "http://a.org", "http://p:1"),
    ({}, {"HTTP_PROXY": "http://p:1"}, "https://a.org", None),
    ({}, {"HTTPS_PROXY": "p:1"}, "https://a.org", "http://p:1"),
    ({}, {"https_proxy": "http://p:1", "HTTPS_PROXY": "http://q:1"}, "https://a.org", "http://p:1"),
    ({}, {"ALL_PROXY": "socks5://p"}, "https://a.org", "socks5://p:1080"),
    ({}, {"ALL_PROXY": "socks5://p", "HTTP_PROXY": "http://q"}, "http://a.org", "http://q:80"),
    ({}, {"HTTP_PROXY": ""}, "http://a.org", None),
    ({}, {"HTTP_PROXY": "http://p:1", "REQUEST_METHOD": "GET"}, "http://a.org", None),
    ({}, {"http_proxy": "http://p:1", "REQUEST_METHOD": "GET"}, "http://a.org", "http://p:1"),
    ({}, {"HTTP_PROXY": "http://me:secret@p:1"}, "http://a.org", "http://p:1"),
    ({}, {"HTTP_PROXY": "http://[::1]:3"}, "http://a.org", "http://[::1]:3"),
    ({}, {"HTTP_PROXY": "http://p:1"}, "http://localhost", None),
    ({}, {"HTTP_PROXY": "http://p:1"}, "http://127.0.0.1:8000", None),
    ({}, {"HTTP_PROXY": "http://p:1", "NO_PROXY": "b.org, a.org"}, "http://a.org", None),
    ({}, {"HTTP_PROXY": "http://p:1", "NO_PROXY": ".a.org"}, "http://www.a.org", None),
    ({}, {"HTTP_PROXY": "http://p:1", "NO_PROXY": "a.org"}, "http://ba.org", "http://p:1"),
    ({}, {"HTTP_PROXY": "http://p:1", "NO_PROXY": "a.org:81"}, "http://a.org", "http://p:1"),
    ({}, {"HTTP_PROXY": "http://p:1", "NO_PROXY": "a.org:81"}, "http://a.org:81", None),
    ({}, {"HTTP_PROXY": "http://p:1", "NO_PROXY": "10.0.0.0/8"}, "http://10.1.2.3", None),
    ({}, {"HTTP_PROXY": "http://p:1", "no_proxy": "*"}, "http://a.org", None),
    ({"no_proxy": ("a.org",)}, {"HTTP_PROXY": "http://p:1"}, "http://a.org", None),
    ({"proxy": "direct"}, {"HTTP_PROXY": "http://p:1"}, "http://a.org", None),
    ({"proxy": "http://q:2"}, {"HTTP_PROXY": "http://p:1", "NO_PROXY": "*"}, "https://a.org", "http://q:2"),
    ({"proxy": "http://q:2"}, {}, "http://localhost", "http://q:2"),
    ({"proxy": "http://q:2", "no_proxy": ("a.org",)}, {}, "http://www.a.org", None),
]


@pytest.mark.parametrize(("settings", "environ", "url", "expected"), CHOICES)
def test_which_proxy(settings: dict[str, Any], environ: dict[str, str], url: str, expected: str | None) -> None:
    assert chosen(settings, environ, url) == expected


@pytest.mark.parametrize("text", ["ftp://p:1", "http://", "http://p:99999", "socks6://p", "http://me:secret@:1"])
def test_what_is_no_proxy(text: str) -> None:
    with pytest.raises(SettingsError) as error:
        Proxies(FetchSettings(), {"HTTP_PROXY": text})
    assert "HTTP_PROXY" in str(error.value)
    assert "secret" not in str(error.value)


def test_the_user_is_told_without_the_login() -> None:
    assert Proxies(FetchSettings(proxy="http://p:1"), {}).spoken() == ["requests go through http://p:1"]
    (line,) = Proxies(FetchSettings(), {"HTTPS_PROXY": "http://me:secret@p:1"}).spoken()
    assert line.startswith("https requests go through http://p:1, as set in the environment")
