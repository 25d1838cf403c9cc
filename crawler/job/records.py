"""The two stored forms of a finished URL: the record that users read, and the journal event that makes it final.

The record is one JSON object on a line of ``pages.jsonl``. The journal event does not repeat its fields. It holds the
record's position and checksum in each output, and the entry, so that the URL can be requeued if a power loss removed
the record.
"""

from __future__ import annotations

import codecs
import json
import math
import zlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from functools import lru_cache
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec.json
from msgspec import Struct, to_builtins

from crawler.base.kv import Family, Reader
from crawler.base.settings.parts import LEAF, OUTPUTS
from crawler.frontier.entry import Entry, EntryError, decode_entry, encode_entry
from crawler.frontier.request_outcome import HostResult
from crawler.frontier.traps.copies import Content
from crawler.job.metrics.catalogue import URL_KINDS, Counters
from crawler.url.consent.statements import NOTHING_STATED, Stated
from crawler.url.refusal.forbidden_targets import Refusal, Rule
from crawler.url.scope.boundary import Outside
from crawler.url.scope.bounds import Limit

DIGEST_SIZE = 16  # bytes per key in the journal
T = TypeVar("T")


class Outcome(StrEnum):
    """The outcome of a visit to a URL."""

    FETCHED = "fetched"  # a complete response that is not a redirect
    REDIRECT = "redirect"
    FAILED = "failed"  # no complete response after all tries
    EXCLUDED = "excluded"  # refused by robots.txt, a limit or a trap
    SOFT404 = "soft404"  # the page that its host sends for nonexistent paths
    BLOCKED = "blocked"  # a page shown instead of the requested one: a challenge, a denial, a login
    PAYMENT = "payment"  # status 402: the host requires payment for the page


_FAILED = URL_KINDS.index("failed")
_KINDS: dict[str, int] = {
    Outcome.REDIRECT: 1,
    Outcome.SOFT404: 4,
    Outcome.BLOCKED: 6,
    Outcome.PAYMENT: 6,
    Outcome.EXCLUDED: 7,
}


def url_kind(outcome: str, status: int | None) -> int:
    """Return the index in ``URL_KINDS`` of a URL whose last visit ended with this outcome and status."""
    if outcome != Outcome.FETCHED:
        return _KINDS.get(outcome, _FAILED)
    return 0 if status is None or status < 400 else 3 if status < 500 else 2


def ended(entry: Entry, kind: int) -> Entry:
    """Return the entry for the next visit, after one that ended as ``kind`` (``url_kind``)."""
    return entry if kind == entry.last else entry._replace(last=kind)


class Exchanged(NamedTuple):
    """The last exchange of a URL; None means unknown or not wanted. ``seconds`` is its duration, ``tries`` the number
    of requests of this visit, ``address`` the address that answered or was dialled. ``headers`` are the headers
    selected by a setting, by lower-case name."""

    etag: str | None = None
    last_modified: str | None = None
    address: str | None = None
    seconds: float | None = None
    tries: int | None = None
    headers: Mapping[str, str] | None = None


class Profile(NamedTuple):
    """Properties of a page; None means unknown or not wanted. ``detected_language`` is detected from its text,
    ``language`` is declared. ``canonical`` is an absolute URL. The page was decoded with ``charset``.
    ``payload_digest`` is the digest of the whole body after content decoding."""

    title: str | None = None
    language: str | None = None
    detected_language: str | None = None
    canonical: str | None = None
    charset: str | None = None
    payload_digest: str | None = None


class RenderedAs(NamedTuple):
    """How a browser rendered a page. ``state``: ``yes``, or ``partly`` if a needed resource was refused or rendering
    was cut short. ``milliseconds`` of CPU. ``why``: the reason for rendering (``RenderFor``)."""

    state: str
    engine: str
    milliseconds: int
    why: str


NO_EXCHANGE = Exchanged()
NO_PROFILE = Profile()


class PageRecord(Struct):
    """One finished URL, filled in by the steps of its visit.

    ``fetched_at`` is in seconds since 1970; ``size`` is the body's bytes after content decoding, None if no body was
    read. ``links`` counts the distinct outlinks of a page; ``links_cut``: the page has more links than the crawler
    takes from one page. ``visit`` is 1 for the first visit. ``changed`` is the result of a later visit: None if there
    is nothing to compare. ``gone``: the page was missing so often that it is not visited again. ``refusal``: the
    built-in rule that excluded the URL. ``robots`` are the directives of the page for this crawler. ``consent`` is what
    the site states about uses of the page, ``license`` the URL of its terms (RSL). ``id`` and ``data``: the page's name
    for the user's code, and the code's result; ``data_error``: why the code failed. ``score``: the page's relevance
    from 0 to 1 according to other code of the user. ``price``: what the host charges for the page, in its own words.
    ``truncated``: see ``Response``. ``needs_scripts``: signs that a page of the site needs its scripts. ``rendered``:
    None if no browser rendered it."""

    entry: Entry
    outcome: Outcome
    fetched_at: float
    status: int | None = None
    error: str | None = None
    content_type: str | None = None
    size: int | None = None
    links: int = 0
    location: str | None = None
    links_cut: bool = False
    content: Content | None = None
    visit: int = 1
    changed: bool | None = None
    refusal: Refusal | None = None
    robots: tuple[str, ...] = ()
    consent: Stated = NOTHING_STATED
    license: str | None = None
    gone: bool = False
    exchanged: Exchanged = NO_EXCHANGE
    profile: Profile = NO_PROFILE
    id: str | None = None
    data: Mapping[str, Any] | None = None
    data_error: str | None = None
    score: float | None = None
    price: str | None = None
    truncated: str | None = None
    needs_scripts: tuple[str, ...] | None = None
    rendered: RenderedAs | None = None

    @property
    def is_dropped(self) -> bool:
        """True if the page was read, but may not be used for the purposes of the crawl."""
        return self.refusal is not None and self.refusal.rule is Rule.CONSENT


def time_label(seconds: float) -> str:
    """Format a time in seconds since 1970 as in records."""
    whole = math.floor(seconds)
    millis = round((seconds - whole) * 1_000_000) // 1000
    return f"{_second_label(whole)}.{millis:03d}Z" if millis < 1000 else f"{_second_label(whole + 1)}.000Z"


@lru_cache(maxsize=8)  # most calls are for the current second
def _second_label(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")


NOT_RENDERED = "not rendered: "  # prefix of the error of a page that a browser could not render
_RENDERED = ("rendered", "engine", "engine_ms", "rendered_for")  # record names of the fields of ``RenderedAs``


def encode_page(record: PageRecord, kept: Sequence[Position] = (), body: Body | None = None) -> bytes:
    """Return the record as a line of ``pages.jsonl``, including its line feed. ``kept`` are the positions of the page's
    parts in the other outputs. ``body`` is stored in a file of its own."""
    entry, content, consent = record.entry, record.content, record.consent
    row: dict[str, Any] = {
        "url": entry.href,
        "status": record.status,
        "error": record.error,
        "outcome": record.outcome,
        "depth": entry.depth,
        "via": entry.via,
        "fetched_at": time_label(record.fetched_at),
        "content_type": record.content_type,
        "bytes": record.size,
        "links": record.links,
    }
    if record.visit > 1:
        row |= {"visit": record.visit, "changed": record.changed}
    known: tuple[tuple[str, object], ...] = (
        ("location", record.location),
        ("links_cut", record.links_cut or None),
        ("truncated", record.truncated),
        ("digest", None if content is None else content.digest.hex()),
        ("simhash", None if content is None or content.simhash is None else f"{content.simhash:016x}"),
        ("duplicate_of", None if content is None else content.duplicate_of),
        ("robots", record.robots or None),
        ("consent", {purpose: word for purpose, (word, _) in consent.items()} if consent else None),
        ("consent_by", {purpose: source for purpose, (_, source) in consent.items()} if consent else None),
        ("license", record.license),
        ("needs_scripts", record.needs_scripts or None),
        ("rule", None if record.refusal is None else record.refusal.rule),
        ("probe", entry.probe or None),
        ("embedded", entry.reach == LEAF or None),
        ("hops_outside", None if entry.reach in (0, LEAF) else entry.reach),
        ("gone", record.gone or None),
        *zip(Profile._fields, record.profile, strict=True),
        *zip(Exchanged._fields, record.exchanged, strict=True),
        ("price", record.price),
        *zip(_RENDERED, record.rendered or (), strict=False),
        ("body", None if body is None else body_name(body.digest)),
        ("body_cut", None if body is None else body.cut),
        ("score", None if record.score is None else round(record.score, 6)),
        ("id", record.id),
        ("data", record.data),
        ("data_error", record.data_error),
    )
    for name, value in known:
        if value is not None:
            row[name] = value
    if kept:
        row["kept"] = {_name(at): (file_in_output(at.file), at.end - at.length, at.length, at.crc) for at in kept}
    return _in_ascii(row) + b"\n"


def _in_ascii(row: Mapping[str, Any]) -> bytes:
    """Return the row as JSON in ASCII. Other characters are escaped, so that no reader mistakes one for a line end."""
    try:
        line = _ENCODER.encode(row)
    except UnicodeEncodeError:  # a lone surrogate in a library's message
        return json.dumps(to_builtins(row), separators=(",", ":")).encode("ascii")
    return line if line.isascii() else line.decode().encode("ascii", _ESCAPE)


def _escaped(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    return json.dumps(error.object[error.start : error.end])[1:-1], error.end


_ENCODER = msgspec.json.Encoder()
_ESCAPE = "crawler.json"  # escapes non-ASCII characters as in JSON
codecs.register_error(_ESCAPE, _escaped)


def _name(position: Position) -> str:
    return OUTPUTS[kind_of(position.file) - 1]


_FORGOTTEN = b"-"


def encode_admitted(digests: bytes) -> bytes:
    """Return the journal event of keys that were new in one transaction: their digests."""
    return digests


def encode_forgotten(digests: bytes) -> bytes:
    """Return the journal event of keys that were removed from the seen-set: a hyphen and their digests."""
    return _FORGOTTEN + digests


def decode_seen(value: bytes) -> tuple[bool, bytes]:
    """Return (forgotten, digests) of a journal event of the seen-set. Raises JournalError."""
    forgotten = len(value) % DIGEST_SIZE == 1 and value.startswith(_FORGOTTEN)
    digests = value[1:] if forgotten else value
    if not digests or len(digests) % DIGEST_SIZE:
        raise JournalError(f"not digests: {len(value)} bytes")
    return forgotten, digests


class JournalError(ValueError):
    """The stored bytes are not a journal event or another value of a known version."""


class StoredValue(Generic[T]):
    """How the store keeps the values of one type: a version byte, then MessagePack."""

    def __init__(self, kind: type[T], what: str, version: int = 1) -> None:
        """``what`` names a value in messages."""
        self._what = what
        self._version = version
        self._encode = msgspec.msgpack.Encoder().encode
        self._decode = msgspec.msgpack.Decoder(kind).decode

    def encode(self, value: T) -> bytes:
        return bytes((self._version,)) + self._encode(value)

    def decode(self, stored: bytes) -> T:
        """Inverse of ``encode``. Raises JournalError."""
        if stored[:1] != bytes((self._version,)):
            raise JournalError(f"{self._what} has version {stored[0] if stored else 'unknown'}, not {self._version}")
        try:
            return self._decode(stored[1:])
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise JournalError(f"not {self._what}: {error}") from error

    def read(self, store: Reader, name: bytes) -> T | None:
        """Return the value with that name in META; None if there is none. Raises JournalError, OSError."""
        stored = store.get(Family.META, name)
        return None if stored is None else self.decode(stored)


class Position(NamedTuple):
    """A record in one output: file number, offset after its last byte, its length in bytes, CRC-32 of its bytes."""

    file: int
    end: int
    length: int
    crc: int

    def is_of(self, data: bytes) -> bool:
        """True if these bytes are the record."""
        return len(data) == self.length and zlib.crc32(data) == self.crc


KIND_BITS = 24  # bits for the file's number in its output; the kind of the output is above them


def file_number(kind: int, number: int) -> int:
    """Return the number of a file in positions. ``kind`` is the output: 0 for ``pages.jsonl``, whose number is also
    0."""
    return kind << KIND_BITS | number


def kind_of(file: int) -> int:
    """Return the kind of the output of a file with that number in positions."""
    return file >> KIND_BITS


def file_in_output(file: int) -> int:
    """Return the number of the file in its output: 1 for the first one."""
    return file & (1 << KIND_BITS) - 1


class End(NamedTuple):
    """The end of an output: the number of its last file in positions, and the offset in that file. If the number within
    the output is 0, the output has no file yet."""

    file: int
    offset: int


class Part(NamedTuple):
    """Data for an output other than ``pages.jsonl``: the kind of the output (``OUTPUTS`` of the settings), and the
    bytes.

    ``payloads``: digests of payloads archived here for the first time, each with the capture to which later ones may
    refer, and other rows that ``crawler.web.archive.payloads`` stores."""

    kind: int
    data: bytes
    payloads: tuple[tuple[bytes, bytes], ...] = ()


class Body(NamedTuple):
    """A response body that is stored in a file of its own: its SHA-256, its bytes and, if it is incomplete, the
    reason."""

    digest: bytes
    data: bytes
    cut: str | None = None


Kept = tuple[Part | Body, ...]  # the data stored for one page in addition to its record


def body_name(digest: bytes) -> str:
    """Return the path of a body in the job directory."""
    name = digest.hex()
    return f"bodies/{name[:2]}/{name[2:4]}/{name}"


class Aside(Struct, frozen=True):
    """Data stored without a record that finishes a URL. ``owner``: the host of a robots.txt, or the visit whose page
    was extracted again (``visit_name``)."""

    owner: str


class AsideDone(NamedTuple):
    """An aside in the journal. ``positions`` are the positions of its parts."""

    owner: str
    positions: tuple[Position, ...]

    @property
    def is_of_page(self) -> bool:
        """True if the aside belongs to a visit."""
        return " " in self.owner


def visit_name(url: object, fetched_at: object) -> str:
    """Return the name of a visit as the owner of an aside, given the values in its record."""
    return f"{url} {fetched_at}"


class Done(NamedTuple):
    """A finished URL in the journal. ``positions`` starts with its record in ``pages.jsonl``, followed by its parts."""

    outcome: Outcome
    status: int | None
    entry: Entry
    positions: tuple[Position, ...]


_DONE = StoredValue(tuple[Outcome, int | None, tuple[Position, ...], bytes], "a done event", 3)


def encode_done(done: Done) -> bytes:
    """Encode a Done event."""
    return _DONE.encode((done.outcome, done.status, done.positions, encode_entry(done.entry)))


def decode_done(value: bytes) -> Done:
    """Inverse of ``encode_done``. Raises JournalError."""
    outcome, status, positions, entry = _DONE.decode(value)
    if not positions or any(map(_is_odd, positions)):
        raise JournalError("not a done event: it has no position in an output")
    try:
        return Done(outcome, status, decode_entry(entry), positions)
    except EntryError as error:
        raise JournalError(f"not a done event: {error}") from error


_ASIDE = StoredValue(AsideDone, "an aside", 2)
encode_aside = _ASIDE.encode


def decode_aside(value: bytes) -> AsideDone:
    """Inverse of ``encode_aside``. Raises JournalError."""
    aside = _ASIDE.decode(value)
    if not aside.owner or any(map(_is_odd, aside.positions)):
        raise JournalError("not an aside: its owner or its positions are missing")
    return aside


def _is_odd(position: Position) -> bool:
    return not 0 <= position.length <= position.end


_ENDS = StoredValue(list[End], "the ends of outputs")
encode_ends = _ENDS.encode  # for outputs other than ``pages.jsonl``; every transaction stores them


def decode_ends(value: bytes | None) -> dict[int, End]:
    """Decode a value of ``encode_ends`` into a dict by output kind. Raises JournalError."""
    return {} if value is None else {kind_of(end.file): end for end in _ENDS.decode(value)}


def sequence_key(sequence: int) -> bytes:
    """Return a journal sequence number as a key that sorts in numeric order."""
    return sequence.to_bytes(8, "big")


def result_of(outcome: Outcome, status: int | None, error: str | None) -> HostResult:
    """Return what a finished URL means for its host. If robots.txt could not be fetched, the URL was not requested."""
    if outcome is Outcome.EXCLUDED and error is not None and "robots.txt" in error:
        return HostResult.FAILED if error.startswith("robots.txt") else HostResult.ROBOTS
    if outcome is not Outcome.FETCHED or status is None or status < 400:
        return _RESULTS.get(outcome, HostResult.PAGE)
    if status in (429, 503):
        return HostResult.THROTTLED
    return HostResult.CLIENT_ERROR if status < 500 else HostResult.SERVER_ERROR


_RESULTS = {
    Outcome.FAILED: HostResult.FAILED,
    Outcome.EXCLUDED: HostResult.EXCLUDED,
    Outcome.SOFT404: HostResult.CLIENT_ERROR,
    Outcome.BLOCKED: HostResult.BLOCKED,
    Outcome.PAYMENT: HostResult.BLOCKED,
}


_COUNTED = {Outcome.EXCLUDED: "urls_excluded", Outcome.REDIRECT: "pages_redirected", Outcome.PAYMENT: "pages_blocked"}


def count_done(counters: Counters, outcome: Outcome, status: int | None, by: int = 1) -> None:
    """Count a finished visit; with ``by`` = -1 subtract one."""
    _count(counters, _COUNTED.get(outcome, f"pages_{outcome}"), by)
    if status is not None and 200 <= status < 600:
        count_in(counters.status, f"{status // 100}xx", by)


def count_url(counters: Counters, entry: Entry, outcome: str, status: int | None, by: int = 1) -> Entry:
    """Count the state of a URL after a visit instead of its former state; with ``by`` = -1 undo this.

    Returns the entry for its next visit. A URL that the crawler made up is not counted."""
    kind = url_kind(outcome, status)
    counters.urls[kind] += 0 if entry.probe else by
    counters.urls[entry.last] -= by if entry.revisit or entry.last else 0
    return ended(entry, kind)


def count_rendered(counters: Counters, rendered: RenderedAs | None, requests: Mapping[str, int]) -> None:
    """Count a page for which rendering was requested, and the requests that it made."""
    count_in(counters.pages_rendered, "no" if rendered is None else rendered.state, 1)
    counters.render_ms += 0 if rendered is None else rendered.milliseconds
    for name, number in requests.items():
        count_in(counters.render_requests, name, number)


N = TypeVar("N", Rule, Limit, str)


def count_in(counts: dict[N, int], name: N, by: int) -> None:
    """Add ``by`` to one of several counts; counts of 0 are removed."""
    counts[name] = counts.get(name, 0) + by
    if not counts[name]:
        del counts[name]


def count_outside(counters: Counters, reason: Outside, links: int) -> None:
    """Count links outside the crawl."""
    _count(counters, "links_excluded" if reason is Outside.EXCLUDED_BY_PATTERN else f"links_{reason}", links)


def _count(counters: Counters, name: str, by: int) -> None:
    setattr(counters, name, getattr(counters, name) + by)


COUNTERS_STORED = StoredValue(Counters, "the counters of the job")
encode_counters, decode_counters = COUNTERS_STORED.encode, COUNTERS_STORED.decode
