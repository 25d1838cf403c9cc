"""Where a crawl is going, in three figures: its pages per second, the time left with the host that determines it, and
the seen-set at the end. `paragraph` puts them into words.

The same figures serve a job that runs, one at rest (which has no pace) and a crawl of partitions, whose figures
``pooled_stats`` makes of those of the partitions.

Each finished URL brings ``share`` others, each of these as many again, and so on. If ``share`` is small, the geometric
series tells how many URLs there will be. Otherwise only a lower bound of the time is known, and nothing of the end.

Pure: times are arguments.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from itertools import islice
from typing import Any

from msgspec import Struct

from crawler.base.figures import counted, duration, per_second, probability, share
from crawler.frontier.pace import HostTime, Work
from crawler.frontier.traps.shape import split_path, variants_of
from crawler.seen.filters.planning import next_size, schedule, successor_plan
from crawler.seen.filters.protocol import SeenStatistics
from crawler.seen.slices.errors import FilterError
from crawler.seen.slices.fpp_model import compound

LATELY, RECENTLY = 10.0, 60.0  # seconds over which pages are counted: the longer, the fewer there are
ENOUGH = 10  # pages that suffice to end this time
SHORTEST, LONGEST = 60.0, 1_800.0  # seconds over which a pace is measured: the longer the fewer URLs are finished
FINISHED = 30  # URLs that suffice to end this time
LEAST = 10  # finished URLs, with fewer there is no pace
FIRST = 10.0  # seconds of observations before a time left is shown
GROWS = 1 / 3  # new URLs for each finished one, from which on the end is not in sight
DETERMINES = 0.85  # of the time left: a host that takes so much of it determines it, and its own pace is known better
SHOWN = 200  # characters of a pattern
NEARLY_FULL = 0.9  # of the capacity of a slice


class Look(Struct, frozen=True):
    """An observation at ``at`` (seconds, increasing): URLs that are left and done, and fetched pages."""

    at: float
    left: int
    done: int
    pages: int


class Pace(Struct, frozen=True):
    """URLs finished per second, and URLs found for each of them; None if too few were finished."""

    finished: float | None
    share: float | None

    @property
    def grows(self) -> bool:
        return self.share is None or self.share > GROWS


class Observed:
    """The last observations of a running crawl."""

    def __init__(self) -> None:
        self._looks: deque[Look] = deque()

    def forget(self) -> None:
        """The crawl does not run, which says nothing about its pace."""
        self._looks.clear()

    def look(self, look: Look) -> None:
        """Add an observation, about once a second."""
        looks = self._looks
        if looks and look.at <= looks[-1].at:
            looks.clear()  # the clock was set back
        looks.append(look)
        while len(looks) > 2 and self._is_enough(looks[1]):
            looks.popleft()

    def _is_enough(self, first: Look) -> bool:
        now = self._looks[-1]
        return now.at - first.at >= (SHORTEST if now.done - first.done >= FINISHED else LONGEST)

    @property
    def pages_per_second(self) -> float | None:
        if len(self._looks) < 2:
            return None
        now, first = self._looks[-1], self._looks[-2]
        for look in reversed(self._looks):
            if now.at - look.at > RECENTLY or (now.at - first.at >= LATELY and now.pages - first.pages >= ENOUGH):
                break
            first = look if look is not now else first
        return (now.pages - first.pages) / (now.at - first.at)

    @property
    def pace(self) -> Pace | None:
        """None until the crawl was observed for a moment."""
        if not self._looks or self._looks[-1].at - self._looks[0].at < FIRST:
            return None
        first, now = self._looks[0], self._looks[-1]
        finished = now.done - first.done
        if finished < LEAST:
            return Pace(None, None)
        found = max(0, now.left + now.done - first.left - first.done)
        return Pace(finished / (now.at - first.at), found / finished)


class TimeLeft(Struct, frozen=True):
    """The time to the end of a crawl. ``at_least``: the crawl still finds URLs, so it may well take longer. ``host`` is
    the one that takes so long, None if it is no single host. ``grows``: its queue, as fast as it is read; ``like``: the
    pattern of its URLs, if they also are far from the seeds."""

    seconds: float
    at_least: bool
    host: str | None
    grows: bool = False
    like: str = ""


def time_left(pace: Pace | None, left: int, slowest: HostTime | None, growing: Work | None = None) -> TimeLeft | None:
    """Return how long ``left`` URLs take: all hosts together at their pace, or the slowest one. None if unknown. A host
    that is ``growing`` has no end in sight, so it determines the time unless the whole crawl still grows."""
    if pace is None or not left:
        return None
    seconds, host = 0.0, None
    if pace.finished is not None and pace.share is not None:
        seconds = left / pace.finished / (1 if pace.grows else 1 - pace.share)
    if slowest is not None and slowest.seconds > 0 and slowest.seconds >= DETERMINES * seconds:
        seconds, host = slowest.seconds, slowest.name
    if not seconds or growing is None:
        return TimeLeft(seconds, pace.grows, host) if seconds else None
    like = (growing.deep and variants_of(*split_path(growing.deep[growing.deep.find("/", 8) :]))) or ""
    host = growing.name if like or not pace.grows else host
    return TimeLeft(seconds, True, host, host == growing.name, like[:SHOWN])


class SeenAtEnd(Struct, frozen=True):
    """The seen-set when no URLs are left. ``fill`` is the share of its capacity in use, ``fpp`` the compound one,
    ``urls_skipped`` the expected number."""

    urls: int
    fill: float
    fpp: float
    urls_skipped: float


class _Slice(Struct):
    capacity: int
    fpp: float  # when full
    count: float = 0.0
    now: float = 0.0  # its fpp at present

    def fpp_then(self, *, bloom: bool) -> float:
        """The fpp with ``count`` keys: in proportion to them, or, if half the bits of a full slice are set, as it
        follows from these."""
        part = self.count / self.capacity
        rises = (2 - 2 * 2.0**-part) ** -math.log2(self.fpp) if bloom else part
        return max(self.now, min(1.0, self.fpp * rises))


def seen_at_end(
    seen: SeenStatistics, parameters: Mapping[str, Any], left: int, pace: Pace | None, compact_slices: int = 0
) -> SeenAtEnd | None:
    """Return what becomes of a seen-set with these ``statistics()`` and ``parameters()``. ``compact_slices``: how many
    slices of a scalable chain are rebuilt as one; 0 for never. None if the end is not in sight, or for the exact
    kind, whose slices decide nothing."""
    more = 0.0
    if parameters["kind"] == "exact":
        return None
    if left:
        if pace is None or pace.share is None or pace.grows:
            return None
        more = left * pace.share / (1 - pace.share)
    try:
        chain = _grown(seen, parameters, more, compact_slices)
    except (FilterError, OverflowError):
        return None  # it cannot hold as much
    bloom = parameters["kind"] in ("scalable", "bloom", "counting")
    fpp = compound(part.fpp_then(bloom=bloom) for part in chain) if more else seen["fpp_estimated"]
    skipped = (seen["expected_urls_skipped"] or 0.0) + more * (seen["fpp_estimated"] + fpp) / 2
    fill = sum(part.count for part in chain) / sum(part.capacity for part in chain)
    return SeenAtEnd(seen["count"] + round(more), fill, fpp, skipped)


def _grown(seen: SeenStatistics, parameters: Mapping[str, Any], more: float, compact_slices: int) -> list[_Slice]:
    slices = seen["slices"]
    chain = [_Slice(each["capacity"], each["fpp_design"], each["count"], each["fpp_estimated"]) for each in slices]
    planned = schedule(parameters, slices[0]["capacity"] if seen["compactions"] else None)
    following = islice(planned, len(chain), None)
    growing = parameters.get("growth") is not None
    while more > 0:
        if parameters["kind"] == "scalable" and 0 < compact_slices <= len(chain):
            made = successor_plan(sum(part.capacity for part in chain[:-1]), parameters)
            chain = [_Slice(made.capacity, made.fpp, sum(part.count for part in chain))]
            following = islice(schedule(parameters, made.capacity), 1, None)
        last = chain[-1]
        step = min(more, max(0.0, last.capacity - last.count)) if growing else more
        last.count += step
        more -= step
        if more > 0:
            made = next(following)
            chain.append(_Slice(made.capacity, made.fpp))
    return chain


class SeenWarning(Struct, frozen=True):
    """Why a seen-set will soon be in trouble: one of the causes in the catalogue, and in words."""

    cause: str
    text: str


def seen_warning(
    seen: SeenStatistics, parameters: Mapping[str, Any], memory: int | None, compact_slices: int = 0
) -> SeenWarning | None:
    """Return a warning if the last slice is nearly full, and no other follows it or the ``memory`` (free bytes, None if
    unknown) does not suffice for that."""
    last = seen["slices"][-1] if seen["slices"] else None
    if last is None or last["count"] < NEARLY_FULL * last["capacity"]:
        return None
    try:
        size = next_size(seen, parameters, compact_slices)
    except FilterError:
        return None  # this kind has no slices of its own
    if size is None:
        more = "none" if seen["kind"] == "cuckoo" else f"more at an fpp above {probability(seen['fpp_target'])}"
        holds = f"the filter holds {last['count']:,} of the {counted(last['capacity'], 'key')} that it was made for"
        return SeenWarning("full", f"{holds}, and then accepts {more} (--capacity makes room)")
    if memory is not None and size > memory:
        return SeenWarning("memory", f"the next slice takes {size:,} bytes of memory, and {memory:,} are free")
    return None


class SeenAhead(Struct, frozen=True):
    """What becomes of a seen-set."""

    at_end: SeenAtEnd | None = None
    warning: SeenWarning | None = None


def next_look(seen: SeenStatistics) -> int:
    """Return the number of keys at which `seen_warning` may change."""
    last = seen["slices"][-1]
    before = seen["count"] - last["count"]
    soon = before + math.ceil(NEARLY_FULL * last["capacity"])
    return soon if seen["count"] < soon else max(seen["count"], before + last["capacity"]) + 1


# -- in words --------------------------------------------------------------------------------------------------------


def pace_words(stats: Mapping[str, Any]) -> str:
    """Return the pages per second and the time left of a running crawl that brings pages."""
    text, left = f"{per_second(stats['pages_per_second'])} pages/s", stats.get("time_left")
    if left is None:
        return text
    why = "" if left["host"] is None else f" for {left['host']}"
    why += ", whose queue grows as fast as it is read" if left.get("grows") else ""
    return f"{text}, {'at least' if left['at_least'] else 'about'} {duration(left['seconds'])} to go{why}"


def seen_words(stats: Mapping[str, Any]) -> str:
    """Return what the seen-set will be at the end of a running crawl; empty if that is unknown."""
    end = stats.get("seen_at_end")
    if end is None or stats.get("state") not in ("running", "paused"):
        return ""
    skipped = end["urls_skipped"]
    wrong = f"about {counted(skipped, 'URL')}" if skipped >= 0.95 else f"{'probably ' if skipped else ''}no URLs"
    return (
        f"At the end the seen-set will hold about {counted(end['urls'], 'URL')} and be {share(end['fill'])} full, "
        f"with a chance of {probability(end['fpp'])} and {wrong} skipped by mistake."
    )


def paragraph(stats: Mapping[str, Any]) -> str:
    """Return the three figures of a running crawl in words; empty if none is known."""
    running = stats.get("state") == "running" and stats.get("pages_per_second") is not None
    return " ".join(filter(None, [f"{pace_words(stats)}." if running else "", seen_words(stats)]))
