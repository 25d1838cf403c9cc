"""What only one origin gets: headers, a login, a proxy, trust, cookies."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from crawler.base.settings.load import SettingsError, settings_from
from crawler.base.settings.parts import FetchSettings, Settings, SitesSettings, SiteTable
from crawler.base.settings.sites import Sites
from crawler.web.fetch import Fetcher, Response
from crawler.web.fetch.cookies import Cookies
from tests.web.fetch.proxies import proxy
from tests.web.fetch.sites import LOCAL, page, site

NOW = 1_750_000_000.0


def with_sites(fetch: FetchSettings, *tables: SiteTable) -> Settings:
    return Settings(fetch=fetch, site=SitesSettings(tables))


async def get(url: str, settings: FetchSettings | Settings, environ: Mapping[str, str] | None = None) -> Response:
    known = Sites(settings) if isinstance(settings, Settings) else settings
    async with Fetcher(known, concurrency=4, per_host=1, environ=environ or {}) as fetcher:
        answer = await fetcher.fetch(url, headers={"If-None-Match": '"x"'})
    assert isinstance(answer, Response), answer
    return answer


async def test_headers_and_a_login_go_to_one_origin() -> None:
    async with site(page(b"")) as ours, site(page(b"")) as other:
        named = SiteTable(ours.url.rstrip("/"), headers=("X-Key: env:KEY", "Accept-Language: de"), login="env:LOGIN")
        settings = with_sites(LOCAL, named)
        environ = {"KEY": "k1", "LOGIN": "me:p@ss:word"}
        await get(ours.url + "a", settings, environ)
        await get(other.url, settings, environ)
        await get(ours.url.replace("127.0.0.1", "localhost"), settings, environ)
    assert b"\r\nX-Key: k1\r\n" in ours.requests[0]
    assert b"\r\nAccept-Language: de\r\n" in ours.requests[0]
    assert b"\r\nAuthorization: Basic " + b64encode(b"me:p@ss:word") + b"\r\n" in ours.requests[0]
    assert b"\r\nIf-None-Match: " in ours.requests[0]
    for request in (*other.requests, *ours.requests[1:]):
        assert b"X-Key" not in request
        assert b"Authorization" not in request
        assert b"Accept-Language" not in request


async def test_a_redirect_takes_nothing_along() -> None:
    async with site(page(b"")) as other:
        moved = f"HTTP/1.1 302 Found\r\nLocation: {other.url}\r\nContent-Length: 0\r\n\r\n".encode()
        async with site(moved) as ours:
            named = SiteTable(ours.url.rstrip("/"), login="env:LOGIN")
            settings = with_sites(replace(LOCAL, cookies=True), named)
            async with Fetcher(Sites(settings), concurrency=1, per_host=1, environ={"LOGIN": "a:b"}) as fetcher:
                answer = await fetcher.fetch(ours.url)
                assert isinstance(answer, Response)
                assert answer.location is not None
                await fetcher.fetch(answer.location)
    assert b"Authorization" in ours.requests[0]
    assert b"Authorization" not in other.requests[0]


async def test_a_proxy_for_one_origin() -> None:
    async with site(page(b"via")) as far, site(page(b"direct")) as near, proxy(to=far.url) as relay:
        origin = near.url.rstrip("/")
        both = with_sites(replace(LOCAL, proxy=relay.address), SiteTable(origin, proxy="direct"))
        assert (await get(near.url, both)).body == b"direct"
        assert (await get("http://shop.example/", both)).body == b"via"
        one = with_sites(LOCAL, SiteTable(origin, proxy=relay.address))
        assert (await get(near.url, one)).body == b"via"


SITE = {"match": "https://a.org"}
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"fetch": {"proxy": "http://me:secret@p:1"}}, "fetch.proxy"),
    ({"fetch": {"proxy": "me:secret@p:1"}}, "fetch.proxy"),
    ({"fetch": {"proxy_login": "env:a secret"}}, "fetch.proxy_login"),
    ({"fetch": {"site": [SITE]}}, "fetch.site"),
    ({"site": [SITE | {"login": "me:secret"}]}, "site.login"),
    ({"site": [SITE | {"headers": ["X: secret\r\nY: z"]}]}, "site.headers"),
    ({"site": [SITE | {"headers": ["Host: secret"]}]}, "site.headers"),
    ({"site": [SITE | {"proxy": "http://me:secret@p"}]}, "site.proxy"),
]


@pytest.mark.parametrize(("tables", "named"), REFUSED)
def test_settings_that_are_refused(tables: dict[str, Any], named: str) -> None:
    with pytest.raises(SettingsError) as error:
        settings_from(tables, "some.toml")
    assert named in str(error.value)
    assert "secret" not in str(error.value).removesuffix("so that no other file contains the secret")


async def test_cookies_go_back_to_their_host() -> None:
    setting = page(b"", "Set-Cookie: a=1; HttpOnly", "Set-Cookie: b=2; Path=/deep")
    async with site(setting, page(b"")) as served:
        elsewhere = served.url.replace("127.0.0.1", "localhost")
        async with Fetcher(replace(LOCAL, cookies=True), concurrency=1, per_host=1, environ={}) as fetcher:
            for url in (served.url, served.url, served.url + "deep/x", elsewhere):
                assert isinstance(await fetcher.fetch(url), Response)
    assert b"Cookie" not in served.requests[0]
    assert b"\r\nCookie: a=1\r\n" in served.requests[1]
    assert b"\r\nCookie: b=2; a=1\r\n" in served.requests[2]
    assert b"Cookie" not in served.requests[3]


@pytest.mark.parametrize(
    ("line", "later", "path", "secure", "sent"),
    [
        ("a=b", 0.0, "/x", False, "a=b"),
        ("a=b", 0.0, "/dir/y", False, "a=b"),
        (" a = b ; Path=/", 0.0, "/", False, "a=b"),
        ("=b; Path=/", 0.0, "/", False, "b"),
        ("b; Path=/", 0.0, "/", False, "b"),
        ("a=b=c; Path=/", 0.0, "/", False, "a=b=c"),
        ("; Path=/", 0.0, "/", False, None),
        ("a=b; Path=/dir", 0.0, "/directory", False, None),
        ("a=b; Path=/dir", 0.0, "/dir", False, "a=b"),
        ("a=b; Path=/; Max-Age=10", 9.0, "/", False, "a=b"),
        ("a=b; Path=/; Max-Age=10", 10.0, "/", False, None),
        ("a=b; Path=/; Max-Age=99999999999999999999999", 10.0, "/", False, "a=b"),
        ("a=b; Path=/; Max-Age=-1", 0.0, "/", False, None),
        ("a=b; Path=/; Expires=Thu, 01-Jan-1970 00:00:00 GMT", 0.0, "/", False, None),
        ("a=b; Path=/; Expires=Thu, 01 Jan 2099 00:00:00 GMT", 0.0, "/", False, "a=b"),
        ("a=b; Path=/; Expires=nonsense", 0.0, "/", False, "a=b"),
        ("a=b; Path=/; Secure", 0.0, "/", True, "a=b"),
        ("a=b; Path=/; Secure", 0.0, "/", False, None),
        ("a=\x01; Path=/", 0.0, "/", False, None),
        ("a=\xe9; Path=/", 0.0, "/", False, None),
        ("a=" + "b" * 5000, 0.0, "/", False, None),
    ],
)
def test_cookies(line: str, later: float, path: str, secure: bool, sent: str | None) -> None:
    cookies = Cookies()
    cookies.note("a.org", "/dir/x" if "dir" in path else "/x", [line], secure=True, now=NOW)
    assert cookies.header("a.org", path, secure=secure, now=NOW + later) == sent


@pytest.mark.parametrize(
    ("host", "domain", "taken"),
    [
        ("www.a.org", "www.a.org", True),
        ("www.a.org", "a.org", True),
        ("www.a.org", ".A.org", True),
        ("www.a.org", "", True),
        ("www.a.org", "b.org; Domain=a.org", True),
        ("www.a.org", "a.org; Domain=b.org", False),
        ("www.a.org", "b.org", False),
        ("www.a.org", "w.a.org", False),
        ("a.org", "www.a.org", False),
        ("www.a.org", ".org.", False),
        ("127.0.0.1", "127.0.0.1", True),
        ("127.0.0.1", "0.0.1", False),
        ("127.0.0.1", "localhost", False),
    ],
)
def test_a_cookie_of_another_domain_is_ignored(host: str, domain: str, taken: bool) -> None:
    cookies = Cookies()
    cookies.note(host, "/", [f"a=b; Domain={domain}"], secure=False, now=NOW)
    assert cookies.header(host, "/", secure=False, now=NOW) == ("a=b" if taken else None)


def test_cookies_are_bounded() -> None:
    cookies = Cookies(hosts=3)
    for number in range(100):
        cookies.note("a.org", "/", [f"c{number}=x"], secure=True, now=NOW)
    sent = cookies.header("a.org", "/", secure=True, now=NOW)
    assert sent is not None
    assert len(sent.split("; ")) == 50
    assert "c99=x" in sent
    for name in ("b.org", "c.org"):
        cookies.note(name, "/", ["a=b"], secure=True, now=NOW)
    assert cookies.header("a.org", "/", secure=True, now=NOW) == sent, "asked for last"
    cookies.note("d.org", "/", ["a=b"], secure=True, now=NOW)
    assert cookies.header("b.org", "/", secure=True, now=NOW) is None
    assert cookies.header("a.org", "/", secure=True, now=NOW) == sent


def test_a_cookie_over_http_cannot_be_secure() -> None:
    cookies = Cookies()
    cookies.note("a.org", "/", ["a=b; Secure"], secure=False, now=NOW)
    assert cookies.header("a.org", "/", secure=True, now=NOW) is None
