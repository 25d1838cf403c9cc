"""Traps with limits that a small web reaches."""

from __future__ import annotations

import pytest

from crawler.frontier.traps import traps

_PLACES = {
    "max_segments": ("shape.MAX_SEGMENTS",),
    "max_repeats": ("shape.MAX_REPEATS",),
    "max_query_shapes": (),
    "max_ports": ("origins.MAX_PORTS",),
    "max_id_copies": ("ids.MAX_ID_COPIES",),
    "max_records": ("traps.MAX_RECORDS", "origins.MAX_RECORDS"),
    "domain_factor": ("counts.DOMAIN_FACTOR", "traps.DOMAIN_FACTOR"),
}


def limit_traps(patch: pytest.MonkeyPatch, **limits: int) -> None:
    for name, most in limits.items():
        for place in _PLACES[name]:
            patch.setattr(f"crawler.frontier.traps.{place}", most)
        if name in traps.MOST:
            patch.setitem(traps.MOST, name, most)
