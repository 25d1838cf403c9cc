"""URLs that went wrong at their last visit, each once, however often they were visited.

A table of digests says what is wrong with each, exactly while there is room for ``PLACES`` of them. Those that found no
place count by visits; ``exact`` is False as soon as that may make a difference.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from hashlib import blake2b
from typing import Any

PLACES = 20_000
_DIGEST = 8  # bytes


class Wrong(StrEnum):
    """What is wrong with a URL."""

    CLIENT_ERROR = "client_errors"
    SERVER_ERROR = "server_errors"
    SOFT404 = "soft404"
    FAILED = "failed"


class WrongNow:
    """The newest ``most`` of them have rows that tell more."""

    def __init__(self, most: int) -> None:
        self.exact = True
        self._most = most
        self._known: dict[bytes, Wrong] = {}
        self._homeless = 0
        self._totals = dict.fromkeys(Wrong, 0)
        self._failed_visits = self._broken_visits = 0
        self._rows: dict[bytes, dict[str, Any]] = {}  # the oldest first

    def visited(self, href: str, wrong: Wrong | None, row: dict[str, Any], again: bool) -> Wrong | None:
        """Take what is wrong after a visit, and the row that tells it. Returns what was wrong before, as far as that is
        known. ``again``: it was not the first visit."""
        digest = blake2b(href.encode(), digest_size=_DIGEST).digest()
        before = self._known.pop(digest, None)
        self._rows.pop(digest, None)
        if before is not None:
            self._totals[before] -= 1
        elif again and self._homeless:
            self.exact = False
        if wrong is None:
            return before
        self._totals[wrong] += 1
        if wrong is Wrong.FAILED:
            self._failed_visits += 1
        else:
            self._broken_visits += 1
        if len(self._known) < PLACES:
            self._known[digest] = wrong
        else:
            self._homeless += 1
        self._rows[digest] = row
        if len(self._rows) > self._most:
            del self._rows[next(iter(self._rows))]
        return before

    def answer(self) -> dict[str, Any]:
        """What the dashboard shows."""
        return {
            "failures": list(reversed(self._rows.values())),
            "failed_total": self._totals[Wrong.FAILED],
            "broken_total": sum(self._totals.values()) - self._totals[Wrong.FAILED],
            "wrong": {wrong.value: count for wrong, count in self._totals.items()},
            "failed_visits": self._failed_visits,
            "broken_visits": self._broken_visits,
            "exact": self.exact,
        }

    def dump(self) -> dict[str, Any]:
        """All of it, for ``restore``."""
        known: dict[str, list[str]] = {wrong.value: [] for wrong in Wrong}
        for digest, wrong in self._known.items():
            known[wrong].append(digest.hex())
        return {
            "exact": self.exact,
            "known": {wrong: "".join(digests) for wrong, digests in known.items()},
            "homeless": self._homeless,
            "totals": {wrong.value: count for wrong, count in self._totals.items()},
            "failed_visits": self._failed_visits,
            "broken_visits": self._broken_visits,
            "failures": [row | {"digest": digest.hex()} for digest, row in self._rows.items()],
        }

    def restore(self, stored: Mapping[str, Any]) -> None:
        """Take what ``dump`` returned. Raises ValueError, KeyError and TypeError if it cannot be that."""
        self.exact = bool(stored["exact"])
        self._homeless, self._failed_visits, self._broken_visits = (
            _count(stored[key]) for key in ("homeless", "failed_visits", "broken_visits")
        )
        for wrong in Wrong:
            self._totals[wrong] = _count(stored["totals"][wrong])
            digests = bytes.fromhex(stored["known"][wrong])
            for at in range(0, len(digests), _DIGEST):
                self._known[digests[at : at + _DIGEST]] = wrong
        rows = stored["failures"]
        if not isinstance(rows, list) or not all(isinstance(row, dict) and "host" in row for row in rows):
            raise ValueError("failures of another kind")
        for row in rows[-self._most :]:
            self._rows[bytes.fromhex(row["digest"])] = {key: value for key, value in row.items() if key != "digest"}
        if len(self._known) > PLACES or any(len(digest) != _DIGEST for digest in (*self._known, *self._rows)):
            raise ValueError("digests of another kind")


def _count(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"{value!r} is not a count")
    return value
