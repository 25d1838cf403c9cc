"""Finds finished URLs in ``pages.jsonl`` by outcome, to requeue them.

A URL may have several records, one for each visit; only the last record counts. The file is read twice: memory holds 16
bytes and the position of each matching record, not the records.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, NamedTuple

from msgspec import Meta, Struct

from crawler.base.settings.parts import HOPS_MOST, LEAF
from crawler.job.metrics.catalogue import URL_KINDS
from crawler.job.output.record_reader import Record, record_of, visits_of
from crawler.job.records import Outcome, url_kind
from crawler.url.urls.host_key import host_key, host_name

_DIGEST = 16
_SHUT = (Outcome.SOFT404, Outcome.BLOCKED, Outcome.PAYMENT)  # outcomes that may be given in place of a rule
_ROBOTS, _BY_ROBOTS = "robots", "disallowed by robots.txt"


class Past(NamedTuple):
    """A finished URL to be visited again, from its last record. ``visits``: its number of visits. ``reach`` and
    ``last`` are the fields of `Entry`."""

    href: Annotated[str, Meta(pattern=r"\Ahttps?://[!-~]+\Z")]
    depth: Annotated[int, Meta(ge=0, lt=2**32)]
    via: Annotated[str, Meta(pattern=r"\A[!-~]*\Z")] | None
    visits: Annotated[int, Meta(gt=0, lt=2**32)]
    reach: Annotated[int, Meta(ge=0, le=LEAF)] = 0
    last: Annotated[int, Meta(ge=0, lt=len(URL_KINDS))] = 0


class Choice(Struct, frozen=True):
    """A selection of finished URLs; a criterion that is not given matches all.

    ``failed``: URLs that failed. ``excluded``: those that this rule excluded, or that have this outcome (``soft404``,
    ``blocked`` or ``payment``). If both are given, a URL need match only one of them. ``host``: those of this host,
    given with or without its port. ``hrefs``: those in this set."""

    failed: bool = False
    excluded: str | None = None
    host: str | None = None
    hrefs: frozenset[str] = frozenset()

    @property
    def is_empty(self) -> bool:
        """True if no criterion is given: all finished URLs would match."""
        return not (self.failed or self.excluded or self.host or self.hrefs)

    def fits(self, record: Record) -> bool:
        """True if a URL with this last record is selected."""
        href, outcome = str(record["url"]), record["outcome"]
        if record.get("probe"):
            return False  # the crawler made up this URL
        if self.failed or self.excluded is not None:
            failed = self.failed and outcome == Outcome.FAILED
            excluded = self.excluded is not None and _excluded(record, self.excluded)
            if not (failed or excluded):
                return False
        if self.host is not None and not _is_of(href, self.host):
            return False
        return not self.hrefs or href in self.hrefs


def select(read: Callable[[], Iterable[bytes]], choice: Choice) -> Iterator[Past | None]:
    """Yield the selected URLs in the order of their last records, and None for each other record read.

    ``read`` returns the lines of the file from the first on; it is called twice."""
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
    """Return the rules that excluded URLs with these records, as accepted by ``Choice.excluded``."""
    records = (record for record in map(record_of, lines) if record is not None)
    outcomes = {Outcome.EXCLUDED, *_SHUT}
    return {_rule_of(record) for record in records if record["outcome"] in outcomes}


def knows_host(lines: Iterable[bytes], host: str) -> bool:
    """True if any of these records belongs to a URL of the host, given with or without its port."""
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
    """Parse a line; None if it has no URL that can be queued (users may have edited the file)."""
    record = record_of(line)
    href = "" if record is None else str(record["url"])
    whole = href.isascii() and href.isprintable() and " " not in href
    return record if whole and href.startswith(("http://", "https://")) and href.find("/", 8) > 0 else None


def _key(href: str) -> bytes:
    return hashlib.blake2b(href.encode("ascii"), digest_size=_DIGEST).digest()


def _excluded(record: Record, rule: str) -> bool:
    """True if this rule or outcome excluded the URL or its links."""
    outcome = record["outcome"]
    return outcome == rule if rule in _SHUT else outcome == Outcome.EXCLUDED and _names(record, rule)


def _names(record: Record, rule: str) -> bool:
    """True if the rule excluded the URL: the field ``rule`` contains its name, or ``error`` starts with it."""
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
