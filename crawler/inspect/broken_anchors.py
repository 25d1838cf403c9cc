"""Finds links whose fragment does not exist in the linked page.

The pages are read from the stored bodies, twice: for their fragments, and for the ids and names of their elements.
Memory holds one page at a time, and only its tags are parsed. Scripts that add elements are not run.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

from crawler.inspect.broken_links import Findings, verdict_of
from crawler.inspect.record_stream import final_records
from crawler.job.output import Record
from crawler.job.records import Outcome
from crawler.url.urls.canonicaliser import Canonical, Canonicaliser
from crawler.web.fetch import is_html
from crawler.web.links.encoding import as_utf8, sniff_encoding
from crawler.web.links.tags import all_tags, attributes_of_tag

_TEXT_MOST = 200  # characters
_DIRECTIVE = ":~:"  # starts a fragment directive, such as a text to search for
_DROPPED = dict.fromkeys(map(ord, "\t\r\n"))  # browsers remove these anywhere in a URL
_ROUTES = ("!", "/")  # a fragment with this prefix is for a script


def check_anchors(directory: Path, findings: Findings) -> None:
    """Add the links of the job whose fragment does not exist. Raises the exceptions of ``final_records``."""
    database, canonicaliser = findings.database, Canonicaliser()
    database.execute("CREATE TABLE fragments (target TEXT, fragment TEXT, page TEXT, text TEXT)")
    for record, html in _pages(directory):
        page = str(record["url"])
        base, fragments = _fragments(html)
        stated = canonicaliser.canonicalise(base, page)
        for href, (fragment, text) in fragments.items():
            url = canonicaliser.canonicalise(href, stated.href if base and isinstance(stated, Canonical) else page)
            if isinstance(url, Canonical):
                row = (findings.key(url.href), fragment, page, text)
                database.execute("INSERT INTO fragments VALUES (?, ?, ?, ?)", row)
    database.execute("CREATE INDEX by_target ON fragments (target)")
    database.execute("CREATE TABLE targets AS SELECT DISTINCT target FROM fragments")
    for (key,) in database.execute("SELECT target FROM targets"):
        if (end := findings.target(key)) != key:
            database.execute("UPDATE fragments SET target = ? WHERE target = ?", (end, key))
    for record, html in _pages(directory):
        if verdict_of(record) is not None:
            continue  # an error page does not have the fragments of the real page
        target, names = str(record["url"]), None
        for fragment, origin, text in database.execute(
            "SELECT fragment, page, text FROM fragments WHERE target = ?", (findings.key(target),)
        ):
            names = names or _names(html)
            if "body_cut" not in record and names.isdisjoint((fragment, unquote(fragment))):
                findings.add(f"{target}#{fragment}", "no element of the page has this id or name", origin, text)


def _pages(directory: Path) -> Iterator[tuple[Record, bytes | bytearray]]:
    """Yield the site's pages with their bodies, in UTF-8."""
    for record, _ in final_records(directory):
        kind, charset = record.get("content_type"), record.get("charset")
        good = record["outcome"] == Outcome.FETCHED and not record.get("embedded")
        if good and "body" in record and isinstance(kind, str) and is_html(kind):
            body = (directory / str(record["body"])).read_bytes()
            encoding = sniff_encoding(body, charset if isinstance(charset, str) else None)
            yield record, body if encoding == "utf-8" else as_utf8(body, encoding)


def _fragments(html: bytes | bytearray) -> tuple[str, dict[str, tuple[str, str]]]:
    """Return the page's base URL, and its links with a fragment that must exist, each with the fragment and the text
    after the tag."""
    found: dict[str, tuple[str, str]] = {}
    base, at = "", 0
    for tag in all_tags(html):
        name = tag[1:6].lower()
        if name.startswith(b"base") and not base:
            base = attributes_of_tag(tag).get("href", "")
        if b"#" not in tag or not name.startswith((b"a ", b"a\n", b"a\t", b"a\r", b"area")):
            continue
        href = attributes_of_tag(tag).get("href", "").translate(_DROPPED).strip()
        fragment = href.partition("#")[2].partition(_DIRECTIVE)[0]
        if fragment and fragment.lower() != "top" and not fragment.startswith(_ROUTES):
            at = max(at, html.find(tag, at))
            text = bytes(html[at + len(tag) : at + len(tag) + 4 * _TEXT_MOST]).partition(b"<")[0]
            found.setdefault(href, (fragment, " ".join(text.decode("utf-8", "ignore").split())[:_TEXT_MOST]))
    return base, found


def _names(html: bytes | bytearray) -> set[str]:
    """Return the ids and names that fragments of the page may refer to."""
    found: set[str] = set()
    for tag in all_tags(html):
        attributes = attributes_of_tag(tag)
        found.update(attributes[each] for each in ("id", "name") if each in attributes)
    return found
