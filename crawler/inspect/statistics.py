"""The one dictionary that ``stats --json``, the dashboard, the metrics and the summary show."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from crawler.checkpoint import Manifest
from crawler.exact import LedgerCounts, Seen
from crawler.records import Counters


def assemble(
    counters: Counters,
    seen: Seen,
    manifest: Manifest | None,
    ledger: LedgerCounts | None,
    *,
    now: float,
    state: str,
    in_flight: int,
    hosts_pending: int | None,
    hosts_by_state: dict[str, int] | None,
    elapsed: float | None,
    seeds_rejected: int | None,
    paused: str | None,
    disk_free: int,
    stall: dict[str, float] | None,
    advice: dict[str, Any] | None,
    commits: int | None,
    kept: int,
) -> dict[str, Any]:
    """``now`` in seconds since 1970, ``disk_free`` in bytes. ``elapsed`` (seconds), ``seeds_rejected`` (lines of the
    seeds that are no URL), ``paused`` (why no step can be written), ``stall``, ``advice`` and ``commits`` (steps
    written) belong to a run: None when none is running. ``kept`` generations stand on the disk."""
    return {
        "state": state,
        "elapsed_seconds": elapsed,
        "urls_admitted": counters.admitted,
        "urls_pending": counters.pending - in_flight,
        "urls_in_flight": in_flight,
        "urls_excluded": counters.excluded,
        "urls_duplicate": counters.duplicates,
        "pages_fetched": counters.fetched,
        "pages_failed": counters.failed,
        "pages_redirected": counters.redirected,
        "hosts": counters.hosts,
        "hosts_pending": hosts_pending,
        "hosts_by_state": hosts_by_state,
        "links_found": counters.links,
        "links_off_scope": counters.off_scope,
        "links_not_included": counters.not_included,
        "links_excluded": counters.excluded_by_pattern,
        "links_rejected": counters.rejected_links,
        "links_too_deep": counters.too_deep,
        "links_too_long": counters.too_long,
        "links_trapped": counters.trapped,
        "sitemaps_read": counters.sitemaps,
        "links_of_copies": counters.links_of_copies,
        "pages_copies": counters.copies,
        "pages_cut": counters.pages_cut,
        "pages_scheduled": counters.scheduled,
        "revisits": counters.revisits,
        "revisits_pending": counters.revisits_pending,
        "revisits_changed": counters.changed,
        "revisits_not_modified": counters.not_modified,
        "bytes_fetched": counters.body_bytes,
        "retries": counters.retries,
        "throttled": counters.throttled,
        "robots_fetched": counters.robots_fetched,
        "seeds": counters.seeds,
        "seeds_rejected": seeds_rejected,
        "status": {
            "2xx": counters.status_2xx,
            "3xx": counters.status_3xx,
            "4xx": counters.status_4xx,
            "5xx": counters.status_5xx,
        },
        "seen": _seen(seen, ledger),
        "advice": advice,
        "commits": commits,
        "paused": paused,
        "disk_free_bytes": disk_free,
        "loop_stall_seconds": stall,
        "checkpoint": None
        if manifest is None
        else {
            "generation": manifest.generation,
            "age_seconds": max(0.0, now - manifest.written_at),
            "seconds": manifest.seconds,
            "bytes": manifest.bytes,
            "kept": kept,
        },
    }


def _seen(seen: Seen, ledger: LedgerCounts | None) -> dict[str, Any]:
    figures: dict[str, Any] = {**seen.statistics(), "ledger": None}
    if ledger is not None:
        # What would have been skipped is doubted, and fetched in the end.
        figures |= {"expected_urls_skipped": 0.0, "ledger": asdict(ledger)}
    return figures
