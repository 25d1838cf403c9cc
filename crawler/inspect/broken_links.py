"""Gathers a job's links that are broken or could not be checked, with all pages that contain them.

The records are read twice: first for redirects and for URLs with a problem, then for the links to these URLs. The
results of both passes go to a temporary SQLite database, which moves to disk when it grows, and is removed at the end.
Memory holds at most 16 MB of the database, and about 70 bytes for each URL with a problem.

``check_anchors`` finds links whose fragment does not exist in the linked page. It reads the stored bodies twice: first
for links with a fragment, then for the ids and names of elements. Memory holds one page at a time, and only its tags
are parsed. Scripts that add elements are not run.
"""

from __future__ import annotations

import re
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

import msgspec.json
from msgspec import Struct

from crawler.inspect.crawl_partitions import crawl_partitions
from crawler.inspect.export.kept_parts import KeptParts
from crawler.inspect.record_stream import final_records
from crawler.job.output import Record
from crawler.job.records import Outcome
from crawler.url.urls.canonicaliser import Canonical, Canonicaliser
from crawler.web.extract.edges import REDIRECT
from crawler.web.fetch import is_html
from crawler.web.links.encoding import as_utf8, sniff_encoding
from crawler.web.links.scan_tags import all_tags, attributes_of_tag

# Statuses with which a server may refuse crawlers, or clients that have not logged in, but not a browser.
_REFUSALS = frozenset({401, 402, 403, 407, 429, 999})
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_TOO_LONG = "(links.max_url_length)"  # end of the error message of a valid redirect that was not followed
_BUSY = "its host answered 429 or 503"  # how the error message starts when a URL is given up for this reason
_OF_ROBOTS = "robots.txt could not be fetched: "

SEED, LISTED = "seed", "sitemap"  # kinds of links that the link graph does not have
_HOPS = 50  # maximum redirects in a chain, far more than a crawl follows: a longer chain is a loop
_TARGET = re.compile(rb'^\{"from":"[^"]*","to":"([^"]*)".*\n', re.MULTILINE)
_WHY = re.compile(rb'"why":"(\w+)"\}$', re.MULTILINE)
_SCHEMA = """
    PRAGMA journal_mode = OFF;
    PRAGMA cache_size = -16384;
    CREATE TABLE urls (
        key TEXT PRIMARY KEY, url TEXT, status INT, result TEXT, reason TEXT, location TEXT, via TEXT, target TEXT
    );
    CREATE TABLE links (key TEXT, page TEXT, text TEXT, kind TEXT);
"""
_ROWS = """
    SELECT url, status, reason, page, text, kind, target, result FROM urls JOIN links USING (key)
    WHERE result = ? ORDER BY url, links.rowid
"""


class Result(StrEnum):
    """The result of checking a URL."""

    BROKEN = "broken"
    UNCHECKED = "unchecked"  # the URL may exist, but the crawler could not check it


class Verdict(NamedTuple):
    """The result of checking a URL with a problem, and the reason."""

    result: Result
    reason: str


def verdict_of(record: Record) -> Verdict | None:
    """Return the problem that the record shows for its URL; None if there is none. A redirect that was followed returns
    None, because the record of its target decides."""
    status, error = record.get("status"), str(record.get("error") or "")
    match record["outcome"]:
        case Outcome.REDIRECT:
            if not error:
                return None
            return Verdict(Result.UNCHECKED if error.endswith(_TOO_LONG) else Result.BROKEN, error)
        case Outcome.FAILED:
            unseen = error.startswith("internal:") or _BUSY in error
            return Verdict(Result.UNCHECKED if unseen else Result.BROKEN, error.removeprefix(_OF_ROBOTS))
        case Outcome.SOFT404:
            return Verdict(Result.BROKEN, "soft 404: the host sends this page for paths that do not exist")
        case Outcome.BLOCKED | Outcome.EXCLUDED:
            return Verdict(Result.UNCHECKED, error)
    if not isinstance(status, int):
        return None
    if status in _REDIRECTS:
        return Verdict(Result.BROKEN, f"{_phrase(status)}, without a target")
    if status < HTTPStatus.BAD_REQUEST:
        return None
    # The user's own site should answer every request; other sites, such as those of embedded URLs, may refuse crawlers.
    refused = status in _REFUSALS or (status == HTTPStatus.SERVICE_UNAVAILABLE and record.get("embedded") is True)
    return Verdict(Result.UNCHECKED if refused else Result.BROKEN, _phrase(status))


def _phrase(status: int) -> str:
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)


class Link(NamedTuple):
    """A link to a URL with a problem. ``page`` is the page with the link, empty for a seed. ``target`` is the final
    target if the URL is a redirect."""

    url: str
    status: int | None
    reason: str
    page: str
    text: str
    kind: str
    target: str | None
    result: str


class _Edge(Struct):
    kind: str
    text: str = ""


class Findings:
    """The problems found. ``checked`` counts URLs, ``pages`` counts pages whose links were read, and ``left_out``
    counts links that were not followed, by reason."""

    def __init__(self, rules: tuple[str, ...] = ()) -> None:
        """``rules`` are the crawl's ``canonical.rules``, by which it distinguishes URLs."""
        self.database = sqlite3.connect("")
        self.database.executescript(_SCHEMA)
        self.checked = self.pages = 0
        self.left_out = Counter[str]()
        self.key: Callable[[str], str] = partial(_key, Canonicaliser(rules)) if rules else str

    def close(self) -> None:
        self.database.close()

    def gather(self, directory: Path) -> None:
        """Read the job or crawl. Raises the exceptions of ``crawl_partitions``, ``final_records`` and ``KeptParts``."""
        jobs, not_found = crawl_partitions(directory).jobs, set[int]()
        for record in _records(jobs):
            if record["outcome"] == Outcome.SOFT404 and "digest" in record:
                not_found.add(_page(record))
            if not record.get("probe"):
                self._add(record)
        # The first soft 404s were fetched before the crawl knew the host's response to paths that do not exist.
        for record in _records(jobs) if not_found else ():
            good = record["outcome"] == Outcome.FETCHED and not record.get("probe") and verdict_of(record) is None
            if good and "digest" in record and _page(record) in not_found:
                self._set(record | {"outcome": Outcome.SOFT404})
        self._follow_redirects()
        keys = self.database.execute("SELECT key FROM urls WHERE result IS NOT NULL")
        wanted = {hash(key) for (key,) in keys}
        for job in jobs if wanted else ():
            with KeptParts(job, "links") as parts:
                for record in _records([job]):
                    if "kept" in record:
                        self._add_links(str(record["url"]), parts.of(record), wanted)
        self._add_other_ways()

    def add(self, url: str, reason: str, page: str, text: str) -> None:
        """Add a link to a fragment that does not exist in a page fetched without error."""
        row = (url, url, Result.BROKEN, reason)
        self.database.execute("INSERT OR IGNORE INTO urls (key, url, result, reason) VALUES (?, ?, ?, ?)", row)
        self.database.execute("INSERT INTO links VALUES (?, ?, ?, 'a')", (url, page, text))

    def links(self, result: Result) -> Iterator[Link]:
        """Yield the links to URLs with that result, ordered by URL."""
        return map(Link._make, self.database.execute(_ROWS, (result,)))

    def count(self, result: Result) -> int:
        """Return the number of URLs with that result to which a page links."""
        query = "SELECT count(*) FROM urls WHERE result = ? AND key IN (SELECT key FROM links)"
        return int(self.database.execute(query, (result,)).fetchone()[0])

    def target(self, key: str) -> str:
        """Return the key of a redirect's final target; if the URL does not redirect, return its own key."""
        row = self.database.execute("SELECT target FROM urls WHERE key = ?", (key,)).fetchone()
        return key if row is None or row[0] is None else self.key(row[0])

    def _add(self, record: Record) -> None:
        if record.get("visit") is None:
            self.checked += 1
            self.pages += "digest" in record  # the page's links were read
        else:
            self.database.execute("DELETE FROM urls WHERE key = ?", (self.key(str(record["url"])),))
        self._set(record)

    def _set(self, record: Record) -> None:
        url, verdict = str(record["url"]), verdict_of(record)
        key, redirects = self.key(url), record["outcome"] == Outcome.REDIRECT
        if verdict is None and not redirects:
            return
        location = record.get("location") if verdict is None else None
        row: tuple[Any, ...] = (key, url, record["status"], *(verdict or (None, None)), location, record["via"])
        self.database.execute("INSERT INTO urls VALUES (?, ?, ?, ?, ?, ?, ?, ?)", (*row, record.get("location")))

    def _follow_redirects(self) -> None:
        """Give each redirect the result of its final target."""
        update = "UPDATE urls SET status = ?, result = ?, reason = ?, target = ? WHERE key = ?"
        for key, location in self.database.execute("SELECT key, location FROM urls WHERE location IS NOT NULL"):
            self.database.execute(update, (*self._end(location), key))

    def _end(self, url: str) -> tuple[int | None, Result | None, str | None, str]:
        query = "SELECT status, result, reason, location, url FROM urls WHERE key = ?"
        for _ in range(_HOPS):
            row = self.database.execute(query, (self.key(url),)).fetchone()
            if row is None:
                return None, None, None, url
            if row[3] is None:
                status, result, reason, _, url = row
                return status, result, reason, url
            if self.key(row[3]) == self.key(url):
                return None, Result.UNCHECKED, "redirects to itself, perhaps to set a cookie, which is ignored", url
            url = row[3]
        return None, Result.BROKEN, "redirect loop", url

    def _add_links(self, page: str, edges: bytes, wanted: set[int]) -> None:
        self.left_out.update(why.decode("ascii") for why in _WHY.findall(edges))
        for found in _TARGET.finditer(edges):
            # Most links lead to other URLs than the wanted ones; decoding all of them would take minutes.
            key = self.key(found[1].decode("ascii"))
            if hash(key) in wanted:
                edge = msgspec.json.decode(found[0], type=_Edge)
                if edge.kind != REDIRECT:
                    row = (key, page, edge.text, edge.kind)
                    self.database.execute("INSERT INTO links VALUES (?, ?, ?, ?)", row)

    def _add_other_ways(self) -> None:
        """Add seeds and sitemaps as links to URLs that no page links to. Targets of redirects are left out: they are
        reported with the redirect."""
        self.database.execute("CREATE INDEX by_key ON links (key)")
        self.database.execute(
            "INSERT INTO links SELECT key, '', '', ? FROM urls WHERE via IS NULL AND result IS NOT NULL", (SEED,)
        )
        self.database.execute(
            """INSERT INTO links SELECT key, via, '', ? FROM urls AS found WHERE result IS NOT NULL
            AND key NOT IN (SELECT key FROM links)
            AND NOT EXISTS (SELECT 1 FROM urls WHERE url = found.via AND location IS NOT NULL)""",
            (LISTED,),
        )


def _records(jobs: Iterable[Path]) -> Iterator[Record]:
    return (record for job in jobs for record, _ in final_records(job))


def _page(record: Record) -> int:
    """Return a hash that is equal for pages of one host with the same body."""
    return hash((urlsplit(str(record["url"])).netloc, record["digest"]))


def _key(canonicaliser: Canonicaliser, url: str) -> str:
    found = canonicaliser.canonicalise(url)
    return found.key if isinstance(found, Canonical) else url


_TEXT_MOST = 200  # maximum number of characters kept of the text after a link's tag
_DIRECTIVE = ":~:"  # starts a fragment directive, such as words to search for
_DROPPED = dict.fromkeys(map(ord, "\t\r\n"))  # browsers remove these anywhere in a URL
_ROUTES = ("!", "/")  # a fragment with this prefix is for a script


def check_anchors(directory: Path, findings: Findings) -> None:
    """Add to the findings the job's links whose fragment does not exist. Raises the exceptions of ``final_records``."""
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
            continue  # an error page lacks the fragments that the real page may have
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
    """Return the page's base URL, and those of its links whose fragment must exist, each with the fragment and the text
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
