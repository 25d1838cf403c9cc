"""How fast a host is asked, how far it is, and how long its own URLs will take: keys that are added to its row."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from crawler.base.settings import PolitenessSettings
from crawler.frontier import HostState
from crawler.frontier.tries_ahead import Pace
from crawler.inspect.host_table import SORTS, Row

OUTLOOK = ("pace", "seconds_left", "share")
OUTLOOK_SORTS = (*SORTS, *OUTLOOK)

# Nobody knows when these are asked again, if ever.
_CLOSED = (HostState.BLOCKED, HostState.RETIRED, HostState.PAUSED)


def with_outlook(
    rows: Iterable[Row], politeness: Callable[[str], PolitenessSettings], *, running: bool = True
) -> list[Row]:
    """The rows with ``pace`` (pages a minute), ``seconds_left`` and ``share``; None is not known. ``politeness`` are
    the settings of a host. ``running``: the crawl hands out URLs, otherwise no host has a pace."""
    return [row | _outlook(row, politeness(row["host"]).per_host, running) for row in rows]


def sortable(
    sort: str, rows: Iterable[Row], politeness: Callable[[str], PolitenessSettings], *, running: bool = True
) -> Iterable[Row]:
    """The rows with what they are sorted by: a look ahead costs something for each of them."""
    if sort not in OUTLOOK:
        return rows
    return (row | _outlook(row, politeness(row["host"]).per_host, running) for row in rows)


def pace(state: HostState, finished: int, each: float, slowed: float | None) -> float | None:
    """Pages a minute that a host finishes, whose URLs take ``each`` seconds and what further tries and holds add. None
    is not known: it has ``finished`` none, or does not answer, or nothing of it is asked for."""
    if state in _CLOSED or state is HostState.IDLE or not finished or slowed is None:
        return None
    return 60.0 / (each + slowed) if each + slowed else None


def seconds_left(state: HostState, left: int, each: float, slowed: float | None, wait: float) -> float | None:
    """Seconds until ``left`` URLs of a host have been asked for, from its next time in ``wait`` seconds on. Each takes
    ``each`` and what further tries and holds add (``tries_ahead.slowed``)."""
    if state in _CLOSED:
        return None
    if not left:
        return 0.0
    # Without a gap, and before the first response, a URL seems to take no time at all.
    return wait + left * (each + slowed) if each and slowed is not None else None


def share(fetched: int, failed: int, left: int) -> float | None:
    """The share of a host's URLs that is finished. None is not known: it gave nothing, and nothing is left of it."""
    return (fetched + failed) / (fetched + failed + left) if fetched or left else None


def _outlook(row: Row, per_host: int, running: bool) -> Row:
    each = Pace(row["gap_seconds"], row["latency_seconds"]).each(per_host)
    left, state, slowed = row["pending"] + row["in_flight"], row["state"], row["slowed_seconds"]
    return {
        "pace": pace(state, row["fetched"] + row["failed"], each, slowed) if running else None,
        "seconds_left": seconds_left(state, left, each, slowed, row["wait_seconds"]),
        "share": share(row["fetched"], row["failed"], left),
    }
