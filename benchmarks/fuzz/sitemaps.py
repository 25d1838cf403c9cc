"""Sitemaps: any bytes end in a list of URLs, and a whole document in that which a parser of whole documents finds."""

from __future__ import annotations

import gzip
import random
from typing import NamedTuple
from xml.etree import ElementTree

import webencodings
from webencodings.labels import LABELS

from crawler.base.settings.parts import LinkSettings
from crawler.web.links.sitemap import Sitemap

_SETTINGS = LinkSettings()
_UNREAD = ("replacement", "x-user-defined", "utf-16le", "utf-16be")  # the last are told by their byte order mark
_ENCODINGS = ("utf-8", "utf-8", "utf-16", *sorted(label for label, name in LABELS.items() if name not in _UNREAD))
_URLS = (
    "http://h.test/",
    "http://h.test/?a=1&amp;b=2",
    " http://h.test/x ",
    "http://h.test/é",
    "",
    "&#104;ttp://h.test/y",
    "/rel",
)
_EXTRAS = (
    *("<lastmod>2020-01-01</lastmod>", "<changefreq>daily</changefreq>", "<!-- x -->", "<?pi x?>", "\n  ", "text"),
    *("<image:image xmlns:image='i'><image:loc>http://h.test/i.png</image:loc></image:image>", "<priority/>", "<loc/>"),
)
_PRIORITIES = ("0.5", "1.0", "0", "1.1", "-1", "x", "nan", "", " 0.25 ", "1e-1")
_NOISE = (
    *(b"<", b">", b"</", b"<!--", b"-->", b"<![CDATA[", b"]]>", b"<!DOCTYPE a [<!ENTITY b 'c'>]>", b"&b;"),
    *(b"&#0;", b"\x00", b"<url>", b"</url>", b"<loc>", b"</loc>", b"\xff\xfe", b"\xef\xbb\xbf"),
    *(b"<?xml version='1.1'?>", b"\xc3", b"xmlns:a=''", b"encoding='GBK'", b"encoding='utf-7'"),
    *(b"encoding='hex'", b"encoding='idna'", b"encoding='\xff'", b"\x1f\x8b", b"'" * 99),
)


class Case(NamedTuple):
    """A body; ``text`` is the document where it is whole, without its declaration."""

    body: bytes
    text: str | None


def make(chance: random.Random) -> Case:
    """A document in some encoding, perhaps compressed, perhaps damaged."""
    text = _document(chance)
    encoding = chance.choice(_ENCODINGS)
    declared = (
        f"<?xml version='1.0' encoding='{encoding}'?>{text}" if encoding != "utf-8" or chance.random() < 0.5 else text
    )
    codec = encoding if encoding == "utf-16" else webencodings.lookup(encoding).codec_info.name
    body = declared.encode(codec, "xmlcharrefreplace")
    if chance.random() < 0.5:
        return Case(gzip.compress(body) if chance.random() < 0.3 else body, text)
    packed = chance.random() < 0.2
    for _ in range(chance.randrange(1, 5)):
        at = chance.randrange(len(body) + 1)
        body = body[:at] + _noise(chance) + body[at + chance.randrange(9) :]
    if packed:
        body = gzip.compress(body)
        body = body[: chance.randrange(len(body) + 1)] + chance.randbytes(chance.randrange(3))
    return Case(body, None)


def _document(chance: random.Random) -> str:
    root, item = chance.choice((("urlset", "url"), ("sitemapindex", "sitemap")))
    space = chance.choice(("", ' xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'))
    items = "".join(_item(chance, item) for _ in range(chance.choice((0, 1, 2, 3, 30))))
    return f"<{root}{space}>{items}</{root}>"


def _item(chance: random.Random, name: str) -> str:
    parts = [f"<loc>{chance.choice(_URLS)}</loc>"] if chance.random() < 0.9 else []
    if chance.random() < 0.5:
        parts.append(f"<priority>{chance.choice(_PRIORITIES)}</priority>")
    parts += [chance.choice(_EXTRAS) for _ in range(chance.randrange(3))]
    chance.shuffle(parts)
    return f"<{name}>{''.join(parts)}</{name}>"


def _noise(chance: random.Random) -> bytes:
    return chance.choice(_NOISE) * chance.choice((1, 1, 1, 50)) if chance.random() < 0.7 else chance.randbytes(4)


def check(case: Case) -> str:
    """Some list for any bytes; the right one for a whole document."""
    sitemap = Sitemap(case.body, _SETTINGS)
    listed = [(one.href, one.priority) for group in sitemap for one in group]
    for href, priority in listed:
        href.encode()
        assert priority is None or 0 <= priority <= 1
    if case.text is None:
        return "damaged, read in part" if sitemap.fault else "damaged, read"
    assert sitemap.fault is None, sitemap.fault
    wanted = reference(case.text)
    assert listed == wanted, f"{listed}, not {wanted}"
    assert sitemap.is_index == case.text.startswith("<sitemapindex") or not listed
    return "whole"


def reference(text: str) -> list[tuple[str, float | None]]:
    """URL and priority of each item, of a document that is parsed as a whole."""
    found: list[tuple[str, float | None]] = []
    for item in ElementTree.fromstring(text):
        if not isinstance(item.tag, str):
            continue
        href, priority = "", None
        for part in item:
            name = part.tag.rpartition("}")[2] if isinstance(part.tag, str) else ""
            if name == "loc":
                href = (part.text or "").strip() or href
            elif name == "priority":
                priority = _priority(part.text or "")
        if href:
            found.append((href, priority))
    return found


def _priority(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if 0 <= number <= 1 else None
