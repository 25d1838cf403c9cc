"""The robots.txt of each host, stored for as long as it may be used and parsed when it is needed.

The stored record is ``<BHd``: version (1), status (0: no answer), time of the answer in seconds since 1970; then the
length of the error text (``<H``), the error text, and the body. The error text is the name of a kind of failure, a
colon, a space, and the message.
"""

from __future__ import annotations

import struct
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto

from crawler.fetch.outcome import Failure, FailureKind, Response
from crawler.kv import Family, Reader
from crawler.robots import DISALLOW_ALL, RobotsRecordError, RobotsRules, robots_for_status
from crawler.settings import RobotsSettings

PARSED_MAX = 4_096  # hosts whose parsed rules are kept in memory
_REFUSED_TTL = 1.0  # seconds: checking our own rules again costs no request, and the next run may allow it
_VERSION = 1
_HEAD = struct.Struct("<BHdH")


class Refusal(Enum):
    """Why a URL may not be fetched according to robots.txt."""

    DISALLOWED = auto()  # it disallows the URL
    OWN_RULE = auto()  # a rule of ours forbids to ask for it (a private address)
    SERVER_ERROR = auto()  # it was answered with 5xx: everything is disallowed until it can be fetched (RFC 9309)
    NO_ANSWER = auto()

    @property
    def lasting(self) -> bool:
        """Return whether the URL is excluded for good; otherwise it has failed."""
        return self is not Refusal.NO_ANSWER


@dataclass(frozen=True, slots=True)
class NoRobots:
    """Why a robots.txt could not be fetched. ``kind`` is None if the record names no known kind."""

    kind: FailureKind | None
    message: str

    @property
    def text(self) -> str:
        """Return the text as it is stored and shown."""
        return self.message if self.kind is None else f"{self.kind.value}: {self.message}"


@dataclass(frozen=True, slots=True)
class Robots:
    """What a host's robots.txt says. If it could not be fetched, ``status`` is None and ``failure`` is set."""

    rules: RobotsRules
    status: int | None
    asked_at: float
    failure: NoRobots | None = None

    def refusal(self, href: str) -> Refusal | None:
        """Return why the URL may not be fetched; None if it may be."""
        if self.rules.allowed(href):
            return None
        if self.status is None:
            return Refusal.OWN_RULE if self.refused else Refusal.NO_ANSWER
        return Refusal.SERVER_ERROR if self.status >= 500 else Refusal.DISALLOWED

    @property
    def refused(self) -> bool:
        """Return whether one of our own rules forbade the request."""
        return self.failure is not None and self.failure.kind is not None and self.failure.kind.excluded

    def words(self, refusal: Refusal) -> str:
        """Return the words for a refusal, for the ``error`` of a record and for ``explain``."""
        failure = "" if self.failure is None else self.failure.text
        match refusal:
            case Refusal.DISALLOWED:
                return "disallowed by robots.txt"
            case Refusal.OWN_RULE:
                return failure
            case Refusal.SERVER_ERROR:
                return f"robots.txt answered {self.status}: everything is disallowed until it can be fetched (RFC 9309)"
            case Refusal.NO_ANSWER:
                return f"robots.txt could not be fetched: {failure}"


def encode_robots(answer: Response | Failure, asked_at: float) -> bytes:
    """Return the stored record of an answer."""
    if isinstance(answer, Response):
        return _HEAD.pack(_VERSION, answer.status, asked_at, 0) + (answer.body or b"")
    error = NoRobots(answer.kind, answer.message).text.encode("utf-8", "replace")[:1_000]
    return _HEAD.pack(_VERSION, 0, asked_at, len(error)) + error


def _failure(text: str) -> NoRobots:
    name, _, message = text.partition(": ")
    known = next((kind for kind in FailureKind if kind.value == name), None)
    return NoRobots(known, text if known is None else message)


Parse = Callable[[int, bytes, str, int], RobotsRules | NoRobots]


class RobotsCache:
    """The rules by host."""

    def __init__(
        self, store: Reader, settings: RobotsSettings, user_agent: str, parse: Parse = robots_for_status
    ) -> None:
        """``parse`` reads a body, and may say why it cannot."""
        self._store = store
        self._parse = parse
        self._settings = settings
        self._user_agent = user_agent
        self._parsed: OrderedDict[str, Robots] = OrderedDict()

    def get(self, host: str) -> Robots | None:
        """Return what is known of the host, however old; None if it was never asked. Raises RobotsRecordError."""
        known = self._parsed.get(host)
        if known is not None:
            self._parsed.move_to_end(host)
            return known
        stored = self._store.get(Family.ROBOTS, host.encode("ascii"))
        return None if stored is None else self._keep(host, self.decode(stored))

    def body(self, host: str) -> bytes:
        """Return the host's robots.txt, which must be stored."""
        stored = self._store.get(Family.ROBOTS, host.encode("ascii")) or b""
        length = _HEAD.unpack_from(stored)[-1]
        return stored[_HEAD.size + length :]

    def forget(self, host: str) -> None:
        """Drop the parsed rules, because the stored record has changed."""
        self._parsed.pop(host, None)

    def decode(self, stored: bytes) -> Robots:
        """Parse a stored record."""
        try:
            version, status, asked_at, length = _HEAD.unpack_from(stored)
        except struct.error as error:
            raise RobotsRecordError(f"not a robots record: {error}") from error
        if version != _VERSION:
            raise RobotsRecordError(f"a robots record of version {version}, not {_VERSION}")
        at = _HEAD.size + length
        if at > len(stored):
            raise RobotsRecordError(f"not a robots record: an error text of {length} bytes is cut off")
        if status == 0:
            failure = _failure(stored[_HEAD.size : at].decode("utf-8", "replace"))
            return Robots(DISALLOW_ALL, None, asked_at, failure)
        rules = self._parse(status, stored[at:], self._user_agent, self._settings.max_bytes)
        if isinstance(rules, NoRobots):
            return Robots(DISALLOW_ALL, None, asked_at, rules)
        return Robots(rules, status, asked_at)

    def ttl(self, robots: Robots) -> float:
        """Return the seconds for which the record may be used."""
        if robots.refused:
            return _REFUSED_TTL
        if robots.status is None or robots.status >= 500:
            return self._settings.unreachable_ttl
        return self._settings.ttl

    def _keep(self, host: str, robots: Robots) -> Robots:
        self._parsed[host] = robots
        if len(self._parsed) > PARSED_MAX:
            self._parsed.popitem(last=False)
        return robots
