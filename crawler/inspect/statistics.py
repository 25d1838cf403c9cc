"""Builds the one dictionary that ``stats --json``, the dashboard, the metrics and the summary show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict, replace

from crawler.frontier.host_status import ScriptedHosts
from crawler.frontier.pace import HostTime, Work
from crawler.frontier.rendering.recall import recall_figures
from crawler.frontier.serving import Bar, Serving
from crawler.frontier.slot_share import ALL
from crawler.job.checkpoint.generations import Manifest
from crawler.job.metrics.catalogue import KEYS, NAMED, Counters
from crawler.job.metrics.outlook import Pace, SeenAhead, time_left
from crawler.job.output.rotated_files import Size
from crawler.seen.exact.ledger import LedgerCounts
from crawler.seen.filters import SeenStatistics


class JobFigures(Struct, frozen=True):
    """What a job has stored. ``manifest`` is the newest generation's, None before the first. ``ledger`` is None for a
    job without one. ``generations`` counts those on disk. ``disk_free`` is in bytes. ``outputs``: how large each output
    is, by name. ``endless``: pages are
    visited again and again, so the crawl has no end."""

    counters: Counters
    seen: SeenStatistics
    manifest: Manifest | None
    ledger: LedgerCounts | None
    generations: int
    disk_free: int
    outputs: Mapping[str, Size]
    endless: bool = False


class HostFigures(Struct, frozen=True):
    """How many hosts have pending URLs, and how many are in each state; None while unknown. ``slowest`` takes
    longest for what it has queued; None if unknown or if nothing is queued. ``overlooked`` are the hosts that a running
    crawl should ask and does not; None if none runs. ``growing``: a host whose queue grows as fast as it is read.
    ``without_page``: how many gave none, by the cause; ``scripted``: how many probably need a browser, and the
    worst by name."""

    pending: int | None
    by_state: dict[str, int] | None
    slowest: HostTime | None = None
    overlooked: Sequence[str] | None = None
    growing: Work | None = None
    without_page: Mapping[str, int] | None = None
    scripted: ScriptedHosts | None = None


class FailingProxy(Struct, frozen=True):
    """A proxy that failed when it was asked last, ``since`` a time (seconds since 1970)."""

    proxy: str
    since: float
    reason: str


class SlotFigures(Struct, frozen=True):
    """The slots of a running crawl. ``quick``, ``new`` and ``slow`` hosts hold so many. A host whose time has come
    waits for ``due_wait_for``, None if it is asked at once; ``reason`` says why the crawl hands out nothing.
    ``shut_to``: the kinds of hosts that get no slot now, ``quick`` only if they are in no session. A host that takes
    longer than ``slow_from_seconds`` is slow. ``rate_waiting`` requests wait for the limit of ``rate`` a second."""

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
        """What the crawl can do for a host that is due."""
        new, slow, resting = ("new" not in self.shut_to, "slow" not in self.shut_to, "quick" not in self.shut_to)
        kinds = (True, new, slow, resting) if self.shut_to else ALL
        return Serving(None if self.due_wait_for is None else Bar(self.due_wait_for), kinds, self.slow_from_seconds)


class Rated(Struct, frozen=True):
    """How many of some pages that a function of the user was to score are relevant."""

    pages: int
    relevant: int

    @property
    def rate(self) -> float | None:
        return self.relevant / self.pages if self.pages else None


class RunFigures(Struct, frozen=True):
    """What only a running crawl knows. ``shown`` are statistics by their names. Others are made of the URLs handed out,
    its pace, and the last pages that a function of the user has scored."""

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
    """Return the dictionary at ``now`` (seconds since 1970). Without a ``run`` the figures of a run are None.
    ``ahead`` is what becomes of the seen-set."""
    counters, in_flight, recent = job.counters, 0, None
    pace, shown = None, dict[str, Any]()
    if run is not None:
        in_flight, recent, shown = run.in_flight, run.recent, {**run.shown}
        pace = None if job.endless else run.pace
    left = time_left(pace, counters.pending, hosts.slowest, hosts.growing)
    at_end, warning = ahead.at_end, ahead.warning
    if at_end is not None and job.ledger is not None:
        at_end = replace(at_end, urls_skipped=0.0)  # it finds them all
    shown |= {
        **counters.statistics(),
        "state": state,
        "endless": job.endless,
        "urls_pending": counters.pending - in_flight,
        "urls_in_flight": in_flight,
        **_by_last_visit(counters),
        "revisits": counters.revisits - counters.urls_returned,
        "render_cpu_seconds": counters.render_ms / 1000,
        "render_recall": recall_figures(counters.audited),
        "harvest": _harvest(counters, recent),
        "hosts_pending": hosts.pending,
        "hosts_by_state": hosts.by_state,
        "hosts_without_page": hosts.without_page,
        "hosts_need_browser": _fields(hosts.scripted),
        "hosts_overlooked": None if hosts.overlooked is None else _overlooked(hosts.overlooked),
        "slowest_host": _fields(hosts.slowest),
        "time_left": _fields(left),
        "seen": _seen(job.seen, job.ledger),
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


def _overlooked(names: Sequence[str]) -> dict[str, Any]:
    return {"count": len(names), "names": list(names[:NAMED])}


def _harvest(counters: Counters, recent: Rated | None) -> dict[str, Any] | None:
    """The harvest rate; None if no page was rated."""
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


def _seen(seen: SeenStatistics, ledger: LedgerCounts | None) -> dict[str, Any]:
    figures: dict[str, Any] = {**seen, "ledger": None}
    if ledger is not None:
        # With a ledger, these URLs are doubted instead of skipped, and fetched in the end: it counts them exactly.
        fpp = ledger.false_positives / figures["count"] if figures["count"] else 0.0
        figures |= {"expected_urls_skipped": 0.0, "ledger": {**asdict(ledger), "fpp": fpp}}
    return figures
