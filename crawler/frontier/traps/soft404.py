"""Soft 404s: the page that a host sends with a success status for paths that do not exist.

If such a page has links relative to its own address, each link leads to another such page, without end. The page of
each host is learned in these steps:

    several URLs have the same page      with links and of different shapes, regardless of its text: it is *suspected*
    one request, the probe               for a path next to one of them that cannot exist
    the probe gets the same page         the page is *learned*: from then on its links are left out
    the probe gets anything else         these pages are real; the suspicion is never raised again

Two pages are the same if they show the same text, apart from white space, numbers and their own URLs, and if their
links are the same as written. A page may therefore show the time or have a secret in a form, and a page with a link of
its own is never mistaken for another. The home page is never a soft 404: if it is also the same page, the host is a
single-page application, which sends one page for all paths.

Links are compared first: the text of a page is examined only if its links were seen before on its host.

    host 00 fingerprint  ->  state home probe          fingerprint = digest of the links, digest of the text

At most ``HOST_MOST`` rows per host bound the probes and the disk space; the pages seen most recently are in memory.
"""

from __future__ import annotations

import re
from array import array
from collections import OrderedDict
from collections.abc import Sequence
from enum import IntEnum
from functools import partial
from hashlib import blake2b
from itertools import pairwise
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

import numpy as np
from msgspec import Struct, field

from crawler.base.kv import Batch, Family, Reader
from crawler.base.settings.parts import TrapSettings
from crawler.frontier.entry import Entry
from crawler.frontier.traps.copies import Content
from crawler.frontier.traps.shape import path_shape
from crawler.url.urls.host_key import host_key

URLS = 3  # URLs with the same page, of two shapes or more, raise a suspicion; for one, only the links may be known
HOST_MOST = 8  # suspicions per host
HOSTS_KEPT = 20_000  # hosts in memory, about 500 bytes each
LINKS_KEPT = 16  # hashes of links kept per host
APPLICATION_MOST = 2**15  # largest page of a single-page application, in bytes
LINKS_MOST = 4_096  # maximum number of links of a page; no "not found" page has more
GROUPS_KEPT = 20_000  # pages in memory that may be the same under several URLs, about 400 bytes each
GROUPS_A_HOST = 64
BODY_MOST = 2**18  # maximum size of a page in bytes; no larger page is a soft 404
NAMED_MOST = 200  # maximum number of occurrences of its own URL that are removed from a page
SIZE = 16  # size of a fingerprint in bytes
_HALF = 8
_PROBE = "this-page-does-not-exist-"
_HEAD = 2
_LETTERS = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-%")
_WORD_LEAST = 4  # least length of a path that is also searched for without its slash
_PLAIN = re.compile(r"[\w./~-]*", re.A)  # a path that has only one spelling
_HIDDEN = re.compile(rb"<(script|style)\b", re.I)  # elements whose content is not shown
_AFTER = np.uint8(ord(">"))
_NOT_COMPARED = b"<> \t\n\r\f0123456789"


class Soft404RecordError(ValueError):
    """Raised when a stored row is not a suspicion."""


class State(IntEnum):
    """The state of a suspicion. The numbers are stored and never reused."""

    PROBED = 0  # the probe is queued, or got another page
    LEARNED = 1


class PageKind(IntEnum):
    """The kind of a page."""

    PAGE = 0
    NOT_FOUND = 1
    APPLICATION = 2  # the single page of a single-page application


class Row(NamedTuple):
    """A suspicion. ``home`` is True if the host's home page is this page too; ``probe`` is the requested href."""

    state: State
    home: bool
    probe: str

    @property
    def kind(self) -> PageKind:
        if self.state is State.PROBED:
            return PageKind.PAGE
        return PageKind.APPLICATION if self.home else PageKind.NOT_FOUND


class Lesson(Struct, frozen=True):
    """A row for the transaction that finishes a page, learned from that page.

    ``probe`` is set if the suspicion is new, and is to be queued in the same transaction. Otherwise the row records the
    kind of the host's page.
    """

    host: str
    fingerprint: bytes
    row: Row
    probe: str | None = None

    def put(self, batch: Batch) -> None:
        batch.put(Family.SOFT404, _key(self.host, self.fingerprint), encode_row(self.row))


class Judgement(Struct, frozen=True):
    """The kind of a page, and the lesson to store, if any."""

    kind: PageKind
    lesson: Lesson | None = None


A_PAGE = Judgement(PageKind.PAGE)


class _Group(Struct):
    """URLs that have the same page, of as many different shapes as possible."""

    hrefs: list[str] = field(default_factory=list)
    home: bool = False

    def add(self, href: str) -> None:
        if _is_home(href):
            self.home = True
        if _is_home(href) or href in self.hrefs:
            return
        if len(self.hrefs) < URLS:
            self.hrefs.append(href)
        elif not self.is_odd and path_shape(href) != path_shape(self.hrefs[0]):
            self.hrefs[-1] = href

    @property
    def is_odd(self) -> bool:
        """True if the URLs have different shapes."""
        return len({path_shape(href) for href in self.hrefs}) > 1


class _Host(Struct):
    rows: dict[bytes, Row]
    links: array[int] = field(default_factory=partial(array, "q"))  # hashes of its pages' links, newest last
    groups: dict[bytes, _Group] = field(default_factory=dict)  # least recently seen first
    home: tuple[bytes, ...] = ()  # fingerprints of its home page

    def knows(self, links: bytes) -> bool:
        """Return True if a page with these links was seen before, and remember them."""
        mark = hash(links)  # a digest would cost more than everything else here, and few pages match
        if mark in self.links or (self.rows and _digest(links) in {fingerprint[:_HALF] for fingerprint in self.rows}):
            return True
        self.links.append(mark)
        del self.links[:-LINKS_KEPT]
        return False


class Soft404:
    """The soft 404s of all hosts of a job."""

    def __init__(self, settings: TrapSettings, store: Reader) -> None:
        self._settings = settings
        self._store = store
        self._hosts: OrderedDict[str, _Host] = OrderedDict()  # least recently seen first
        self._groups = 0  # total of all hosts

    def judge(self, entry: Entry, body: bytes, hrefs: Sequence[str], content: Content | None) -> Judgement:
        """Classify the page of the entry, and return what was learned about its host.

        ``hrefs`` are its links as written, and ``content`` its fingerprints, with its original if it is a copy. Raises
        Soft404RecordError.
        """
        if entry.probe:
            return self._probed(entry, body, hrefs)
        if not self._settings.soft404 or len(body) > BODY_MOST or not 0 < len(hrefs) <= LINKS_MOST:
            return A_PAGE  # a page without links leads nowhere
        host = self._host(host_key(entry.href))
        original = None if content is None else content.duplicate_of
        forms = _forms_of_links(entry.href, hrefs)
        links = [form for form in forms if host.knows(form) or original is not None]
        is_home = _is_home(entry.href) and len(body) <= APPLICATION_MOST
        if not (links or is_home):
            return A_PAGE  # its links are new on this host
        text = text_digest(entry.href, body)
        prints = [_digest(form) + text for form in links]
        if is_home and not host.home:
            host.home = tuple(_digest(form) + text for form in forms)
        for fingerprint in prints:
            row = host.rows.get(fingerprint)
            if row is not None:
                return self._known(entry, fingerprint, row)
        if entry.revisit:
            return A_PAGE
        judged = A_PAGE
        for fingerprint in prints:
            if judged is A_PAGE and len(host.rows) < HOST_MOST:
                judged = self._met(entry, fingerprint, original)
        return judged

    def _known(self, entry: Entry, fingerprint: bytes, row: Row) -> Judgement:
        if _is_home(entry.href):
            if row.home:
                return A_PAGE
            return Judgement(PageKind.PAGE, self._keep(host_key(entry.href), fingerprint, row._replace(home=True)))
        return A_PAGE if entry.seed else Judgement(row.kind)

    def _met(self, entry: Entry, fingerprint: bytes, original: str | None) -> Judgement:
        name = host_key(entry.href)
        host = self._host(name)
        group = host.groups.pop(fingerprint, None)
        if group is None:
            group = _Group()
            self._make_room(host)
        host.groups[fingerprint] = group
        if original is not None:
            group.add(original)
        group.add(entry.href)
        if len(group.hrefs) < URLS or not group.is_odd:
            return A_PAGE
        probe = probe_beside(group.hrefs[-1], fingerprint)
        del host.groups[fingerprint]
        self._groups -= 1
        home = group.home or fingerprint in host.home
        return Judgement(PageKind.PAGE, self._keep(name, fingerprint, Row(State.PROBED, home, probe), probe))

    def _probed(self, entry: Entry, body: bytes, hrefs: Sequence[str]) -> Judgement:
        """Judge the response to a probe, which is never a page."""
        if len(body) > BODY_MOST or len(hrefs) > LINKS_MOST:
            return Judgement(PageKind.NOT_FOUND)
        name, text = host_key(entry.href), text_digest(entry.href, body)
        for links in _forms_of_links(entry.href, hrefs):
            fingerprint = _digest(links) + text
            row = self._host(name).rows.get(fingerprint)
            if row is not None and row.state is State.PROBED:
                return Judgement(PageKind.NOT_FOUND, self._keep(name, fingerprint, row._replace(state=State.LEARNED)))
        return Judgement(PageKind.NOT_FOUND)

    def _keep(self, name: str, fingerprint: bytes, row: Row, probe: str | None = None) -> Lesson:
        self._host(name).rows[fingerprint] = row
        return Lesson(name, fingerprint, row, probe)

    def _host(self, name: str) -> _Host:
        host = self._hosts.get(name)
        if host is None:
            self._hosts[name] = host = _Host(dict(stored_rows(self._store, name)))
            if len(self._hosts) > HOSTS_KEPT:
                self._forget_host()
        else:
            self._hosts.move_to_end(name)
        return host

    def _make_room(self, host: _Host) -> None:
        """Count one more group of this host, which becomes the latest used, and evict other groups if necessary."""
        self._groups += 1
        if len(host.groups) >= GROUPS_A_HOST:
            del host.groups[next(iter(host.groups))]
            self._groups -= 1
        while self._groups > GROUPS_KEPT:
            self._forget_host()

    def _forget_host(self) -> None:
        _, host = self._hosts.popitem(last=False)
        self._groups -= len(host.groups)


def _forms_of_links(href: str, hrefs: Sequence[str]) -> list[bytes]:
    """Return the identities of a page's links.

    These are the links as written and, if some of them name the page itself, the links without its URL.
    """
    written = "\n".join(hrefs).encode("utf-8", "surrogatepass")
    path = href[href.find("/", 8) :]
    if _PLAIN.fullmatch(path) and (path == "/" or path[1:].encode("ascii") not in written):
        return [written]  # the usual case: its own URL does not occur in them
    without = without_own_url(written, href)
    return [written] if without is written else [written, without]


def text_digest(href: str, body: bytes) -> bytes:
    """Return an 8-byte digest of the text that a page shows, ignoring white space, numbers and its own URL."""
    data = np.frombuffer(without_hidden(without_own_url(body, href)), np.uint8)
    # A byte is inside a tag if the last of "<" and ">" up to it is a "<".
    marks = np.flatnonzero((data | 2) == _AFTER)
    last = np.repeat(np.append(_AFTER, data[marks]), np.diff(marks, prepend=0, append=len(data)))
    return _digest(data[last == _AFTER].tobytes().translate(None, _NOT_COMPARED))


def without_hidden(body: bytes) -> bytes:
    """Return the body without its scripts and style sheets."""
    kept, at, lower = [], 0, b""
    while found := _HIDDEN.search(body, at):
        lower = lower or body.lower()
        end = lower.find(b"</" + found[1].lower(), found.end())
        kept.append(body[at : found.start()])
        at = len(body) if end < 0 else end
    kept.append(body[at:])
    return b"".join(kept)


def _digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=_HALF).digest()


def without_own_url(body: bytes, href: str) -> bytes:
    """Remove the path of the page's own URL from the body, with and without the query, as sent, decoded or escaped.

    Returns the same object if the body does not contain it.
    """
    for form in _forms(href):
        body = _without(body, form)
    return body


def _forms(href: str) -> Sequence[bytes]:
    """Return the spellings that a page may use for the path of its own URL, longest first."""
    target = href[href.find("/", 8) :]
    if _PLAIN.fullmatch(target) and len(target) > _WORD_LEAST:
        form = target.encode("ascii")  # the usual case: one spelling only
        return [form, form[1:]]
    from html import escape  # noqa: PLC0415, with its table of entities

    path = target.partition("?")[0]
    forms: set[bytes] = set()
    for text in {target, path} - {"/"}:
        plain = unquote_to_bytes(text)
        for form in (text.encode("ascii"), plain):
            forms.add(form)
            forms.add(escape(form.decode("latin-1")).encode("latin-1"))
            if len(form) > _WORD_LEAST:
                forms.add(form[1:])
    return sorted(forms, key=lambda form: (-len(form), form))


def _without(body: bytes, form: bytes) -> bytes:
    """Remove the form from the body, except where it is part of a longer path or word."""
    if not 0 < body.count(form) <= NAMED_MOST:
        return body
    parts = body.split(form)
    made = [parts[0]]
    word = form[0] != ord("/")
    for before, after in pairwise(parts):
        whole = after[:1] and after[0] in _LETTERS and form[-1] in _LETTERS
        if whole or (word and before and (before[-1] in _LETTERS or before[-1] == ord("/"))):
            made.append(form)
        made.append(after)
    return b"".join(made)


def probe_beside(href: str, fingerprint: bytes) -> str:
    """Return a URL that cannot exist, in the same directory and with the same ending as the given one."""
    start = href.find("/", 8)
    path = href[start:].partition("?")[0]
    slash = "/" if path.endswith("/") else ""
    directory, _, last = path.removesuffix("/").rpartition("/")
    dot, ending = last[last.rfind(".") :][:1], last[last.rfind(".") + 1 :]
    ending = f".{ending}" if dot == "." and ending.isascii() and ending.isalnum() and len(ending) <= 5 else ""
    name = blake2b(href.encode("ascii") + fingerprint, digest_size=8).hexdigest()
    return f"{href[:start]}{directory}/{_PROBE}{name}{ending}{slash}"


def _is_home(href: str) -> bool:
    return href.find("/", 8) == len(href) - 1


def encode_row(row: Row) -> bytes:
    """Encode a suspicion for the store."""
    return bytes([row.state, row.home]) + row.probe.encode("ascii")


def decode_row(key: bytes, value: bytes) -> tuple[str, bytes, Row]:
    """Return (host, fingerprint, suspicion) of a row; raises Soft404RecordError."""
    host, fingerprint = key[: -SIZE - 1], key[-SIZE:]
    try:
        row = Row(State(value[0]), bool(value[1]), value[_HEAD:].decode("ascii"))
        name = host.decode("ascii")
    except (ValueError, IndexError) as error:
        raise Soft404RecordError(f"not a suspicion of a soft 404: {error}") from error
    if (
        key[-SIZE - 1 : -SIZE] != b"\0"
        or value[1] > 1
        or not row.probe.startswith("http")
        or host_key(row.probe) != name
    ):
        raise Soft404RecordError("not a suspicion of a soft 404")
    return name, fingerprint, row


def check_soft404(key: bytes, value: bytes) -> None:
    """Raise Soft404RecordError if a row is not a suspicion."""
    decode_row(key, value)


def stored_rows(store: Reader, name: str) -> list[tuple[bytes, Row]]:
    """Return the suspicions of a host, with their fingerprints. Raises Soft404RecordError."""
    start = name.encode("ascii") + b"\0"
    rows = store.scan(Family.SOFT404, start, start[:-1] + b"\1", HOST_MOST)
    return [decode_row(*row)[1:] for row in rows]


def _key(name: str, fingerprint: bytes) -> bytes:
    return name.encode("ascii") + b"\0" + fingerprint


def explain_rows(store: Reader, href: str) -> list[str]:
    """Return sentences about the soft 404s of the URL's host. Raises Soft404RecordError."""
    said = []
    for _, row in stored_rows(store, host_key(href)):
        if row.probe == href:
            said.append("The crawler made up this path to learn what the host sends for paths that do not exist.")
        match row.kind:
            case PageKind.NOT_FOUND:
                said.append(
                    f"Its host sends one page with a success status for paths that do not exist: see {row.probe}."
                )
            case PageKind.APPLICATION:
                said.append(
                    f"Its host sends its home page for every path, as single-page applications do: see {row.probe}."
                )
            case _:
                said.append(f"Its host sends one page for several paths; the probe is {row.probe}.")
    return said
