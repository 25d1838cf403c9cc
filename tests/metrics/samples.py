"""Statistics of a crawl as tests like to have them."""

from __future__ import annotations

import copy
from typing import Any

_FULL: dict[str, Any] = {
    "state": "running",
    "elapsed_seconds": 12.5,
    "urls_admitted": 12_345,
    "urls_pending": 2_000,
    "urls_in_flight": 64,
    "pages_fetched": 10_000,
    "pages_failed": 81,
    "pages_redirected": 150,
    "urls_excluded": 50,
    "hosts": 7,
    "hosts_pending": 5,
    "links_found": 400_000,
    "links_off_scope": 30_000,
    "links_not_included": 21,
    "links_excluded": 17,
    "links_rejected": 12,
    "links_too_deep": 40,
    "links_too_long": 3,
    "links_trapped": 4,
    "sitemaps_read": 2,
    "links_of_copies": 11,
    "pages_copies": 6,
    "pages_cut": 1,
    "urls_duplicate": 357_643,
    "bytes_fetched": 370_000_000,
    "retries": 9,
    "throttled": 5,
    "robots_fetched": 7,
    "seeds": 20,
    "seeds_rejected": 1,
    "paused": None,
    "disk_free_bytes": 40_000_000_000,
    "loop_stall_seconds": {"p99": 0.003, "longest": 0.02, "total": 0.0},
    "status": {"2xx": 9_800, "3xx": 150, "4xx": 190, "5xx": 10},
    "seen": {
        "kind": "scalable",
        "slices": [
            {
                "capacity": 8_000,
                "count": 8_000,
                "bits": 131_072,
                "hashes": 12,
                "fill": 0.4875,
                "fpp_design": 0.0002,
                "fpp_estimated": 0.00019,
            },
            {
                "capacity": 16_000,
                "count": 4_345,
                "bits": 278_528,
                "hashes": 13,
                "fill": 0.17,
                "fpp_design": 0.00016,
                "fpp_estimated": 1.0e-10,
            },
        ],
        "count": 12_345,
        "count_estimated": 12_340.5,
        "fpp_target": 0.001,
        "fpp_bound": 0.0008,
        "fpp_estimated": 0.00019,
        "fpp_measured": {"value": 0.0002, "low": 0.0001, "high": 0.0003, "sample": 50_000},
        "expected_urls_skipped": 2.3,
        "bytes": 51_200,
        "bits_per_url": 33.18,
        "compactions": 0,
        "ledger": {"waiting": 12, "confirmed": 3_456, "false_positives": 2},
    },
    "advice": {
        "full_at": 24_000,
        "urls_left": 11_655,
        "seconds_left": 24.5,
        "fpp_then": 0.0005,
        "next_size": 65_536,
        "size_then": 116_736,
        "warning": "the fpp reaches its target of 0.001 in 11,655 URLs, and climbs then",
        "cause": "target",
        "new_urls_per_second": 475.5,
    },
    "commits": 25_000,
    "checkpoint": {"generation": 4, "age_seconds": 3.5, "seconds": 0.2, "bytes": 51_300, "kept": 2},
}


def statistics(**changes: Any) -> dict[str, Any]:
    """Every key filled in, less what ``changes`` says otherwise."""
    return copy.deepcopy(_FULL) | changes
