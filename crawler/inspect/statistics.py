"""Builds the dictionary shown by ``stats --json``, the dashboard, the metrics and the summary."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict, replace

from crawler.frontier.capacity import Bar, Serving
from crawler.frontier.rendering.recall import recall_figures
from crawler.frontier.slot_share import ALL
from crawler.inspect.host_states import HostCount
from crawler.job.checkpoint.generations import Manifest
from crawler.job.metrics.catalogue import KEYS, Counters
from crawler.job.metrics.outlook import Pace, SeenAhead, time_left
from crawler.job.output.rotated_files import Size
from crawler.seen.exact.ledger import LedgerCounts
from crawler.seen.filters import SeenStatistics
from crawler.seen.filters.watched_keys import wilson


class JobFigures(Struct, frozen=True):
    """The stored state of a job. ``manifest`` is that of the newest generation, None if there is none. ``ledger`` is
    None for a job without a ledger. ``generations`` is the number of generations on disk. ``disk_free`` is in bytes.
    ``outputs`` maps names of outputs to their sizes. ``endless``: pages are revisited forever, so the crawl does not
    end."""

    counters: Counters
    seen: SeenStatistics
    manifest: Manifest | None
    ledger: LedgerCounts | None
    generations: int
    disk_free: int
    outputs: Mapping[str, Size]
    endless: bool = False


class HostFigures(Struct, frozen=True):
    """The number of hosts with pending URLs, and of those that returned no page, by cause. ``found`` is the last count
    of all hosts; None if there is none."""

    pending: int
    without_page: Mapping[str, int]
    found: HostCount | None


class FailingProxy(Struct, frozen=True):
    """A proxy whose last request failed; ``since`` is the time of the first failure (seconds since 1970)."""

    proxy: str
    since: float
    reason: str


class SlotFigures(Struct, frozen=True):
    """The slots of a running crawl. ``quick``, ``new`` and ``slow`` are the numbers of slots that these kinds of hosts
    use. ``due_wait_for`` is what a due host waits for; None if it gets a request immediately; ``reason`` is why the
    crawl hands out no URLs. ``shut_to`` lists the kinds of hosts that get no slot now; if it lists ``quick``, this
    means only the quick hosts that are not in a session. A host slower than ``slow_from_seconds`` is slow.
    ``rate_waiting`` requests wait for the limit of ``rate`` a second."""

    total: int
    free: int
    quick: int
    new: int
    slow: int
    due_wait_for: Bar | None
    reason: str | None
    shut_to: list[str]
    slow_from_seconds: float
    rate: float | None
    rate_waiting: int

    @property
    def serving(self) -> Serving:
        """The current capacity of the crawl for hosts that are due."""
        new, slow, resting = ("new" not in self.shut_to, "slow" not in self.shut_to, "quick" not in self.shut_to)
        kinds = (True, new, slow, resting) if self.shut_to else ALL
        return Serving(None if self.due_wait_for is None else Bar(self.due_wait_for), kinds, self.slow_from_seconds)


class Rated(Struct, frozen=True):
    """The number of pages given to the user's scoring function, and how many of them are relevant."""

    pages: int
    relevant: int

    @property
    def rate(self) -> float | None:
        return self.relevant / self.pages if self.pages else None


class RunFigures(Struct, frozen=True):
    """The figures that only a running crawl has: ``shown`` are statistics by name; other statistics are computed from
    the number of URLs in flight, the crawl's pace, and the pages that the user's function scored last."""

    shown: Mapping[str, Any]
    in_flight: int
    pace: Pace | None
    recent: Rated | None = None


def assemble(
    job: JobFigures,
    hosts: HostFigures,
    run: RunFigures | None,
    *,
    state: str,
    now: float,
    ahead: SeenAhead,
) -> dict[str, Any]:
    """Return the statistics as of ``now`` (seconds since 1970). If ``run`` is None, the figures that only a running
    crawl has are also None. ``ahead`` is the forecast for the seen-set."""
    counters, in_flight, recent = job.counters, 0, None
    pace, shown = None, dict[str, Any]()
    if run is not None:
        in_flight, recent, shown = run.in_flight, run.recent, {**run.shown}
        pace = None if job.endless else run.pace
    found = hosts.found
    slowest, growing = (None, None) if found is None else (found.times.slowest, found.times.growing)
    left = time_left(pace, counters.pending, slowest, growing)
    at_end, warning, seen = ahead.at_end, ahead.warning, _own(job.seen, counters.urls_admitted)
    if at_end is not None:
        # The ledger finds all URLs that the seen-set would skip.
        skipped = at_end.urls_skipped if job.ledger is None else 0.0
        at_end = replace(at_end, urls=at_end.urls - job.seen["count"] + seen["count"], urls_skipped=skipped)
    shown |= {
        **counters.statistics(),
        "state": state,
        "endless": job.endless,
        "urls_pending": counters.pending - in_flight,
        "urls_in_flight": in_flight,
        "urls_retrying": found and found.retrying,
        **_by_last_visit(counters),
        "revisits": counters.revisits - counters.urls_returned,
        "render_cpu_seconds": counters.render_ms / 1000,
        "render_recall": recall_figures(counters.audited),
        "harvest": _harvest(counters, recent),
        "hosts_pending": hosts.pending,
        "hosts_by_state": found and found.counts,
        "hosts_without_page": hosts.without_page,
        "hosts_need_browser": _fields(found and found.scripted),
        "slowest_host": _fields(slowest),
        "time_left": _fields(left),
        "seen": _seen(seen, job.ledger),
        "seen_at_end": _fields(at_end),
        "seen_warning": _fields(warning),
        "disk_free_bytes": job.disk_free,
        "outputs": {name: size._asdict() for name, size in job.outputs.items()},
        "checkpoint": None if job.manifest is None else _checkpoint(job.manifest, job.generations, now),
    }
    stats = {key: shown.pop(key, None) for key in KEYS}
    assert not shown, f"not in the catalogue: {', '.join(shown)}"
    return stats


def _fields(value: Struct | None) -> dict[str, Any] | None:
    return None if value is None else asdict(value)


def _by_last_visit(counters: Counters) -> dict[str, Any]:
    ok, redirects, server_errors, client_errors, *others = counters.urls
    by_outcome = {"fetched": counters.pages, "redirect": redirects}
    by_outcome |= zip(("soft404", "failed", "blocked", "excluded"), others, strict=True)
    return {
        "urls_by_outcome": by_outcome,
        "pages_by_status": {"2xx": ok, "4xx": client_errors, "5xx": server_errors},
    }


def _harvest(counters: Counters, recent: Rated | None) -> dict[str, Any] | None:
    """Return the harvest rate; None if no page was scored."""
    rated = Rated(counters.rated, counters.relevant)
    if not rated.pages:
        return None
    return {
        "rated": rated.pages,
        "relevant": rated.relevant,
        "rate": rated.rate,
        "recent_pages": None if recent is None else recent.pages,
        "recent_rate": None if recent is None else recent.rate,
    }


def _checkpoint(manifest: Manifest, kept: int, now: float) -> dict[str, Any]:
    return {
        "generation": manifest.generation,
        "age_seconds": max(0.0, now - manifest.written_at),
        "seconds": manifest.seconds,
        "bytes": manifest.bytes,
        "kept": kept,
    }


def _own(seen: SeenStatistics, admitted: int) -> SeenStatistics:
    """Return the figures for the ``admitted`` URLs that the job counts. The seen-set of a partition that resulted from
    a split also has the URLs that the other partitions count."""
    if seen["count"] <= admitted:
        return seen
    share, measured = admitted / seen["count"], seen["fpp_measured"]
    own: SeenStatistics = {
        **seen,
        "count": admitted,
        "count_estimated": seen["count_estimated"] * share,
        "bits_per_url": seen["bytes"] * 8 / admitted if admitted else None,
        "fpp_measured": None,
    }
    if measured is not None and (sample := round(measured["sample"] * share)):
        low, high = wilson(measured["value"] * sample, sample)
        own["fpp_measured"] = {"value": measured["value"], "low": low, "high": high, "sample": sample}
    return own


def _seen(seen: SeenStatistics, ledger: LedgerCounts | None) -> dict[str, Any]:
    figures: dict[str, Any] = {**seen, "ledger": None}
    if ledger is not None:
        # With a ledger, these URLs are doubted instead of skipped, and fetched later: the ledger counts them exactly.
        fpp = ledger.false_positives / figures["count"] if figures["count"] else 0.0
        figures |= {"expected_urls_skipped": 0.0, "ledger": {**asdict(ledger), "fpp": fpp}}
    return figures
