"""robots.txt of each host: kept in the store for as long as it may be used, parsed when it is needed.

The stored record is ``<BHd`` version (1), status (0: no answer), time of the answer in seconds since 1970, then the
length of the error text (``<H``), the error text, and the body.
"""

from __future__ import annotations

import struct
from collections import OrderedDict
from dataclasses import dataclass

from crawler.fetch import FailureKind, RobotsResult
from crawler.kv import Family, Reader
from crawler.robots import DISALLOW_ALL, RobotsRecordError, RobotsRules, robots_for_status
from crawler.settings import RobotsSettings

PARSED_MAX = 4_096  # hosts whose parsed rules are kept in memory
_REFUSED_TTL = 1.0  # seconds: asking costs no request, and the next run may allow it
_OWN_RULES = frozenset(kind.value for kind in FailureKind if kind.excluded)
_VERSION = 1
_HEAD = struct.Struct("<BHdH")


@dataclass(frozen=True, slots=True)
class Robots:
    """What a host's robots.txt says. ``status`` is None when it could not be had."""

    rules: RobotsRules
    status: int | None
    asked_at: float
    error: str | None

    @property
    def reachable(self) -> bool:
        """Whether the server answered at all."""
        return self.status is not None

    @property
    def refused(self) -> bool:
        """Whether one of our own rules kept us from asking (a private address)."""
        kind = (self.error or "").partition(":")[0]
        return self.status is None and kind in _OWN_RULES

    @property
    def refusal(self) -> str:
        """Why a URL that the rules do not allow is refused."""
        if self.refused:
            return str(self.error)
        if self.status is None:
            return f"robots.txt could not be had: {self.error}"
        if self.status >= 500:
            return f"robots.txt answered {self.status}: all is disallowed until it can be had (RFC 9309)"
        return "disallowed by robots.txt"


def encode_robots(result: RobotsResult, now: float) -> bytes:
    """The stored record."""
    error = (result.error or "").encode("utf-8", "replace")[:1_000]
    return _HEAD.pack(_VERSION, result.status or 0, now, len(error)) + error + result.body


class RobotsCache:
    """The rules by host."""

    def __init__(self, store: Reader, settings: RobotsSettings, user_agent: str) -> None:
        self._store = store
        self._settings = settings
        self._user_agent = user_agent
        self._parsed: OrderedDict[str, Robots] = OrderedDict()

    def get(self, host: str) -> Robots | None:
        """What is known of the host, however old; None when it was never asked. Raises RobotsRecordError."""
        known = self._parsed.get(host)
        if known is not None:
            self._parsed.move_to_end(host)
            return known
        stored = self._store.get(Family.ROBOTS, host.encode("ascii"))
        return None if stored is None else self._keep(host, self.decode(stored))

    def body(self, host: str) -> bytes:
        """What the host answered; it must have been asked."""
        stored = self._store.get(Family.ROBOTS, host.encode("ascii")) or b""
        length = _HEAD.unpack_from(stored)[-1]
        return stored[_HEAD.size + length :]

    def forget(self, host: str) -> None:
        """The stored record has changed."""
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
            raise RobotsRecordError(f"not a robots record: an error text of {length} bytes that are not there")
        error_text = stored[_HEAD.size : at].decode("utf-8", "replace") or None
        if status == 0:
            return Robots(DISALLOW_ALL, None, asked_at, error_text)
        rules = robots_for_status(status, stored[at:], self._user_agent, self._settings.max_bytes)
        return Robots(rules, status, asked_at, error_text)

    def ttl(self, robots: Robots) -> float:
        """Seconds for which the record may be used."""
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
