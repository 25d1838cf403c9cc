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
from crawler.job.metrics.outlook import Pace, SeenAhead, time_left
from crawler.job.output.rotated_files import Size
from crawler.job.records import HOOKS_ASKED, Counters
from crawler.seen.exact.ledger import LedgerCounts
from crawler.seen.filters import SeenSet
from crawler.url.refusal.own_rules import Rule
from crawler.url.scope.bounds import COUNTED

OVERLOOKED_SHOWN = 20  # names of overlooked hosts in the statistics


class JobFigures(Struct, frozen=True):
    """What a job has stored. ``manifest`` is the newest generation's, None before the first. ``ledger`` is None for a
    job without one. ``generations`` counts those on disk. ``disk_free`` is in bytes. ``outputs``: how large each output
    is, by name. ``endless``: pages are
    visited again and again, so the crawl has no end."""

    counters: Counters
    seen: SeenSet
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

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


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


class Stopped(Struct, frozen=True):
    """What stopped a run, and in words what was reached and how to go on; None if somebody stopped it."""

    by: str
    text: str | None


class RunFigures(Struct, frozen=True):
    """What only a running crawl knows: seconds since it started, URLs handed out, invalid lines of the seeds file,
    why it is paused and by what, the event loop's lag and stalls, transactions written, outages of our own line, its
    slots, the proxies that fail, pages whose text could not be extracted, what functions of the user did, how
    pages were parsed, its pages per second and its pace, the last pages that a function of the user has scored, what
    stopped it, and what waits for other partitions."""

    elapsed: float
    in_flight: int
    seeds_rejected: int
    paused: str | None
    paused_by: str | None
    lag: dict[str, float]
    stalls: dict[str, Any]
    commits: int
    outage: dict[str, Any]
    slots: SlotFigures
    proxies: dict[str, Any]
    text_failed: int
    hooks: dict[str, dict[str, Any]]
    parsed: dict[str, int]
    pages_per_second: float | None
    pace: Pace | None
    recent: Rated | None = None
    stopped: Stopped | None = None
    waiting: dict[str, Any] | None = None
    replicas: dict[str, Any] | None = None


def _of_partition(run: RunFigures | None) -> dict[str, Any]:
    if run is None:
        return {"messages_waiting": None, "replicas": None}
    return {"messages_waiting": run.waiting, "replicas": run.replicas}


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
    pace = None if run is None or job.endless else run.pace
    left = time_left(pace, job.counters.pending, hosts.slowest, hosts.growing)
    at_end, warning = ahead.at_end, ahead.warning
    if at_end is not None and job.ledger is not None:
        at_end = replace(at_end, urls_skipped=0.0)  # it finds them all
    return {
        "state": state,
        "endless": job.endless,
        "elapsed_seconds": None if run is None else run.elapsed,
        **_urls(job.counters, 0 if run is None else run.in_flight),
        "hosts": job.counters.hosts,
        "hosts_pending": hosts.pending,
        "hosts_by_state": hosts.by_state,
        "hosts_without_page": hosts.without_page,
        "hosts_need_browser": None if hosts.scripted is None else asdict(hosts.scripted),
        "slowest_host": None if hosts.slowest is None else asdict(hosts.slowest),
        "pages_per_second": None if run is None else run.pages_per_second,
        "time_left": None if left is None else asdict(left),
        "slots": None if run is None else asdict(run.slots),
        "hosts_overlooked": None if hosts.overlooked is None else _overlooked(hosts.overlooked),
        **_links(job.counters),
        "harvest": _harvest(job.counters, None if run is None else run.recent),
        "links_left_out": {limit.value: job.counters.links_left_out.get(limit, 0) for limit in COUNTED},
        "pages_at_border": job.counters.pages_left_out,
        **_visits(job.counters),
        **_rendering(job.counters),
        "seeds_rejected": None if run is None else run.seeds_rejected,
        "status": _statuses(job.counters),
        "seen": _seen(job.seen, job.ledger),
        "seen_at_end": None if at_end is None else asdict(at_end),
        "seen_warning": None if warning is None else asdict(warning),
        "commits": None if run is None else run.commits,
        "paused": None if run is None else run.paused,
        "paused_by": None if run is None else run.paused_by,
        "stopped": None if run is None or run.stopped is None else run.stopped.text,
        "stopped_by": None if run is None or run.stopped is None else run.stopped.by,
        "outage": None if run is None else run.outage,
        "proxies": None if run is None else run.proxies,
        "disk_free_bytes": job.disk_free,
        "text_failed": None if run is None else run.text_failed,
        "hooks": None if run is None else run.hooks,
        "pages_parsed": None if run is None else run.parsed,
        "outputs": {name: size._asdict() for name, size in job.outputs.items()},
        "loop_stall_seconds": None if run is None else run.lag,
        "loop_stalls": None if run is None else run.stalls,
        **_of_partition(run),
        "checkpoint": None if job.manifest is None else _checkpoint(job.manifest, job.generations, now),
    }


def _urls(counters: Counters, in_flight: int) -> dict[str, Any]:
    return {
        "urls_admitted": counters.admitted,
        "urls_pending": counters.pending - in_flight,
        "urls_in_flight": in_flight,
        "urls_excluded": counters.excluded,
        "urls_held_back": {rule.value: counters.urls_refused.get(rule, 0) for rule in Rule},
        "urls_returned": counters.returned,
        "urls_duplicate": counters.duplicates,
        "urls_known": counters.known,
        "urls_raised": counters.raised,
        **_by_last_visit(counters),
        "pages_fetched": counters.fetched,
        "pages_failed": counters.failed,
        "pages_redirected": counters.redirected,
        "pages_soft404": counters.soft404,
        "pages_blocked": counters.blocked,
        "internal_failures": counters.internal,
        "pages_code_failed": counters.code_failed,
        "calls_code_failed": {hook: getattr(counters, f"{hook}_failed") for hook in HOOKS_ASKED},
    }


def _by_last_visit(counters: Counters) -> dict[str, Any]:
    ok, redirects, server_errors, client_errors, *others = counters.urls
    by_outcome = {"fetched": counters.pages, "redirect": redirects}
    by_outcome |= zip(("soft404", "failed", "blocked", "excluded"), others, strict=True)
    return {
        "urls_by_outcome": by_outcome,
        "pages_by_status": {"2xx": ok, "4xx": client_errors, "5xx": server_errors},
    }


def _overlooked(names: Sequence[str]) -> dict[str, Any]:
    return {"count": len(names), "names": list(names[:OVERLOOKED_SHOWN])}


def _links(counters: Counters) -> dict[str, int]:
    return {
        "links_found": counters.links,
        "links_off_scope": counters.off_scope,
        "links_not_included": counters.not_included,
        "links_excluded": counters.excluded_by_pattern,
        "links_rejected": counters.rejected_links,
        "links_too_deep": counters.too_deep,
        "links_too_long": counters.too_long,
        "links_filtered": counters.filtered,
        "links_sent_elsewhere": counters.sent_elsewhere,
        "links_trapped": counters.trapped,
        "sitemaps_read": counters.sitemaps,
        "links_of_copies": counters.links_of_copies,
        "links_of_soft404": counters.links_of_soft404,
    }


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


def _visits(counters: Counters) -> dict[str, int]:
    return {
        "pages_copies": counters.copies,
        "soft404_probes": counters.probes,
        "pages_cut": counters.pages_cut,
        "pages_scheduled": counters.scheduled,
        "revisits": counters.revisits - counters.returned,
        "revisits_pending": counters.revisits_pending,
        "revisits_changed": counters.changed,
        "revisits_not_modified": counters.not_modified,
        "bytes_fetched": counters.body_bytes,
        "retries": counters.retries,
        "throttled": counters.throttled,
        "robots_fetched": counters.robots_fetched,
        "robots_unreachable": counters.robots_unreachable,
        "robots_stale": counters.robots_stale,
        "robots_cut": counters.robots_cut,
        "seeds": counters.seeds,
    }


def _rendering(counters: Counters) -> dict[str, Any]:
    return {
        "pages_rendered": {"yes": counters.rendered, "partly": counters.rendered_partly, "no": counters.not_rendered},
        "render_cpu_seconds": counters.render_ms / 1000,
        "render_recall": recall_figures(counters.audited),
        "render_requests": {"made": 0, "cached": 0, **counters.render_requests},
    }


def _statuses(counters: Counters) -> dict[str, int]:
    return {
        "2xx": counters.status_2xx,
        "3xx": counters.status_3xx,
        "4xx": counters.status_4xx,
        "5xx": counters.status_5xx,
    }


def _checkpoint(manifest: Manifest, kept: int, now: float) -> dict[str, Any]:
    return {
        "generation": manifest.generation,
        "age_seconds": max(0.0, now - manifest.written_at),
        "seconds": manifest.seconds,
        "bytes": manifest.bytes,
        "kept": kept,
    }


def _seen(seen: SeenSet, ledger: LedgerCounts | None) -> dict[str, Any]:
    figures: dict[str, Any] = {**seen.statistics(), "ledger": None}
    if ledger is not None:
        # With a ledger, these URLs are doubted instead of skipped, and fetched in the end: it counts them exactly.
        fpp = ledger.false_positives / figures["count"] if figures["count"] else 0.0
        figures |= {"expected_urls_skipped": 0.0, "ledger": {**asdict(ledger), "fpp": fpp}}
    return figures
