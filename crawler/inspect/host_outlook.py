"""How fast a host may be asked, how far it is, and how long its own URLs will take: keys that are added to its row."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from crawler.frontier import HostState
from crawler.frontier.pace import seconds_per_url
from crawler.inspect.host_table import SORTS, Row
from crawler.settings import PolitenessSettings

OUTLOOK = ("pace", "seconds_left", "share")
OUTLOOK_SORTS = (*SORTS, *OUTLOOK)

# Nobody knows when these are asked again, if ever.
_CLOSED = (HostState.BLOCKED, HostState.RETIRED, HostState.PAUSED)


def with_outlook(rows: Iterable[Row], politeness: Callable[[str], PolitenessSettings]) -> list[Row]:
    """The rows with ``pace`` (pages a minute), ``seconds_left`` and ``share``; None is not known. ``politeness`` are
    the settings of a host."""
    return [row | _outlook(row, politeness(row["host"]).per_host) for row in rows]


def sortable(sort: str, rows: Iterable[Row], politeness: Callable[[str], PolitenessSettings]) -> Iterable[Row]:
    """The rows with what they are sorted by: a look ahead costs something for each of them."""
    if sort not in OUTLOOK:
        return rows
    return (row | _outlook(row, politeness(row["host"]).per_host) for row in rows)


def pace(each: float) -> float | None:
    """Pages a minute of a host whose URLs take so many seconds each; None is not known."""
    return 60.0 / each if each else None


def seconds_left(state: HostState, left: int, each: float, slowed: float | None, wait: float) -> float | None:
    """Seconds until ``left`` URLs of a host have been asked for, from its next time in ``wait`` seconds on. Each takes
    ``each`` and what the refusals of the host add (``backoff_policy.slowed``)."""
    if state in _CLOSED:
        return None
    if not left:
        return 0.0
    # Without a gap, and before the first response, a URL seems to take no time at all.
    return wait + left * (each + slowed) if each and slowed is not None else None


def _outlook(row: Row, per_host: int) -> Row:
    each = seconds_per_url(row["gap_seconds"], row["latency_seconds"], per_host)
    done, left = row["fetched"] + row["failed"], row["pending"] + row["in_flight"]
    return {
        "pace": pace(each),
        "seconds_left": seconds_left(row["state"], left, each, row["slowed_seconds"], row["wait_seconds"]),
        "share": done / (done + left) if done + left else None,
    }
