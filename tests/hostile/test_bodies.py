"""Bodies and headers that are more, or other, than they say."""

from __future__ import annotations

import gzip
import itertools
import zlib

from tests.examples import long_or
from tests.hostile.server import Talk, endless, head, page
from tests.hostile.web import EVIL, INNOCENT, Hostile
from tests.site import linked

GIGABYTE = 10**9
HOSTS = long_or(14, 30)  # their bodies in memory at once would be above what a crawl may take
PIECE = b"<p>" * 2**18


def bomb() -> bytes:
    """A gigabyte of zeros in a megabyte of gzip, as blocks that refer to nothing before them."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    begin = packer.flush(zlib.Z_FULL_FLUSH)
    return begin + GIGABYTE // 10**7 * (packer.compress(bytes(10**7)) + packer.flush(zlib.Z_FULL_FLUSH))


def test_bodies_of_a_gigabyte(hostile: Hostile) -> None:
    """Stated, sent without end, in large and in tiny chunks, and out of a megabyte of gzip, packed once and twice."""
    chunked = b"%x\r\n%b\r\n" % (len(PIECE), PIECE)
    hostile.pages[EVIL] = {
        "/": page(linked(["/stated", "/unstated", "/chunked", "/crumbs", "/bomb", "/bomb-of-bombs", "/ok"])),
        "/stated": endless(head(f"Content-Length: {GIGABYTE}"), PIECE, GIGABYTE),
        "/unstated": endless(head(), PIECE, GIGABYTE),
        "/chunked": endless(head("Transfer-Encoding: chunked"), chunked, GIGABYTE),
        "/crumbs": endless(head("Transfer-Encoding: chunked"), b"1\r\na\r\n" * 100_000, GIGABYTE),
        "/bomb": page(bomb(), "Content-Encoding: gzip"),
        "/bomb-of-bombs": page(gzip.compress(bomb()), "Content-Encoding: gzip"),
        "/ok": page("still here"),
    }
    rows = hostile.crawl(settings={"fetch.max_body": 4_000_000}).of()
    for path in ("/stated", "/unstated", "/chunked", "/bomb"):
        assert (rows[path]["outcome"], rows[path]["error"][:9]) == ("excluded", "too_large"), rows[path]
        assert hostile.server.count(path) == 1, "more tries would bring the same"
    assert (rows["/crumbs"]["outcome"], rows["/crumbs"]["error"][:9]) == ("failed", "malformed"), rows["/crumbs"]
    assert rows["/bomb-of-bombs"]["outcome"] == "fetched"
    assert rows["/ok"]["outcome"] == "fetched"


def test_types_that_are_not_what_they_say(hostile: Hostile) -> None:
    noise = bytes(range(256)) * 1000
    hidden = linked(["/hidden"])
    hostile.pages[EVIL] = {
        "/": page(linked(["/noise", "/picture", "/untyped", "/odd", "/types", "/empty"])),
        "/noise": page(noise, kind="text/html; charset=utf-16"),
        "/picture": page(hidden, kind="image/png"),
        "/untyped": b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + hidden.encode(),
        "/odd": page(hidden, kind="\xff/;;=,text"),
        "/types": page(hidden, "Content-Type: image/png", "Content-Type: text/html"),
        "/empty": page(b"", kind=""),
    }
    ran = hostile.crawl()
    assert {path for path, row in ran.of().items() if row["outcome"] != "fetched"} == set()


def test_headers_without_measure(hostile: Hostile) -> None:
    """One of a megabyte, a million of them, and one that never ends."""

    async def never_ending(talk: Talk) -> None:
        await talk.send(b"HTTP/1.1 200 OK\r\n")
        for number in itertools.count():
            await talk.send(b"X-%d: %b\r\n" % (number, b"x" * 4000))

    hostile.pages[EVIL] = {
        "/": page(linked(["/long", "/many", "/never", "/reason", "/ok"])),
        "/long": page("x", f"X-Long: {'x' * 2**20}"),
        "/many": page("x", *(f"X-{number}: x" for number in range(100_000))),
        "/never": never_ending,
        "/reason": b"HTTP/1.1 200 " + b"x" * 2**20 + b"\r\n\r\n",
        "/ok": page("still here"),
    }
    ran = hostile.crawl(settings={"retry.tries": 1})
    for path in ("/long", "/many", "/never", "/reason"):
        row = ran.row(path)
        assert (row["outcome"], row["error"][:8]) == ("failed", "malforme"), row
    assert ran.row("/ok")["outcome"] == "fetched"
    assert ran.outcomes(INNOCENT) == {"fetched": 30}


def test_large_bodies_of_many_hosts_at_once(hostile: Hostile) -> None:
    """What is bounded is all of them together, not each: 12 MiB out of 12 KB of gzip from each."""
    bomb = gzip.compress(b"<p>x" + b"x " * (6 * 2**20))
    hostile.pages[EVIL] = {"/": b""}
    begins = [
        hostile.host(f"big{number}.test", {"/": page(bomb, "Content-Encoding: gzip")}) + "/" for number in range(HOSTS)
    ]
    ran = hostile.crawl(seeds=begins, settings={"crawl.concurrency": HOSTS // 2 + 1})
    assert {row["outcome"] for number in range(HOSTS) for row in ran.of(f"big{number}.test").values()} == {"fetched"}
