"""Twenty ways to be a hostile host. Each is the pages of one host; what is sent is made when it is asked for."""

from __future__ import annotations

import asyncio
import itertools
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))

from tests.hostile.server import Answer, Pages, Talk, endless, head, page, redirect, silence
from tests.hostile.test_bodies import GIGABYTE, PIECE, bomb
from tests.site import linked

_LINKS = 20  # traps on a host


def _many(answer: Answer, robots: Answer | None = None, name: str = "") -> Pages:
    """A start page that leads to the same trap again and again, and to a page that is none."""
    traps = dict.fromkeys([f"/{name}{number}" for number in range(_LINKS)], answer)
    others = {"/": page(linked([*traps, "/ok"])), "/robots.txt": robots}

    def pages(path: str) -> Answer | None:
        return {**traps, **others}.get(path, page("still here"))

    return pages


def _html(body: Callable[[], bytes], kind: str = "text/html; charset=utf-8") -> Answer:
    async def answer(talk: Talk) -> None:
        await talk.send(page(body(), kind=kind))

    return answer


async def _drip(talk: Talk) -> None:
    await talk.send(head())
    await talk.drip(b"x" * 10_000, every=1.0)


async def _reset(talk: Talk) -> None:
    await talk.send(head("Content-Length: 1000"))
    talk.writer.transport.abort()


async def _headers(talk: Talk) -> None:
    await talk.send(b"HTTP/1.1 200 OK\r\n")
    for number in itertools.count():
        await talk.send(b"X-%d: %b\r\n" % (number, b"x" * 4000))


async def _slow_start(talk: Talk) -> None:
    await asyncio.sleep(1.5)
    await talk.send(page(linked(["/"])))


def _chain(path: str) -> Answer | None:
    number = re.search(r"\d+", path)
    step = 0 if number is None else int(number[0])
    return redirect(f"/turn?n={step + 1}") if step % 2 else redirect(f"/chain/{step + 1}")


def _calendar(path: str) -> Answer | None:
    number = re.search(r"\d+", path)
    day = 0 if number is None else int(number[0])
    return page(
        linked([f"/calendar/{day + 1}", f"/calendar/{day * 7 + 3}", f"/calendar/{day}?sid={day}", "more/more/"])
    )


def _robots(text: bytes) -> Answer:
    return page(text, kind="text/plain")


def _rules() -> bytes:
    """As much as is read of a robots.txt, each rule with another beginning."""
    lines = itertools.chain([b"User-agent: *\n"], (b"Disallow: /%06x*b*c$\n" % number for number in itertools.count()))
    sizes = itertools.accumulate(lines, lambda text, line: text + line)
    return next(text for text in sizes if len(text) > 511_000)


def _sitemap(encoding: str) -> bytes:
    listed = b"".join(b"<url><loc>/%d</loc></url>" % number for number in range(50_000))
    return b"<?xml version='1.0' encoding='%b'?><urlset>%b</urlset>" % (encoding.encode(), listed)


def _with_sitemaps(body: bytes) -> Pages:
    named = "".join(f"Sitemap: /sitemap-{number}\n" for number in range(_LINKS))
    return _many(page(body, kind="application/xml"), _robots(named.encode()), "sitemap-")


def _formatting() -> bytes:
    """Each paragraph clones what is open before it."""
    opened = b"".join(b"<font color=%d>" % number for number in range(800))
    return opened + b"<p>x" * 12_000


def _attributes() -> bytes:
    return b"<a " + b" ".join(b"a%d" % number for number in range(100_000)) + b" href=/x>"


TRAPS: Mapping[str, Callable[[str], Pages]] = {
    "silence": lambda _: _many(silence),
    "robots.txt without an answer": lambda _: _many(page("x"), silence),
    "a byte a second": lambda _: _many(_drip),
    "1.5 s for a page": lambda _: _many(_slow_start),
    "reset in the body": lambda _: _many(_reset),
    "redirects without end": lambda _: lambda path: None if path == "/robots.txt" else _chain(path),
    "calendar": lambda _: lambda path: None if path == "/robots.txt" else _calendar(path),
    "100,000 links to hosts": lambda _: _many(
        _html(lambda: linked(f"http://h{n}.example/" for n in range(10**5)).encode())
    ),
    "100,000 own links": lambda _: _many(_html(lambda: linked(f"/{n}/x" for n in range(10**5)).encode())),
    "gzip bomb": lambda _: _many(page(bomb(), "Content-Encoding: gzip")),
    "a gigabyte": lambda _: _many(endless(head(), PIECE, GIGABYTE)),
    "headers without end": lambda _: _many(_headers),
    "noise": lambda _: _many(page(bytes(range(256)) * 4000, kind="text/html; charset=gb18030")),
    "robots.txt of 511 KB": lambda _: _many(page("x"), _robots(_rules())),
    "sitemaps in GBK": lambda _: _with_sitemaps(_sitemap("GBK")),
    "open formatting": lambda _: _many(_html(_formatting)),
    "nested elements": lambda _: _many(_html(lambda: b"<div>" * 10**6)),
    "100,000 attributes": lambda _: _many(_html(_attributes)),
    "a query of 8 MB": lambda _: _many(
        _html(lambda: b'<a href="/?%b">x</a>' % (b"\xe9" * 2**23), "text/html; charset=windows-1252")
    ),
    "ports and credentials": lambda url: _many(
        page(linked(f"{url.replace('//', f'//u{n}:p@').rpartition(':')[0]}:{n}/" for n in range(1, 2000)))
    ),
}
