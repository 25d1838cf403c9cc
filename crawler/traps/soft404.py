"""Soft 404s: the page with which a host answers paths that do not exist, sent with a status that says they do.

If such a page has links relative to its own address, each of them leads to another one, without end. The page of each
host is learned by itself:

    the same page under three URLs       of different shapes, with links, whatever it says: it is *suspected*
    one request, the probe               for a path beside one of them that cannot exist
    answered with the same page          it is *learned*: from now on its links are left out
    answered with anything else          these pages are real; the suspicion is never raised again

Two pages are the same if their bytes are, without white space and without the URL of each, and if their links are, as
they are written. So a page with a link of its own is never taken for another. The home page is never a soft 404: where
it is the same too, the host is a single-page application, which sends one page for all paths.

    host 00 fingerprint  ->  state home probe

``HOST_MOST`` rows for each host bound the probes and the disk; the pages that were met lately are in memory.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from hashlib import blake2b
from html import escape
from itertools import pairwise
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from crawler.frontier import Entry
from crawler.kv import Batch, Family, Reader
from crawler.settings import TrapSettings
from crawler.traps.copies import Content, content_digest
from crawler.traps.shape import path_shape
from crawler.urls import host_key

URLS = 3  # with the same page, of two shapes or more, raise a suspicion
HOST_MOST = 8  # suspicions a host
HOSTS_KEPT = 20_000  # in memory, about 300 bytes each
GROUPS_KEPT = 20_000  # pages in memory that may be the same under several URLs, about 400 bytes each
GROUPS_A_HOST = 64
BODY_MOST = 2**20  # bytes of a page; no host says "not found" in more
NAMED_MOST = 200  # times that a page may name its own URL
SIZE = 16  # of a fingerprint
_PROBE = "this-page-does-not-exist-"
_HEAD = 2
_LETTERS = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-%")
_WORD_LEAST = 4  # characters of a path that is looked for without its slash


class Soft404RecordError(ValueError):
    """Stored bytes are not a suspicion."""


class State(IntEnum):
    """The state of a suspicion. The numbers are stored and never reused."""

    PROBED = 0  # the probe is queued, or was answered with another page
    LEARNED = 1


class PageKind(IntEnum):
    """What a page is."""

    PAGE = 0
    NOT_FOUND = 1
    APPLICATION = 2  # the one page of a single-page application


class Row(NamedTuple):
    """A suspicion. ``home``: the home page of the host is the same. ``probe`` is the href that was asked for."""

    state: State
    home: bool
    probe: str

    @property
    def kind(self) -> PageKind:
        if self.state is State.PROBED:
            return PageKind.PAGE
        return PageKind.APPLICATION if self.home else PageKind.NOT_FOUND


class Lesson(NamedTuple):
    """What a page has taught: a row for the transaction that finishes it. ``probe`` is to be queued in it, if the
    suspicion is new; otherwise ``kind`` is what the host's page turned out to be."""

    host: str
    fingerprint: bytes
    row: Row
    probe: str | None = None

    def put(self, batch: Batch) -> None:
        batch.put(Family.SOFT404, _key(self.host, self.fingerprint), encode_row(self.row))


class Judgement(NamedTuple):
    """What a page is, and what it has taught."""

    kind: PageKind
    lesson: Lesson | None = None


A_PAGE = Judgement(PageKind.PAGE)


class Print(NamedTuple):
    """What identifies a page. ``named``: it names its own URL, which was taken out."""

    fingerprint: bytes
    named: bool


@dataclass(slots=True)
class _Group:
    """Some URLs with the same page, of as many shapes as possible."""

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
        """Whether they have different shapes."""
        return len({path_shape(href) for href in self.hrefs}) > 1


@dataclass(slots=True)
class _Host:
    rows: dict[bytes, Row]
    groups: dict[bytes, _Group] = field(default_factory=dict)  # the least recently met first


class Soft404:
    """The soft 404s of all hosts of a job."""

    def __init__(self, settings: TrapSettings, store: Reader) -> None:
        self._settings = settings
        self._store = store
        self._hosts: OrderedDict[str, _Host] = OrderedDict()  # the least recently met first
        self._groups = 0  # of all hosts

    def judge(self, entry: Entry, body: bytes, hrefs: Sequence[str], content: Content | None) -> Judgement:
        """Return what the page of the entry is, and what it teaches about its host. ``hrefs`` are its links as they are
        written, ``content`` its marks, with its original if it is a copy. Raises Soft404RecordError."""
        if entry.probe:
            return self._probed(entry, body, hrefs, content)
        if not self._settings.soft404 or len(body) > BODY_MOST:
            return A_PAGE
        name = host_key(entry.href)
        host = self._host(name)
        original = None if content is None else content.duplicate_of
        own = names_itself(body, entry.href)
        if not (host.rows or own or original is not None or content is None):
            return A_PAGE  # nothing like it was met on this host
        fingerprint = fingerprint_of(entry.href, body, hrefs, content)
        row = host.rows.get(fingerprint)
        if row is not None:
            return self._known(entry, fingerprint, row)
        if entry.revisit or not hrefs or len(host.rows) >= HOST_MOST:
            return A_PAGE  # what has no links leads nowhere
        return self._met(entry, fingerprint, None if own else original)

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
        return Judgement(PageKind.PAGE, self._keep(name, fingerprint, Row(State.PROBED, group.home, probe), probe))

    def _probed(self, entry: Entry, body: bytes, hrefs: Sequence[str], content: Content | None) -> Judgement:
        """The answer to a probe: whatever it is, it is no page."""
        if len(body) > BODY_MOST:
            return Judgement(PageKind.NOT_FOUND)
        name = host_key(entry.href)
        fingerprint = fingerprint_of(entry.href, body, hrefs, content)
        row = self._host(name).rows.get(fingerprint)
        if row is None or row.state is not State.PROBED:
            return Judgement(PageKind.NOT_FOUND)
        return Judgement(PageKind.NOT_FOUND, self._keep(name, fingerprint, row._replace(state=State.LEARNED)))

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
        """Count one more group of the host, which was met last."""
        self._groups += 1
        if len(host.groups) >= GROUPS_A_HOST:
            del host.groups[next(iter(host.groups))]
            self._groups -= 1
        while self._groups > GROUPS_KEPT:
            self._forget_host()

    def _forget_host(self) -> None:
        _, host = self._hosts.popitem(last=False)
        self._groups -= len(host.groups)


def fingerprint_of(href: str, body: bytes, hrefs: Sequence[str], content: Content | None = None) -> bytes:
    """What identifies a page: its bytes without white space and without its own URL, and its links as written, but for
    those to itself. ``content`` are its marks, if they are known."""
    own = without_own_url(body, href)
    digest = content.digest if content is not None and own is body else content_digest(own)
    forms = {form.decode("utf-8", "replace") for form in _forms(href)} | {href}
    linked = "\n".join([link for link in hrefs if link not in forms])
    return blake2b(digest + linked.encode("utf-8", "surrogatepass"), digest_size=SIZE).digest()


def names_itself(body: bytes, href: str) -> bool:
    """Whether the body may contain the URL of its page."""
    absent: list[bytes] = []
    for form in reversed(_forms(href)):  # a form that contains an absent one is absent too
        if any(part in form for part in absent):
            continue
        if form in body:
            return True
        absent.append(form)
    return False


def without_own_url(body: bytes, href: str) -> bytes:
    """The body without the path of its own URL, with and without the query, as it is sent, decoded or escaped; the same
    object if it names none."""
    for form in _forms(href):
        if form in body:
            body = _without(body, form)
    return body


def _forms(href: str) -> Sequence[bytes]:
    """How a page may write the path of its own URL, the longest first."""
    target = href[href.find("/", 8) :]
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
    """The body without the form, where it is not part of a longer path or word."""
    if body.count(form) > NAMED_MOST:
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
    """The URL of a path that cannot exist, in the directory of the path, with the same ending."""
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
    """The stored form of a suspicion."""
    return bytes([row.state, row.home]) + row.probe.encode("ascii")


def decode_row(key: bytes, value: bytes) -> tuple[str, bytes, Row]:
    """(host, fingerprint, suspicion) of a row; raises Soft404RecordError."""
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
    """Raises Soft404RecordError for a row that is not a suspicion."""
    decode_row(key, value)


def stored_rows(store: Reader, name: str) -> list[tuple[bytes, Row]]:
    """The suspicions of a host, by fingerprint. Raises Soft404RecordError."""
    start = name.encode("ascii") + b"\0"
    rows = store.scan(Family.SOFT404, start, start[:-1] + b"\1", HOST_MOST)
    return [decode_row(*row)[1:] for row in rows]


def _key(name: str, fingerprint: bytes) -> bytes:
    return name.encode("ascii") + b"\0" + fingerprint


def explain_rows(store: Reader, href: str) -> list[str]:
    """Sentences about the soft 404s of the URL's host. Raises Soft404RecordError."""
    said = []
    for _, row in stored_rows(store, host_key(href)):
        if row.probe == href:
            said.append(
                "This path was made up by the crawler, to learn what the host sends for one that does not exist."
            )
        match row.kind:
            case PageKind.NOT_FOUND:
                said.append(
                    f"Its host sends one page for paths that do not exist, with a good status: see {row.probe}."
                )
            case PageKind.APPLICATION:
                said.append(
                    f"Its host sends its home page for every path, as single-page applications do: see {row.probe}."
                )
            case _:
                said.append(f"Its host sends one page for several paths; {row.probe} asks whether for every path.")
    return said
