"""HTTP as it should not be."""

from __future__ import annotations

import gzip
import zlib

import brotli  # type: ignore[import-untyped]

from tests.hostile.server import Talk, endless, page
from tests.hostile.web import EVIL, Hostile
from tests.site import linked

OK = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"


def found(number: int) -> bytes:
    return linked([f"/found/{number}"]).encode()


def test_http_as_careless_servers_write_it(hostile: Hostile) -> None:
    """Each page has a link that is found only if its body was read."""
    coded = brotli.compress(gzip.compress(found(8)))
    careless = [
        OK.replace(b"\r\n", b"\n") + b"\n" + found(0),
        OK + b"Content-Length: 18446744073709551615\r\n\r\n" + found(1),
        OK + b"Content-Length: -1\r\n\r\n" + found(2),
        OK + b"Content-Length: %d\r\n" % len(found(3)) * 2 + b"\r\n" + found(3) + b"and more",
        b"HTTP/1.1 200\r\nContent-Type : text/html\r\nno header\r\nX: a\r\n b\r\n\r\n" + found(4),
        b"\r\n\r\nhttp 200 ok\r\n\r\n" + found(5),
        OK + b"Content-Encoding: x-gzip\r\n\r\n" + gzip.compress(found(6)) + b"\0" * 100,
        OK + b"Content-Encoding: deflate, gzip\r\n\r\n" + gzip.compress(zlib.compress(found(7))),
        OK + b"Content-Encoding: gzip\r\nContent-Encoding: br\r\n\r\n" + coded,
        OK + b"Content-Encoding: gzip\r\n\r\n" + found(9),
        OK + b"Content-Encoding: br\r\n\r\n" + brotli.compress(found(10)) + b"\n",
        CHUNKED + b"%x\n%b\n0\n\n" % (len(found(11)), found(11)),
    ]
    hostile.pages[EVIL] = {
        "/": page(linked([f"/{number}" for number in range(len(careless))] + ["/204", "/304"])),
        "/204": b"HTTP/1.1 204 No Content\r\n\r\n<p>content",
        "/304": b"HTTP/1.1 304 Not Modified\r\nContent-Length: 10\r\n\r\n<p>content",
        **{f"/{number}": answer for number, answer in enumerate(careless)},
        **{f"/found/{number}": page("found") for number in range(len(careless))},
    }
    crawled = hostile.crawl()
    rows = crawled.of()
    assert {path: row["outcome"] for path, row in rows.items()} == dict.fromkeys(hostile.pages[EVIL], "fetched")
    assert {path for path, row in rows.items() if row["error"]} == {"/6", "/9", "/10", "/304"}
    host = crawled.host()
    assert (host["errors"], host["state"]) == ({}, "idle")


def test_http_that_no_browser_takes(hostile: Hostile) -> None:
    malformed = {
        "/lengths": OK + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
        "/nul": OK + b"X: \0\r\n\r\n",
        "/chunks": CHUNKED + b"zz\r\nhello",
        "/longer": CHUNKED + b"4\r\nhello\r\n0\r\n\r\n",
        "/status": b"HTTP/1.1 2OO OK\r\n\r\n",
        "/switched": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
        "/interim": endless(b"", b"HTTP/1.1 103 Early Hints\r\n\r\n" * 1000, 10**8),
        "/trailers": endless(CHUNKED + b"0\r\n", b"X: y\r\n" * 1000, 10**8),
    }
    hostile.pages[EVIL] = {
        "/": page(linked([*malformed, "/ok"])),
        "/ok": page("still here"),
        **malformed,
    }
    crawled = hostile.crawl(settings={"politeness.patience": "short"})
    rows = crawled.of()
    assert {path: (row["outcome"], row["error"][:10]) for path, row in rows.items() if row["error"]} == dict.fromkeys(
        malformed.keys() - {"/trailers"}, ("failed", "malformed:")
    )
    assert rows["/ok"]["outcome"] == "fetched"
    assert all(hostile.server.count(path) == 1 for path in malformed)
    assert crawled.host()["state"] == "idle"


def test_answers_that_nobody_asked_for(hostile: Hostile) -> None:
    """A server that answers twice, at once or later, must not choose what another URL gets."""
    forged = page("forged").replace(b"Connection: close\r\n", b"")

    def kept(body: str) -> bytes:
        return page(body).replace(b"Connection: close\r\n", b"")

    async def later(talk: Talk) -> None:
        await talk.send(kept("first"))
        await talk.send(forged)
        await talk.hold()

    async def at_once(talk: Talk) -> None:
        await talk.send(kept("first") + forged)
        await talk.hold()

    async def half(talk: Talk) -> None:
        await talk.send(kept("first") + b"HTTP/1.1 200 OK\r\nX: ")
        await talk.hold()

    hostile.pages[EVIL] = {
        "/": page(linked(["/later", "/at-once", "/half", "/ok"])),
        "/later": later,
        "/at-once": at_once,
        "/half": half,
        "/ok": page("still here"),
    }
    rows = hostile.crawl().of()
    assert {path: (row["outcome"], row["bytes"]) for path, row in rows.items() if path != "/"} == {
        "/later": ("fetched", len("first")),
        "/at-once": ("fetched", len("first")),
        "/half": ("fetched", len("first")),
        "/ok": ("fetched", len("still here")),
    }


def test_codings_that_give_nothing(hostile: Hostile) -> None:
    """Empty blocks, empty members, and the same packed: a megabyte of body each, and no byte of a page."""
    nothing = b"\x78\x9c" + b"\0\0\0\xff\xff" * 1_000_000
    window = b"\x28\xb5\x2f\xfd\x00\x88\x01\x00\x00"
    coded = {
        "/blocks": ("deflate", nothing),
        "/members": ("gzip", gzip.compress(b"") * 50_000),
        "/packed": ("deflate, gzip", gzip.compress(nothing)),
        "/bombs": ("gzip, gzip", gzip.compress(gzip.compress(bytes(10**7)) * 100)),
        "/window": ("zstd", window),
        "/many": ("gzip, " * 50, gzip.compress(b"x")),
    }
    hostile.pages[EVIL] = {
        "/": page(linked([*coded, "/ok"])),
        "/ok": page("still here"),
        **{path: page(body, f"Content-Encoding: {codings}") for path, (codings, body) in coded.items()},
    }
    rows = hostile.crawl(settings={"fetch.max_body": 1_000_000}).of()
    assert {path: rows[path]["error"].partition(":")[0] for path in coded} == {
        "/blocks": "too_large",
        "/members": "encoding",
        "/packed": "too_large",
        "/bombs": "too_large",
        "/window": "encoding",
        "/many": "encoding",
    }
    assert rows["/ok"]["outcome"] == "fetched"


LYING = {  # the answer, and what says that there is more
    "length": (OK + b"Content-Length: 500\r\n\r\n", b"", "length"),
    "length of what is coded": (OK + b"Content-Encoding: gzip\r\nContent-Length: 500\r\n\r\n", "gzip", "length"),
    "br without its end": (OK + b"Content-Encoding: br\r\nContent-Length: 50000\r\n\r\n", "br", "length"),
    "no last chunk": (CHUNKED + b"fff\r\n", b"", "chunked"),
    "checksum": (OK + b"Content-Encoding: x-gzip\r\n\r\n", "crc", "gzip"),
    "cut": (OK + b"Content-Encoding: gzip\r\n\r\n", "cut", "gzip"),
    "zlib": (OK + b"Content-Encoding: deflate\r\n\r\n", "zlib", "deflate"),
}


def lying(number: int, how: str | bytes) -> bytes:
    body, end = found(number), b"</p>" * 40_000
    match how:
        case "gzip":
            return gzip.compress(body)
        case "crc":
            return gzip.compress(body)[:-8] + b"no check"
        case "cut":
            return gzip.compress(body + end)[:-30]
        case "zlib":
            return zlib.compress(body + end)[:-30]
        case "br":
            return bytes(brotli.compress(body + end))[:-2]
    return body


def test_bodies_without_their_end(hostile: Hostile) -> None:
    answers = {f"/{at}": head + lying(at, how) for at, (head, how, _) in enumerate(LYING.values())}
    hostile.pages[EVIL] = {
        "/": page(linked(answers)),
        **answers,
        **{f"/found/{at}": page("found") for at in range(len(answers))},
    }
    crawled = hostile.crawl(settings={"retry.tries": 2})
    rows = crawled.of()
    want = {f"/{at}": truncated for at, (_, _, truncated) in enumerate(LYING.values())}
    assert {path: row["truncated"] for path, row in rows.items() if "truncated" in row} == want
    assert all(f"/found{path}" in rows and rows[path]["links_cut"] for path in want)
    assert {rows[path]["outcome"] for path in answers} == {"fetched"}


def test_a_last_try_that_ends_otherwise_than_the_first_has_failed(hostile: Hostile) -> None:
    length, chunked = OK + b"Content-Length: 500\r\n\r\nx", CHUNKED + b"fff\r\nx"
    turns = {"/other": [length, chunked], "/alike": [chunked, chunked], "/whole": [length, page("x")]}

    async def answer(talk: Talk) -> None:
        await talk.send(turns[talk.path].pop(0))

    hostile.pages[EVIL] = {"/": page(linked(turns)), **dict.fromkeys(turns, answer)}
    rows = hostile.crawl(settings={"retry.tries": 2}).of()
    assert {path: (rows[path]["outcome"], rows[path].get("truncated")) for path in turns} == {
        "/other": ("failed", None),
        "/alike": ("fetched", "chunked"),
        "/whole": ("fetched", None),
    }
