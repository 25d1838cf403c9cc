"""Finds finished URLs in ``pages.jsonl`` by what became of them, to put them back.

A URL may have several records, one for each visit; only its last one counts. The file is read twice: memory holds 16
bytes and the place of each record that fits, not the records.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from msgspec import Struct

from crawler.base.settings.parts import HOPS_MOST, LEAF
from crawler.job.output.record_reader import Record, record_of, visits_of
from crawler.job.records import Outcome, url_kind
from crawler.url.urls.host_key import host_key, host_name

_DIGEST = 16
_SHUT = (Outcome.SOFT404, Outcome.BLOCKED, Outcome.PAYMENT)  # outcomes that a user may name like a rule
_ROBOTS, _BY_ROBOTS = "robots", "disallowed by robots.txt"


class Past(NamedTuple):
    """A finished URL that is to be visited again, as its last record has it. ``visits``: how many it had. ``reach``
    and ``last`` are those of its entry."""

    href: str
    depth: int
    via: str | None
    visits: int
    reach: int = 0
    last: int = 0


class Choice(Struct, frozen=True):
    """Which finished URLs are wanted: those that ``failed``, or that the rule ``excluded`` (or the outcome
    ``soft404``, ``blocked`` or ``payment``); of one ``host`` (with or without its port), or in ``hrefs``. What is not
    given does not matter."""

    failed: bool = False
    excluded: str | None = None
    host: str | None = None
    hrefs: frozenset[str] = frozenset()

    @property
    def is_empty(self) -> bool:
        """Whether nothing is given: all finished URLs would fit."""
        return not (self.failed or self.excluded or self.host or self.hrefs)

    def fits(self, record: Record) -> bool:
        """Whether the last record of a URL fits."""
        href, outcome = str(record["url"]), record["outcome"]
        if record.get("probe"):
            return False  # the crawler made it up
        if self.failed or self.excluded is not None:
            failed = self.failed and outcome == Outcome.FAILED
            excluded = self.excluded is not None and _excluded(record, self.excluded)
            if not (failed or excluded):
                return False
        if self.host is not None and not _is_of(href, self.host):
            return False
        return not self.hrefs or href in self.hrefs


def select(read: Callable[[], Iterable[bytes]], choice: Choice) -> Iterator[Past | None]:
    """The finished URLs that fit, in the order of their last records, and None for each other record that was read.
    ``read`` gives the lines of the file from the first on, twice."""
    places: dict[bytes, int] = {}
    for place, line in enumerate(read()):
        record = _record(line)
        if record is not None:
            key = _key(str(record["url"]))
            if choice.fits(record):
                places[key] = place
            else:
                places.pop(key, None)
        yield None
    wanted = frozenset(places.values())
    for place, line in enumerate(read()):
        record = _record(line) if place in wanted else None
        yield None if record is None else _past(record)


def rules_of(lines: Iterable[bytes]) -> set[str]:
    """The rules that excluded URLs with these records, as ``Choice.excluded`` may name them."""
    records = (record for record in map(record_of, lines) if record is not None)
    outcomes = {Outcome.EXCLUDED, *_SHUT}
    return {_rule_of(record) for record in records if record["outcome"] in outcomes}


def knows_host(lines: Iterable[bytes], host: str) -> bool:
    """Whether any of these records is about a URL of a host, which is named with its port or without."""
    records = (record for record in map(_record, lines) if record is not None)
    return any(_is_of(str(record["url"]), host) and not record.get("probe") for record in records)


def _is_of(href: str, host: str) -> bool:
    return host in (host_key(href), host_name(href))


def _rule_of(record: Record) -> str:
    outcome, error = str(record["outcome"]), str(record.get("error"))
    if outcome in _SHUT:
        return outcome
    return str(record.get("rule") or (_ROBOTS if error == _BY_ROBOTS else error.partition(":")[0]))


def _record(line: bytes) -> Record | None:
    """The record of a line; None if the URL in it cannot be queued: others may have edited the file."""
    record = record_of(line)
    href = "" if record is None else str(record["url"])
    whole = href.isascii() and href.isprintable() and " " not in href
    return record if whole and href.startswith(("http://", "https://")) and href.find("/", 8) > 0 else None


def _key(href: str) -> bytes:
    return hashlib.blake2b(href.encode("ascii"), digest_size=_DIGEST).digest()


def _excluded(record: Record, rule: str) -> bool:
    """Whether the rule, or that outcome, kept the URL or its links out."""
    outcome = record["outcome"]
    return outcome == rule if rule in _SHUT else outcome == Outcome.EXCLUDED and _names(record, rule)


def _names(record: Record, rule: str) -> bool:
    """Whether the rule excluded the URL: the word in the field ``rule``, or the first words of ``error``."""
    error = str(record.get("error"))
    if record.get("rule") == rule or (rule == _ROBOTS and error == _BY_ROBOTS):
        return True
    return error.startswith(rule) and not error[len(rule) : len(rule) + 1].isalnum()


def _past(record: Record) -> Past:
    depth, via = record.get("depth"), record.get("via")
    hops, status = record.get("hops_outside", 0), record.get("status")
    return Past(
        str(record["url"]),
        depth if isinstance(depth, int) and 0 <= depth < 2**32 else 0,
        via if isinstance(via, str) and via.isascii() and via.isprintable() and " " not in via else None,
        visits_of(record),
        LEAF if record.get("embedded") is True else hops if isinstance(hops, int) and 0 <= hops <= HOPS_MOST else 0,
        url_kind(str(record["outcome"]), status if isinstance(status, int) else None),
    )
