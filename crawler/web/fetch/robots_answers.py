"""The robots.txt of each host, stored for as long as it may be used and parsed when it is needed.

A stored record (``_Record``) has the last answer, and the last good copy if that answer did not state the rules, or
lacks its end. A copy is good if it states the host's rules, or shows that the host has none. If the last answer stated
no rules, the rules of the copy apply; if it lacks its end, a URL is allowed only if the answer and the copy both allow
it.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from crawler.base.kv import Family, Reader
from crawler.url.consent.statements import PathStatements
from crawler.url.consent.terms import TDM_FILE, Terms, terms_statements
from crawler.url.robots.parse import (
    DISALLOW_ALL,
    RobotsRecordError,
    RobotsRules,
    robots_for_status,
    unreachable,
)
from crawler.web.fetch.outcome import Failure, FailureKind, Response

TTL = 86_400.0  # seconds a copy is used (RFC 9309, 2.4: not more than a day)
UNREACHABLE_TTL = 3_600.0  # seconds for which a 5xx, a 429 or a failure to reach the host counts
LAST_GOOD_TTL = 2_592_000.0  # seconds for which the last good copy replaces such an answer; RFC 9309 names 30 days
_CACHE_BYTES = 64 * 2**20  # total size of the parsed rules that are kept; dropped ones are parsed again when needed
LARGE = 32_768  # bytes of a record: a larger one is parsed in a thread
_ENTRY = 512  # bytes of a parsed record in addition to its rules
_VERSION = 1


class RobotsRefusal(NamedTuple):
    """Why robots.txt forbids a URL, as text for the ``error`` of a record. ``lasting``: True if the URL is excluded for
    good; otherwise it counts as failed."""

    words: str
    lasting: bool = True


_DISALLOWED = RobotsRefusal("disallowed by robots.txt")


class NoRobots(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Why a robots.txt could not be fetched."""

    kind: FailureKind
    message: str

    @property
    def text(self) -> str:
        """Return the text as it is stored and shown."""
        return f"{self.kind.value}: {self.message}"


class GoodCopy(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The last statement of a host about its rules: ``body`` after a 2xx status; any other final status means that the
    host has no rules. ``stands_in``: a later request failed, so this copy was needed."""

    status: int
    asked_at: float
    body: bytes
    stands_in: bool = False


class _Record(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag=_VERSION):
    """A stored record. ``status`` is 0 if there was no answer; ``failure`` is then set. ``asked_at`` is in seconds
    since 1970."""

    status: int
    asked_at: float
    failure: NoRobots | None
    body: bytes
    copy: GoodCopy | None = None
    terms: Terms = {}


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Record).decode


class Robots(Struct, frozen=True):
    """The robots.txt of a host. If it could not be fetched, ``status`` is None and ``failure`` is set.

    ``copy_of``: the time of the copy whose rules apply, because the last request failed; ``stands_in``: an earlier
    failure already made this copy necessary. ``also``: the rules of that copy, if the last answer lacks its end.
    ``terms``: statements of consent in the files with terms that were requested (``crawler.url.consent.terms.Terms``).
    ``statements``: those in robots.txt and in the host's files."""

    rules: RobotsRules
    status: int | None
    asked_at: float
    failure: NoRobots | None = None
    copy_of: float | None = None
    also: RobotsRules | None = None
    terms: Mapping[str, PathStatements] = {}
    statements: tuple[PathStatements, ...] = ()
    stands_in: bool = False

    @property
    def size(self) -> int:
        """The approximate size of the parsed rules in bytes."""
        parts = (self.rules, self.also, *self.statements, *self.terms.values())
        return sum(each.size for each in parts if each is not None) + _ENTRY

    @property
    def crawl_delay(self) -> float | None:
        """The longer of the two delays, if there are two."""
        both = [self.rules.crawl_delay, None if self.also is None else self.also.crawl_delay]
        return max((delay for delay in both if delay is not None), default=None)

    @property
    def licenses(self) -> tuple[str, ...]:
        """The licenses that robots.txt names, as written."""
        return self.rules.licenses + (() if self.also is None else self.also.licenses)

    def refusal(self, href: str) -> RobotsRefusal | None:
        """Return the reason why the URL may not be fetched; None if it may be."""
        if self.rules.allowed(href):
            return None if self.also is None or self.also.allowed(href) else _DISALLOWED
        if self.copy_of is not None or not self.unreachable:
            return _DISALLOWED
        if self.status is None:
            return RobotsRefusal(self.answer_words, lasting=False)
        return RobotsRefusal(f"{self.answer_words}: everything is disallowed until it can be fetched (RFC 9309)")

    @property
    def unreachable(self) -> bool:
        """True if the last answer did not state the rules."""
        return self.status is None or unreachable(self.status)

    @property
    def until(self) -> float:
        """The time until which the answer may be used."""
        return self.asked_at + (UNREACHABLE_TTL if self.unreachable else TTL)

    @property
    def answer_words(self) -> str:
        """A description of the last request's result."""
        if self.failure is not None:
            return f"robots.txt could not be fetched: {self.failure.text}"
        return f"robots.txt answered {self.status}"


def usable_part(answer: Response | Failure) -> Response | None:
    """Return the received part of a cut-off answer, if it consists of complete lines of rules."""
    part = answer.partial if isinstance(answer, Failure) else None
    if part is None or not 200 <= part.status < 300 or not (part.body or b"").endswith((b"\n", b"\r")):
        return None
    return part


def encode_robots(answer: Response | Failure, asked_at: float, copy: GoodCopy | None = None) -> bytes:
    """Return the stored record of an answer. ``copy`` is kept if the answer does not state the rules, or lacks
    its end."""
    if isinstance(answer, Response):
        status, failure = answer.status, None
        body = b"" if unreachable(status) else bytes(answer.body or b"")
        needs_copy = unreachable(status) or answer.truncated is not None
    else:
        status, body = 0, b""
        failure = NoRobots(answer.kind, answer.message.encode("utf-8", "replace").decode()[:1_000])
        needs_copy = not answer.kind.excluded
    return _encode(_Record(status, asked_at, failure, body, copy if needs_copy else None))


Parse = Callable[[int, bytes, str], RobotsRules | NoRobots]


def _read(stored: bytes) -> _Record:
    try:
        record = _decode(stored)
    except msgspec.DecodeError as error:
        raise RobotsRecordError(f"not a robots record: {error}") from error
    if record.copy is not None and unreachable(record.copy.status):
        raise RobotsRecordError(f"not a robots record: the status of its good copy is {record.copy.status}")
    return record


class RobotsCache:
    """The rules by host."""

    def __init__(self, store: Reader, user_agent: str, parse: Parse = robots_for_status) -> None:
        """``parse`` returns the rules in a body, or the reason why it cannot read them."""
        self._store = store
        self._parse = parse
        self._user_agent = user_agent
        self._parsed: OrderedDict[str, Robots] = OrderedDict()
        self._parsing = asyncio.Lock()  # parse one file at a time: threads share the interpreter with the loop
        self.bytes = 0  # total size of the parsed rules

    def get(self, host: str) -> Robots | None:
        """Return the stored rules of the host, however old; None if they were never requested. Raises
        RobotsRecordError."""
        known = self._parsed.get(host)
        if known is not None:
            self._parsed.move_to_end(host)
            return known
        stored = self._stored(host)
        if stored is None:
            return None
        robots = self.decode(stored)
        self.keep(host, robots)
        return robots

    def at_hand(self, host: str) -> bool:
        """Return whether ``get`` is fast, because the rules have been parsed or are short."""
        stored = None if host in self._parsed else self._stored(host)
        return stored is None or len(stored) <= LARGE

    async def prepare(self, host: str) -> None:
        """Parse the rules of the host, so that ``get`` is fast."""
        stored = None if host in self._parsed else self._stored(host)
        if stored is not None:
            self.keep(host, await self.decode_aside(stored))

    def good_copy(self, host: str, now: float) -> GoodCopy | None:
        """Return the last good copy of the host's rules, unless it is too old or the record is damaged."""
        try:
            record = _read(self._stored(host) or b"")
        except RobotsRecordError:
            return None
        copy = GoodCopy(record.status, record.asked_at, record.body)
        if record.copy is not None:
            copy = replace(record.copy, stands_in=True)
        return None if unreachable(copy.status) or now - copy.asked_at > LAST_GOOD_TTL else copy

    def forget(self, host: str) -> None:
        """Drop the parsed rules, because the stored record has changed."""
        known = self._parsed.pop(host, None)
        if known is not None:
            self.bytes -= known.size

    def keep(self, host: str, robots: Robots) -> None:
        """Keep parsed rules, and drop the least recently used ones if there are too many."""
        self.forget(host)
        self._parsed[host] = robots
        self.bytes += robots.size
        while self.bytes > _CACHE_BYTES and len(self._parsed) > 1:
            self.forget(next(iter(self._parsed)))

    def with_terms(self, host: str, terms: Terms) -> tuple[Robots, bytes]:
        """Return the cached robots.txt of the host, and its record with ``terms`` added."""
        stored = self._stored(host) or b""
        record = _read(stored)
        return self.decode(stored), _encode(replace(record, terms={**record.terms, **terms}))

    async def decode_aside(self, stored: bytes) -> Robots:
        """Parse a stored record: a large one in a thread. Raises RobotsRecordError."""
        if len(stored) <= LARGE:
            return self.decode(stored)
        async with self._parsing:
            return await asyncio.to_thread(self.decode, stored)

    def decode(self, stored: bytes) -> Robots:
        """Parse a stored record. Raises RobotsRecordError."""
        record = _read(stored)
        robots = self._rules(record)
        also = () if robots.also is None else robots.also.statements
        terms = {file: terms_statements(file, rules) for file, rules in record.terms.items()}
        of_host = tuple(terms[file] for file in (TDM_FILE, *robots.licenses) if file in terms)
        return replace(robots, terms=terms, statements=robots.rules.statements + also + of_host)

    def _rules(self, record: _Record) -> Robots:
        copy, at, failure = record.copy, record.asked_at, record.failure
        if failure is not None and copy is None:
            return Robots(DISALLOW_ALL, None, at, failure)
        own = self._parse(record.status, record.body, self._user_agent)
        good = None if copy is None else self._parse(copy.status, copy.body, self._user_agent)
        if isinstance(own, NoRobots):
            return Robots(DISALLOW_ALL, None, at, own)
        if isinstance(good, NoRobots):
            return Robots(DISALLOW_ALL, None, at, good)
        if copy is None or good is None or not unreachable(record.status):
            return Robots(own, record.status or None, at, also=good)
        return Robots(good, record.status or None, at, failure, copy.asked_at, stands_in=copy.stands_in)

    def _stored(self, host: str) -> bytes | None:
        return self._store.get(Family.ROBOTS, host.encode("ascii"))
