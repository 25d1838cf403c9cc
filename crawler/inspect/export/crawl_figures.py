"""The figures of a report, from records one by one, in bounded memory.

Exact are all totals, the outcomes, statuses and depths, and the figures of the chosen hosts. Types, reasons and pages
with copies are counted exactly until there are more kinds of them than places; the report says by how much a count may
then be too low. Of failures the first are kept, and of broken links too, but no dead link in the place of a server
error.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection

from msgspec import Struct, field

from crawler.inspect.export.time_line import TimeLine
from crawler.job.output import Record
from crawler.job.records import Outcome
from crawler.job.survey import TopRows, clipped, is_broken, is_unfetched, time_of
from crawler.url.urls import host_key

PLACES = 1_000  # kinds of types, reasons, pages with copies
KEPT = 500  # broken links that are listed
KEPT_FAILURES = 100
SERVER_ERROR = 500  # statuses from which on the server failed
DEEPEST = 20  # what is deeper counts as this
LONGEST = 2_000  # characters of a text that is kept; longer URLs are cut
_WORDS = 120  # of a type or a reason
REST = ""  # the name of all hosts that were not chosen

GOOD, BROKEN, NOT_FETCHED = "good", "broken", "not fetched"  # what the time line tells apart


class Broken(Struct, frozen=True):
    """A URL that answers, but not with a page; or that does not answer: ``status`` is then None. ``via`` is the page on
    which it was found first, None for a seed."""

    url: str
    status: int | None
    words: str
    via: str | None


class HostFigures(Struct):
    """The URLs of a host, by what became of them."""

    fetched: int = 0
    broken: int = 0
    failed: int = 0
    excluded: int = 0
    copies: int = 0
    size: int = 0


class Figures(Struct):
    """What the records of a crawl tell."""

    hosts: defaultdict[str, HostFigures]
    urls: int = 0
    server_errors: list[Broken] = field(default_factory=list)  # the first ones ...
    dead_links: list[Broken] = field(default_factory=list)  # ... and the first of what else is broken
    failures: list[Broken] = field(default_factory=list)
    totals: Counter[str] = field(default_factory=Counter)  # outcomes, and broken, failed, copies, probes, bytes
    statuses: Counter[int] = field(default_factory=Counter)
    depths: Counter[int] = field(default_factory=Counter)
    types: TopRows = field(default_factory=lambda: TopRows(PLACES))
    reasons: TopRows = field(default_factory=lambda: TopRows(PLACES))
    originals: TopRows = field(default_factory=lambda: TopRows(PLACES))
    line: TimeLine = field(default_factory=TimeLine)
    chosen: Collection[str] = ()

    @classmethod
    def of(cls, chosen: Collection[str]) -> Figures:
        """Figures with those of the ``chosen`` hosts; all others are one."""
        return cls(defaultdict(HostFigures), chosen=frozenset(chosen))

    @property
    def broken(self) -> list[Broken]:
        """The broken URLs that are listed: server errors, then the others, both by host."""
        kept = [self.server_errors, self.dead_links[: KEPT - len(self.server_errors)]]
        return [each for part in kept for each in sorted(part, key=lambda found: host_key(found.url))]

    def count_time(self, record: Record) -> None:
        """Count a visit, be it the last one of its URL or not."""
        moment = time_of(record.get("fetched_at"))
        if moment is not None:
            kind = BROKEN if is_broken(record) else NOT_FETCHED if is_unfetched(record) else GOOD
            self.line.add(moment / 1000, kind)

    def count(self, record: Record) -> None:
        """Count the last record of a URL."""
        if record.get("probe"):
            self.totals["probes"] += 1
            return
        outcome, status, depth = str(record["outcome"]), record.get("status"), record.get("depth")
        self.urls += 1
        self.totals[outcome] += 1
        if isinstance(status, int):
            self.statuses[status] += 1
        if isinstance(depth, int):
            self.depths[min(depth, DEEPEST)] += 1
        if isinstance(record.get("content_type"), str):
            self.types.add(clipped(str(record["content_type"]).lower(), _WORDS))
        if isinstance(record.get("duplicate_of"), str):
            self.originals.add(clipped(str(record["duplicate_of"]), LONGEST))
        if is_unfetched(record):
            self.reasons.add(_reason(record))
        self._list(record)
        self._count_host(record)

    def _list(self, record: Record) -> None:
        if is_broken(record):
            self.totals["broken"] += 1
            status = record.get("status")
            kept = self.server_errors if isinstance(status, int) and status >= SERVER_ERROR else self.dead_links
            if len(kept) < KEPT:
                kept.append(_broken(record, "soft 404" if record["outcome"] == Outcome.SOFT404 else ""))
        elif record["outcome"] == Outcome.FAILED and len(self.failures) < KEPT_FAILURES:
            self.failures.append(_broken(record, clipped(str(record.get("error") or ""), LONGEST)))

    def _count_host(self, record: Record) -> None:
        name = host_key(str(record["url"]))
        host = self.hosts[name if name in self.chosen else REST]
        outcome, size = record["outcome"], record.get("bytes")
        host.fetched += outcome == Outcome.FETCHED
        host.broken += is_broken(record)
        host.failed += outcome == Outcome.FAILED
        host.excluded += outcome == Outcome.EXCLUDED
        host.copies += isinstance(record.get("duplicate_of"), str)
        host.size += size if isinstance(size, int) else 0


def _broken(record: Record, words: str) -> Broken:
    status, via = record.get("status"), record.get("via")
    return Broken(
        clipped(str(record["url"]), LONGEST),
        status if isinstance(status, int) else None,
        words,
        clipped(via, LONGEST) if isinstance(via, str) else None,
    )


def _reason(record: Record) -> str:
    """The rule, or the first words of the error."""
    return clipped(str(record.get("rule") or record.get("error") or record["outcome"]).partition(":")[0], _WORDS)
