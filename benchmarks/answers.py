"""Compares what this crawler and Chromium make of the same answers, byte for byte: one table.

    python benchmarks/answers.py [--chromium PROGRAM] [WORD]

Each case is an answer to `/` on an address of its own; any other path answers a page whose title is the path as it
was requested. One run of the crawler and one headless Chromium ask all of them; WORD picks the cases whose names
contain it. Both see where it ends: final URL, title, encoding and the links as resolved. The script needs root: it runs
in a network namespace of its own, so that nothing leaves the loopback interface.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import select
import socket
import subprocess
import sys
import tempfile
import threading
import time
import zlib
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

sys.path.append(str(Path(__file__).resolve().parents[1]))

from benchmarks.kit.machine import describe_machine
from crawler.url.urls.canonicaliser import Canonical, Canonicaliser

_ROOT = Path(__file__).resolve().parents[1]
_PORT = 8080
_SOON = "[retry]\nfirst_wait = 0.1\n[politeness]\nbackoff_first = 0.1\nsnooze_first = 0.2\n"
_FLAGS = ("--allow-private", "--delay", "0", "--max-depth", "0", "--output", "links", "--max-time", "60", "--quiet")
_BROWSER = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-extensions", "--disable-sync"),
    *("--lang=en-US", "--remote-debugging-pipe", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.*"),
)
_CANONICALISER = Canonicaliser()
_SHOWN = """new Promise(done => {
  const show = () => done([location.href, document.title, document.characterSet.toLowerCase(), document.contentType,
                           [...document.querySelectorAll("a[href]")].map(a => a.href)]);
  document.readyState == "complete" ? show() : addEventListener("load", show);
  setTimeout(show, 1000);  // a body that ends with an error has no such event
})"""


class Seen(NamedTuple):
    """What a reader made of an answer; ``note`` says what is wrong with it."""

    url: str = ""
    title: str = ""
    charset: str = ""
    links: tuple[str, ...] = ()
    note: str = ""

    def __str__(self) -> str:
        title = self.title if len(self.title) < 30 else f"{self.title[:30]}..."
        page = f"{self.url} {title!r} {self.charset} {' '.join(self.links)}" if self.title or self.links else "no page"
        return f"{page.rstrip()}  {self.note}".rstrip()

    def same(self, other: Seen) -> bool:
        """True if both are the same page, or neither is one. ASCII is the same in most encodings."""
        mine, its = ((seen.title and seen.url, seen.title, sorted(seen.links)) for seen in (self, other))
        return mine == its


def answer(body: bytes, *lines: bytes, status: bytes = b"200 OK", version: bytes = b"1.1") -> bytes:
    """An answer with a body that ends with the connection, and these header lines."""
    return b"HTTP/%s %s\r\n" % (version, status) + b"".join(line + b"\r\n" for line in lines) + b"\r\n" + body


def html(body: bytes, *lines: bytes, kind: bytes = b"text/html") -> bytes:
    return answer(body, b"Content-Type: " + kind, *lines)


_E = "é".encode()
_FULL = b"<!doctype html><title>full</title><a href=/1>1</a>" + b"<p>filler</p>" * 40 + b"<a href=/2>2</a>"
_UTF8 = b"<meta charset=utf-8>"
_REST = b"<title>" + _E + b"</title><body><a href='/" + _E + b"?" + _E + b"'>" + _E + b"</a>"
_PAD = b"x" * 1100
_HEAD = b"<!doctype html><head>"
_LATE = _HEAD + b"<script>/*%s*/</script>" % _PAD


def said(before: bytes, kind: bytes = b"text/html") -> bytes:
    """A page in UTF-8 that begins with this."""
    return html(before + _REST, kind=kind)


def _late_metas() -> Iterable[tuple[str, bytes]]:
    yield "meta in the first bytes", said(_HEAD + _UTF8)
    yield "none", said(_HEAD)
    for name, pad in (
        ("script", b"<script>/*%s*/</script>" % _PAD),
        ("script of 100 KB", b"<script>/*%s*/</script>" % (_PAD * 90)),
        ("comment", b"<!--%s-->" % _PAD),
        ("comment before doctype", b"<!--%s--><!doctype html><head>" % _PAD),
        ("title", b"<title>%s</title>" % _PAD),
        ("noscript", b"<noscript><link rel=x title=%s></noscript>" % _PAD),
        ("script, head not opened", b""),
        ("object", b"<object>%s</object>" % _PAD),
        ("div", b"<div>%s</div>" % _PAD),
        ("text", _PAD),
        ("script and </head>", b"<script>/*%s*/</script></head>" % _PAD),
        ("body of 3,000 bytes", b"<body>" + b"<p>%s</p>" % _PAD * 3),
    ):
        start = b"<!doctype html><script>/*%s*/</script>" % _PAD if "not opened" in name else _HEAD + pad
        yield f"late meta, behind {name}", said(start + _UTF8)
    yield "late meta http-equiv", said(_LATE + b'<meta http-equiv=Content-Type content="text/html; charset=utf-8">')
    yield "late meta utf-16", said(_LATE + b"<meta charset=utf-16>")
    yield "late meta unknown, then utf-8", said(_LATE + b"<meta charset=nonsense>" + _UTF8)
    yield "early unknown, late utf-8", said(_HEAD + b"<meta charset=nonsense>" + _LATE + _UTF8)
    yield "late meta in noscript", said(_LATE + b"<noscript>" + _UTF8 + b"</noscript>")
    yield "late meta in script", said(_LATE + b"<script>'" + _UTF8 + b"'</script>")
    yield "late meta in comment", said(_LATE + b"<!--" + _UTF8 + b"-->")
    yield "late meta in template", said(_LATE + b"<template>" + _UTF8 + b"</template>")
    yield "late meta written by script", said(_LATE + b"<script>document.write('" + _UTF8 + b"')</script>")
    yield "late meta, header latin-1", said(_LATE + _UTF8, b"text/html; charset=iso-8859-1")
    yield "late meta, title before it", said(_HEAD + b"<title>" + _E + b"</title>" + _LATE[21:] + _UTF8)
    yield "meta cut by byte 1,024", said(_HEAD + b"<!--" + b"x" * (1024 - 21 - 4 - 3 - 10) + b"-->" + _UTF8)


def _charsets() -> Iterable[tuple[str, bytes]]:
    yield from _late_metas()
    yield "meta in body at byte 40", said(_HEAD + b"</head><body><p>x" + _UTF8)
    yield "meta in noscript", said(_HEAD + b"<noscript>" + _UTF8 + b"</noscript>")
    yield "meta in script", said(_HEAD + b"<script>'" + _UTF8 + b"'</script>")
    yield "meta in comment", said(_HEAD + b"<!--" + _UTF8 + b"-->")
    yield "meta in style", said(_HEAD + b"<style>" + _UTF8 + b"</style>")
    yield "meta in textarea", said(b"<!doctype html><textarea>" + _UTF8 + b"</textarea>")
    yield "meta in an attribute", said(_HEAD + b"<link title='" + _UTF8 + b"'>")
    yield "meta in svg", said(b"<!doctype html><svg>" + _UTF8 + b"</svg>")
    yield "meta koi8-r, then utf-8", said(_HEAD + b"<meta charset=koi8-r>" + _UTF8)
    yield "meta unknown, then utf-8", said(_HEAD + b"<meta charset=nonsense>" + _UTF8)
    yield "meta utf-16", said(_HEAD + b"<meta charset=utf-16>")
    yield "meta x-user-defined", said(_HEAD + b"<meta charset=x-user-defined>")
    yield "meta iso-2022-kr", said(_HEAD + b"<meta charset=iso-2022-kr>")
    yield "header latin-1, meta utf-8", said(_HEAD + _UTF8, b"text/html; charset=iso-8859-1")
    yield "header unknown, meta utf-8", said(_HEAD + _UTF8, b"text/html; charset=nonsense")
    yield "header in single quotes, no meta", said(_HEAD, b"text/html; charset='utf-8'")
    yield "header with spaces around =", said(_HEAD, b"text/html; charset = utf-8")
    yield "BOM, header latin-1", said(b"\xef\xbb\xbf" + _HEAD, b"text/html; charset=iso-8859-1")
    page = (_HEAD + b"<meta charset=koi8-r>" + _REST).decode()
    yield "UTF-16LE, BOM", html(b"\xff\xfe" + page.encode("utf-16-le"))
    yield "UTF-16BE, BOM, header utf-8", html(b"\xfe\xff" + page.encode("utf-16-be"), kind=b"text/html; charset=utf-8")
    yield "UTF-16BE, header", html(page.encode("utf-16-be"), kind=b"text/html; charset=utf-16be")
    yield "UTF-16LE, header utf-16, no BOM", html(page.encode("utf-16-le"), kind=b"text/html; charset=utf-16")
    yield "UTF-16LE, XML declaration, no BOM", html(("<?xml version='1.0'?>" + page).encode("utf-16-le"))
    xml = b'<?xml version="1.0" encoding="%s"?>'
    yield "XML declaration utf-8", said(xml % b"UTF-8" + _HEAD)
    yield "XML declaration without version", said(b"<?xml encoding=utf-8 ?>" + _HEAD)
    yield "XML declaration koi8-r", said(xml % b"koi8-r" + _HEAD)
    yield "XML declaration utf-16", said(xml % b"utf-16" + _HEAD)
    yield "XML declaration koi8-r, meta utf-8", said(xml % b"koi8-r" + _HEAD + _UTF8)
    yield "XML declaration utf-8, meta koi8-r", said(xml % b"utf-8" + _HEAD + b"<meta charset=koi8-r>")
    yield "XML declaration behind a line feed", said(b"\n" + xml % b"utf-8" + _HEAD)
    yield "XML declaration utf-8, late meta koi8-r", said(xml % b"utf-8" + _LATE + b"<meta charset=koi8-r>")
    yield "XML declaration of 1,100 bytes", said(b"<?xml version='1.0' x='" + _PAD + b"' encoding='utf-8'?>" + _HEAD)
    yield (
        "XHTML doctype in text/html, none",
        said(
            b'<!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.0 Strict//EN" "http://www.w3.org/TR/xhtml1/DTD/xhtml1-strict.dtd">'
            b'<html xmlns="http://www.w3.org/1999/xhtml">'
        ),
    )
    for name, start, meta, kind in (
        ("none", b"", b"", b""),
        ("declaration koi8-r", xml % b"koi8-r", b"", b""),
        ("meta koi8-r", b"", b"<meta charset='koi8-r'/>", b""),
        ("header koi8-r", b"", b"", b"; charset=koi8-r"),
        ("declaration unknown", xml % b"nonsense", b"", b""),
    ):
        body = (
            start
            + b'<html xmlns="http://www.w3.org/1999/xhtml"><head>'
            + meta
            + _REST.replace(b"<body>", b"</head><body>")
        )
        yield f"XHTML, {name}", html(body + b"</body></html>", kind=b"application/xhtml+xml" + kind)


def _heads() -> Iterable[tuple[str, bytes]]:
    moved, there = b"HTTP/1.1 302 Found\r\n", b"Location: /target"
    yield "302, cut behind Location", moved + there + b"\r\n"
    yield "302, cut behind Location, no line end", moved + there
    yield "302, cut within Location", moved + b"Location: /tar"
    yield "302, cut within the name", moved + there + b"\r\nContent-Le"
    yield "302, bare LF, cut", b"HTTP/1.1 302 Found\nLocation: /target\n"
    yield "302, cut behind CR", moved + there + b"\r\n\r"
    yield "302, Content-Length 10, cut", moved + there + b"\r\nContent-Length: 10\r\n"
    yield "200, cut", b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"
    yield "404, cut", b"HTTP/1.1 404 Not Found\r\nContent-Type: text/html\r\n"
    yield "status line alone", b"HTTP/1.1 200 OK\r\n"
    yield "HTTP/1.1 alone", b"HTTP/1.1"
    yield "no byte", b""
    yield "no head, HTML", _FULL
    yield "100 Continue and cut 302", b"HTTP/1.1 100 Continue\r\n\r\n" + moved + there + b"\r\n"


def _types() -> Iterable[tuple[str, bytes]]:
    t = b"Content-Type: "
    for name, lines in (
        ("plain, html", (b"text/plain", b"text/html")),
        ("html, plain", (b"text/html", b"text/plain")),
        ("html, nonsense", (b"text/html", b"nonsense")),
        ("html, */*", (b"text/html", b"*/*")),
        ("html utf-8, html", (b"text/html; charset=utf-8", b"text/html")),
        ("html utf-8, html koi8-r", (b"text/html; charset=utf-8", b"text/html; charset=koi8-r")),
        ("html utf-8, plain, html", (b"text/html; charset=utf-8", b"text/plain", b"text/html")),
        ("html utf-8, */*, html", (b"text/html; charset=utf-8", b"*/*", b"text/html")),
        ("html, html utf-8", (b"text/html", b"text/html; charset=utf-8")),
        ("plain, html in one line", (b"text/plain, text/html",)),
        ("html, plain in one line", (b"text/html, text/plain",)),
        ("html utf-8, html in one line", (b"text/html; charset=utf-8, text/html",)),
        ("comma in quotes", (b'text/html; x="a, text/plain"',)),
        ("*/*", (b"*/*",)),
        ("unknown/unknown", (b"unknown/unknown",)),
        ("application/unknown", (b"application/unknown",)),
        ("*/*; charset=utf-8", (b"*/*; charset=utf-8",)),
        ("none", ()),
        ("empty", (b"",)),
        ("text/html;;charset", (b"text/html;;charset=utf-8",)),
        ("text/plain", (b"text/plain",)),
        ("image/png", (b"image/png",)),
        ("text/xml, XHTML inside", (b"text/xml",)),
    ):
        body = b"<!doctype html>" + _REST
        if "XHTML" in name:
            body = b'<html xmlns="http://www.w3.org/1999/xhtml">' + _REST.replace(b"<body>", b"") + b"</html>"
        yield name, answer(body, *(t + line for line in lines))
    for name, body in (
        ("none, HTML behind a comment", b"<!-- x --><p>" + _REST),
        ("none, HTML behind text", b"text <p>" + _REST),
        ("none, <meta> first", _UTF8 + _REST),
        ("none, XML declaration first", b"<?xml version='1.0'?><!doctype html>" + _REST),
        ("none, 600 spaces first", b" " * 600 + b"<!doctype html>" + _REST),
        ("none, BOM", b"\xef\xbb\xbf<!doctype html>" + _REST),
        ("none, text", b"plain text"),
    ):
        yield name, answer(body)
    yield "none, nosniff", answer(_FULL, b"X-Content-Type-Options: nosniff")


def _chunks() -> Iterable[tuple[str, bytes]]:
    size = b"%x" % len(_FULL)
    te, kind = b"Transfer-Encoding: chunked", b"Content-Type: text/html"
    end = b"\r\n0\r\n\r\n"
    for name, body in (
        ("plain", size + b"\r\n" + _FULL + end),
        ("'N;'", size + b";\r\n" + _FULL + end),
        ("'N;a=\"b' quote left open", size + b';a="b\r\n' + _FULL + end),
        ("'N;a=\\x01'", size + b";a=\x01\r\n" + _FULL + end),
        ("'N;a=\\xe9'", size + b";a=\xe9\r\n" + _FULL + end),
        ("'N ' trailing spaces", size + b"   \r\n" + _FULL + end),
        ("'N\\t' trailing tab", size + b"\t\r\n" + _FULL + end),
        ("' N' leading space", b" " + size + b"\r\n" + _FULL + end),
        ("'N x'", size + b" x\r\n" + _FULL + end),
        ("'0xN'", b"0x" + size + b"\r\n" + _FULL + end),
        ("bare LF", size + b"\n" + _FULL + b"\n0\n\n"),
        ("no CRLF behind the data", size + b"\r\n" + _FULL + b"0\r\n\r\n"),
        ("junk behind the data", size + b"\r\n" + _FULL + b"junk\r\n0\r\n\r\n"),
        ("'zz'", b"zz\r\n" + _FULL + end),
        ("trailer without a colon", size + b"\r\n" + _FULL + b"\r\n0\r\nBad Trailer\r\n\r\n"),
        ("trailer, cut", size + b"\r\n" + _FULL + b"\r\n0\r\nX: y\r\n"),
        ("'0' without the empty line", size + b"\r\n" + _FULL + b"\r\n0\r\n"),
        ("plain body", _FULL),
    ):
        yield f"chunks, {name}", answer(body, kind, te)
    whole = size + b"\r\n" + _FULL + end
    yield "chunks, HTTP/1.0", answer(whole, kind, te, version=b"1.0")
    yield "chunks, HTTP/1.0, plain body", answer(_FULL, kind, te, version=b"1.0")
    yield "chunks, HTTP/1.0, body begins with hex", answer(b"add <p>" + _FULL, kind, te, version=b"1.0")
    yield (
        "chunks, HTTP/1.0, plain, with a length",
        answer(_FULL, kind, te, b"Content-Length: %d" % len(_FULL), version=b"1.0"),
    )
    yield "chunks and Content-Length", answer(whole, kind, te, b"Content-Length: 20")
    yield "Transfer-Encoding 'identity, chunked'", answer(whole, kind, b"Transfer-Encoding: identity, chunked")
    yield "Transfer-Encoding 'gzip', plain", answer(_FULL, kind, b"Transfer-Encoding: gzip")
    yield "300 headers of 12 KB", answer(_FULL, kind, *[b"X-Header-%03d: %s" % (n, b"v" * 24) for n in range(300)])
    yield "5,000 headers of 60 KB", answer(_FULL, kind, *[b"X-%04d: abc" % n for n in range(5000)])
    yield "a header of 60 KB", answer(_FULL, kind, b"X: " + b"v" * 60_000)
    yield "a head of 200 KB", answer(_FULL, kind, *[b"X-%02d: %s" % (n, b"v" * 10_000) for n in range(20)])
    yield "a head of 300 KB", answer(_FULL, kind, *[b"X-%02d: %s" % (n, b"v" * 10_000) for n in range(30)])
    yield (
        "100 cookies of 400 bytes",
        answer(_FULL, kind, *[b"Set-Cookie: c%d=%s" % (n, b"v" * 400) for n in range(100)]),
    )


def _lengths() -> Iterable[tuple[str, bytes]]:
    kind, n = b"Content-Type: text/html", len(_FULL)
    for name, value in (
        ("5 more than there is", b"%d" % (n + 5)),
        ("100 times what there is", b"%d" % (n * 100)),
        ("less than there is", b"%d" % (n - 100)),
        ("0, with a body", b"0"),
        ("'N, N'", b"%d, %d" % (n, n)),
        ("'N, M'", b"%d, %d" % (n, n - 100)),
        ("empty", b""),
    ):
        yield f"length {name}", answer(_FULL, kind, b"Content-Length: " + value)
    yield "length more, no byte", answer(b"", kind, b"Content-Length: 100")
    zipped, coding = gzip.compress(_FULL), b"Content-Encoding: gzip"
    raw = zlib.compressobj(wbits=-15)
    for name, body, line in (
        ("whole", zipped, coding),
        ("wrong CRC", zipped[:-8] + b"\0\0\0\0" + zipped[-4:], coding),
        ("wrong size", zipped[:-4] + b"\0\0\0\0", coding),
        ("without CRC and size", zipped[:-8], coding),
        ("cut in the middle", zipped[: len(zipped) * 2 // 3], coding),
        ("cut in the header", zipped[:6], coding),
        ("two members", gzip.compress(_FULL[:300]) + gzip.compress(_FULL[300:]), coding),
        ("garbage behind it", zipped + b"garbage", coding),
        ("damaged within", zipped[:-60] + b"\xff" * 20 + zipped[-40:], coding),
        ("plain body", _FULL, coding),
        ("deflate, zlib", zlib.compress(_FULL), b"Content-Encoding: deflate"),
        ("deflate, raw", raw.compress(_FULL) + raw.flush(), b"Content-Encoding: deflate"),
        ("deflate, cut", zlib.compress(_FULL)[:-20], b"Content-Encoding: deflate"),
        ("none, though gzip", zipped, b"X: y"),
        ("br, plain body", _FULL, b"Content-Encoding: br"),
    ):
        yield f"gzip, {name}", answer(body, kind, line)
    yield "gzip whole, length of the page", answer(zipped, kind, coding, b"Content-Length: 5000")
    yield "gzip cut, length of the whole", answer(zipped[:-20], kind, coding, b"Content-Length: %d" % len(zipped))
    half = b"%x\r\n%s\r\n" % (n // 2, _FULL[: n // 2])
    te = b"Transfer-Encoding: chunked"
    yield "last chunk missing", answer(b"%x\r\n%s\r\n" % (n, _FULL), kind, te)
    yield "cut behind a chunk", answer(half, kind, te)
    yield "cut within a chunk", answer(half + b"%x\r\n%s" % (n, _FULL[n // 2 : -30]), kind, te)
    yield "cut within a size", answer(half + b"1f", kind, te)
    yield "bad size behind a chunk", answer(half + b"zz\r\n" + _FULL, kind, te)


def _redirects() -> Iterable[tuple[str, bytes]]:
    kind = b"Content-Type: text/html"
    for name, there in (
        ("Latin-1", b"/jos\xe9"),
        ("Latin-1 in the query", b"/?q=jos\xe9"),
        ("UTF-8", "/josé".encode()),
        ("UTF-8 and Latin-1", "/é".encode() + b"\xe9"),
        ("Shift_JIS", b"/\x93\xfa\x96\x7b"),
        ("GBK, last byte a backslash", b"/\xd5\x5c"),
        ("a space", b"/a b"),
        ("spaces around", b"   /target  "),
        ("a backslash", b"\\target"),
        ("relative", b"target"),
        ("../..", b"../../target"),
        ("fragment", b"/target#part"),
        ("javascript:", b"javascript:alert(1)"),
        ("'<>{}|^`'", b"/<>{}|^`"),
        ("'/a, /b'", b"/a, /b"),
    ):
        yield f"302, {name}", answer(b"", b"Location: " + there, b"Content-Length: 0", status=b"302 Found")
    for status in (b"301 Moved", b"302 Found", b"308 Permanent Redirect"):
        yield f"{status[:3].decode()}, empty Location, body", answer(_FULL, kind, b"Location:", status=status)
        yield f"{status[:3].decode()}, no Location, body", answer(_FULL, kind, status=status)
    yield "302, no Location, no body", answer(b"", kind, b"Content-Length: 0", status=b"302 Found")
    yield "302, empty Location, no body", answer(b"", kind, b"Location:", b"Content-Length: 0", status=b"302 Found")
    yield "302, two Locations", answer(b"", b"Location: /1", b"Location: /2", status=b"302 Found")
    yield "302, an empty Location, then one", answer(b"", b"Location:", b"Location: /2", status=b"302 Found")
    yield "302, cut body", answer(b"x", b"Location: /target", b"Content-Length: 10", status=b"302 Found")
    yield "302 to itself", answer(b"", b"Location: /", b"Content-Length: 0", status=b"302 Found")
    yield "201 with Location", answer(_FULL, kind, b"Location: /target", status=b"201 Created")
    for status in (b"300 Multiple Choices", b"304 Not Modified", b"305 Use Proxy", b"306 Unused"):
        yield f"{status[:3].decode()}, Location, body", answer(_FULL, kind, b"Location: /target", status=status)
        yield f"{status[:3].decode()}, body", answer(_FULL, kind, status=status)


def _others() -> Iterable[tuple[str, bytes]]:
    kind = b"Content-Type: text/html"
    for status in (b"402 Payment Required", b"412 Precondition Failed", b"205 Reset Content", b"999 Odd"):
        yield status.decode(), answer(_FULL, kind, status=status)
    yield "304, no body, ETag", answer(b"", b'ETag: "1"', status=b"304 Not Modified")
    yield "status 0200", answer(_FULL, kind, status=b"0200 OK")


_POINTS = {1: _charsets, 2: _heads, 3: _types, 4: _chunks, 5: _lengths, 6: _redirects, 8: _others}

# Why the crawler does not do as Chromium does, where it does not.
_WHY = {
    "none, HTML behind text": "links are worth more here than the risk of a guess",
    "none, <meta> first": "links are worth more here than the risk of a guess",
    "none, XML declaration first": "links are worth more here than the risk of a guess",
    "none, 600 spaces first": "links are worth more here than the risk of a guess",
    "none, BOM": "links are worth more here than the risk of a guess",
    "none, nosniff": "links are worth more here than the risk of a guess",
    "meta iso-2022-kr": "browsers refuse the encoding because scripts can be hidden in it",
    "chunks, 'N\\t' trailing tab": "white space like a space",
    "gzip, two members": "RFC 1952, 2.2: a file may have several",
    "gzip, plain body": "nothing is lost by reading it",
    "302, two Locations": "one of them may be right, an error never is",
    "302, an empty Location, then one": "one of them may be right, an error never is",
    "302, '<>{}|^`'": "the URL Standard leaves | in paths",
    "402 Payment Required": "only pages of good statuses are read",
    "412 Precondition Failed": "only pages of good statuses are read",
    "999 Odd": "only pages of good statuses are read",
    "205 Reset Content": "the body is a page",
}


def host(n: int) -> str:
    return f"127.50.{n // 250}.{n % 250 + 1}"


def address(n: int) -> str:
    return f"http://{host(n)}:{_PORT}/"


def short(url: str, n: int) -> str:
    """The URL as the crawler writes it, without its host if that is the one of the case."""
    canonical = _CANONICALISER.canonicalise(url)
    href = canonical.href if isinstance(canonical, Canonical) else url
    return href.removeprefix(address(n)[:-1])


def serve(n: int, raw: bytes) -> None:
    """Answer on the address of a case."""

    def reply(connection: socket.socket) -> None:
        with connection, suppress(OSError):  # of a client that has seen enough
            connection.settimeout(10)
            head = connection.recv(65536)
            while b"\r\n\r\n" not in head:
                head += connection.recv(65536) or b" closed \r\n\r\n"
            path = head.split(b" ", 2)[1]
            missing = answer(b"", b"Content-Length: 0", b"Connection: close", status=b"404 Not Found")
            other = missing if path in (b"/robots.txt", b"/favicon.ico") else html(b"<title>at %s</title>" % path)
            connection.sendall(raw if path == b"/" else other)
            if path == b"/":
                time.sleep(0.2)  # Chromium shows nothing of a cut body that comes together with its end
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(65536):
                pass

    def accept() -> None:
        while True:
            threading.Thread(target=reply, args=(listener.accept()[0],), daemon=True).start()

    listener = socket.create_server((host(n), _PORT))
    threading.Thread(target=accept, daemon=True).start()


class Chromium:
    """A headless browser, driven by the DevTools protocol through a pipe."""

    def __init__(self, program: str, profile: Path) -> None:
        shell = ("sh", "-c", 'exec "$0" "$@" 3<&0 4>&1 </dev/null >/dev/null', program)
        words = (*shell, *_BROWSER, f"--user-data-dir={profile}")
        (theirs, self._in), (self._out, other) = os.pipe(), os.pipe()
        self._process = subprocess.Popen(words, stdin=theirs, stdout=other, stderr=subprocess.DEVNULL)
        os.close(theirs)
        os.close(other)
        self._rest, self._id, self._session, self._failed = b"", 0, {}, ""
        self.version = self._call("Browser.getVersion")["product"]
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = {"sessionId": self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]}
        self._call("Network.enable")

    def _call(self, method: str, **params: object) -> dict[str, Any]:
        self._id += 1
        call = {"id": self._id, "method": method, "params": params, **self._session}
        os.write(self._in, json.dumps(call).encode() + b"\0")
        while True:
            while b"\0" not in self._rest:
                ready = select.select([self._out], [], [], 20)[0]
                if not (more := ready and os.read(self._out, 65536)):
                    raise SystemExit(f"Chromium does not answer {call}")
                self._rest += more
            line, self._rest = self._rest.split(b"\0", 1)
            message = json.loads(line)
            if message.get("method") == "Network.loadingFailed" and message["params"]["type"] == "Document":
                self._failed = message["params"]["errorText"]
            if message.get("id") == self._id:
                result: dict[str, Any] = message["result"]
                return result

    def open(self, n: int) -> Seen:
        """What it shows for a case."""
        self._call("Page.navigate", url="about:blank")
        self._failed = ""
        if error := self._call("Page.navigate", url=address(n)).get("errorText"):
            return Seen(note="a download, or nothing" if error == "net::ERR_ABORTED" else error)
        shown = self._call("Runtime.evaluate", expression=_SHOWN, awaitPromise=True, returnByValue=True)
        url, title, charset, kind, links = shown["result"]["value"]
        if "html" not in kind:
            return Seen(note=f"shown as {kind}")
        return Seen(
            short(url, n), title[:1000], charset, tuple(dict.fromkeys(short(link, n) for link in links)), self._failed
        )

    def close(self) -> None:
        self._call("Browser.close")
        self._process.wait(30)


def crawl(count: int, here: Path) -> list[Seen]:
    """What one crawl of all cases records."""
    (here / "seeds.txt").write_text("".join(f"{address(n)}\n" for n in range(count)))
    (here / "config.toml").write_text(_SOON)
    words = (sys.executable, "-m", "crawler", "seeds.txt", "--job", "job", "--config", "config.toml", *_FLAGS)
    subprocess.run(words, cwd=here, env={**os.environ, "PYTHONPATH": str(_ROOT)}, check=False)
    records = {record["url"]: record for record in rows(here / "job" / "pages.jsonl")}
    links: dict[str, list[str]] = {}
    for path in sorted((here / "job" / "links").glob("*.jsonl")):
        for row in rows(path):
            links.setdefault(row["from"], []).append(row["to"])
    return [recorded(n, records, links) for n in range(count)]


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def recorded(n: int, records: dict[str, dict[str, Any]], links: dict[str, list[str]]) -> Seen:
    """What the record at the end of the redirects says."""
    url, passed = address(n), set()
    while there := (record := records.get(url, {})).get("location"):
        if there in passed:
            return Seen(note="redirects without end")
        passed.add(there)
        url = there
    if not record:
        return Seen(note=f"redirect to {short(url, n)}, which has no record")
    good = record["outcome"] == "fetched" and record["status"] == 200
    said = [] if good else [record["outcome"], str(record["status"] or "")]
    said += [record["error"] or "", record.get("truncated", "") and f"truncated: {record['truncated']}"]
    found = tuple(dict.fromkeys(short(link, n) for link in links.get(url, ())))
    return Seen(short(url, n), record.get("title", ""), record.get("charset", ""), found, " ".join(filter(None, said)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("word", nargs="?", default="", metavar="WORD", help="in the names of the cases to be tried")
    parser.add_argument("--chromium", default="chromium", metavar="PROGRAM")
    arguments = parser.parse_args()
    if "ANSWERS_ALONE" not in os.environ:
        script = ("sh", "-c", 'ip link set lo up && exec "$0" "$@"', sys.executable, *sys.argv)
        os.execvpe("unshare", ["unshare", "--net", *script], {**os.environ, "ANSWERS_ALONE": "yes"})
    cases = [(f"{point} {name}", raw) for point, made in _POINTS.items() for name, raw in made()]
    cases = [(name, raw) for name, raw in cases if arguments.word in name]
    for n, (_, raw) in enumerate(cases):
        serve(n, raw)
    with tempfile.TemporaryDirectory() as directory:
        browser = Chromium(arguments.chromium, Path(directory) / "profile")
        print(*describe_machine(), f"browser   {browser.version}\n", sep="\n")
        theirs = [browser.open(n) for n in range(len(cases))]
        browser.close()
        mine = crawl(len(cases), Path(directory))
    count = {"same": 0, "differs": 0, "differs, as intended": 0}
    for (name, _), other, own in zip(cases, theirs, mine, strict=True):
        why = _WHY.get(name[2:], "")
        verdict = "same" if own.same(other) else "differs"
        count[f"{verdict}, as intended" if verdict == "differs" and why else verdict] += 1
        print(f"{verdict:8}{name:48}{other}", *[f"(crawler: {own.note})" for _ in own.note[:1] if verdict == "same"])
        if verdict == "differs":
            print(f"{'crawler':>54}  {own}", *[f"({why})" for _ in why[:1]])
    print("\n" + "; ".join(f"{number} {verdict}" for verdict, number in count.items()))


if __name__ == "__main__":
    main()
