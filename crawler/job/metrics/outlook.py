"""The outlook of a crawl in three figures: its pages per second, the time left (with the host that determines it), and
the seen-set at the end. `paragraph` puts them into words.

The same figures serve a running job, a job at rest (which has no pace) and a crawl of partitions, for which
``pooled_stats`` combines the figures of the partitions.

Each finished URL yields ``share`` new URLs, each new URL again yields ``share``, and so on. If ``share`` is small, the
geometric series gives the final number of URLs. Otherwise only a lower bound of the time is known, and nothing about
the seen-set at the end. Pure: times are arguments.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from itertools import islice, pairwise
from typing import Any

from msgspec import Struct

from crawler.base.figures import counted, duration, probability, share
from crawler.frontier.host import Host
from crawler.frontier.pace import HostTime
from crawler.frontier.traps.shape import split_path, variants_of
from crawler.seen.filters.planning import next_size, schedule, successor_plan
from crawler.seen.filters.protocol import SeenStatistics
from crawler.seen.slices.errors import FilterError
from crawler.seen.slices.fpp_model import compound

LATELY, RECENTLY = 10.0, 60.0  # window in seconds for pages per second: the fewer pages, the longer the window
ENOUGH = 10  # pages after which the window need not grow
SHORTEST, LONGEST = 60.0, 1_800.0  # window in seconds for the pace: the fewer finished URLs, the longer the window
FINISHED, LATEST = 30, 100  # finished URLs that suffice for the shortest window, and for their new URLs
LEAST = 10  # minimum number of finished URLs for which the pace is known
FIRST = 10.0  # minimum seconds of observation after which the pace is known
GROWS = 1 / 3  # limit of new URLs per finished one, above which the end is not in sight
# A host that takes at least this share of the time left determines it, and its own pace is known more precisely.
DETERMINES = 0.85
SHOWN = 200  # maximum length of a pattern in characters
NEARLY_FULL = 0.9  # share of its capacity from which a slice counts as nearly full


class Look(Struct, frozen=True):
    """An observation at ``at`` (seconds, increasing): URLs left, URLs done, and pages fetched."""

    at: float
    left: int
    done: int
    pages: int


class Pace(Struct, frozen=True):
    """URLs finished per second, and new URLs found for each finished one; None if too few have been finished."""

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
        """Drop all observations, because the crawl is not running and so has no pace."""
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
        """The pace of the crawl; None until it has been observed for `FIRST` seconds."""
        if not self._looks or self._looks[-1].at - self._looks[0].at < FIRST:
            return None
        first, now = self._looks[0], self._looks[-1]
        finished = now.done - first.done
        if finished < LEAST:
            return Pace(None, None)
        # The first pages of a site have many new links, so only the latest ones count: the fewer, the less is left.
        latest = max(LEAST, min(LATEST, now.left, finished // 2))
        since = next(look for look in reversed(self._looks) if now.done - look.done >= latest)
        found = max(0, now.left + now.done - since.left - since.done)
        return Pace(finished / (now.at - first.at), found / (now.done - since.done))


class TimeLeft(Struct, frozen=True):
    """The time to the end of a crawl. ``at_least``: the crawl may well take longer, and ``why``, in words.

    ``host`` is the host that determines the time, None if no single host does. ``like``: the pattern of its URLs, if
    its queue grows as fast as it is read and they are far from the seeds."""

    seconds: float
    at_least: bool
    host: str | None
    why: str = ""
    like: str = ""


def time_left(pace: Pace | None, left: int, slowest: HostTime | None, growing: Host | None = None) -> TimeLeft | None:
    """Return how long ``left`` URLs take: all hosts together at their pace or, if it determines the time, the slowest
    host. None if unknown.

    A host that is ``growing`` has no end in sight, so it determines the time unless the whole crawl still grows."""
    if pace is None or not left:
        return None
    seconds, host, why, like = 0.0, None, "", ""
    if pace.finished is not None and pace.share is not None:
        seconds = left / pace.finished / (1 if pace.grows else 1 - pace.share)
    if slowest is not None and slowest.seconds > 0 and slowest.seconds >= DETERMINES * seconds:
        seconds, host = slowest.seconds, slowest.name
    if slowest is not None and slowest.reason:
        why = f"{slowest.name} waits ({slowest.reason})"
    if pace.grows:
        why = "too few URLs are done" if pace.share is None else f"the latest URLs added {pace.share:.1f} new ones each"
    if growing is not None:
        like = ((deep := growing.growth.deep) and variants_of(*split_path(deep[deep.find("/", 8) :]))) or ""
        if like or not pace.grows:
            host, why = growing.name, f"the queue of {growing.name} still grows"
    return TimeLeft(seconds, bool(why), host, why, like[:SHOWN]) if seconds else None


_STEPS = 8  # of a forecast, between which the fpp is taken to grow evenly


class SeenAtEnd(Struct, frozen=True):
    """The forecast state of the seen-set when no URLs are left. ``fill`` is the share of its capacity in use, ``fpp``
    the compound fpp, ``urls_skipped`` the expected number of URLs skipped by mistake."""

    urls: int
    fill: float
    fpp: float
    urls_skipped: float


class _Slice(Struct):
    capacity: int
    fpp: float  # fpp when full
    count: float = 0.0
    now: float = 0.0  # present fpp

    def fpp_then(self, *, bloom: bool) -> float:
        """Return the fpp with ``count`` keys: for a Bloom filter, which is full when half its bits are set, from its
        fill ratio; otherwise in proportion to the number of keys."""
        part = self.count / self.capacity
        rises = (2 - 2 * 2.0**-part) ** -math.log2(self.fpp) if bloom else part
        return max(self.now, min(1.0, self.fpp * rises))


def seen_at_end(
    seen: SeenStatistics, parameters: Mapping[str, Any], left: int, pace: Pace | None, compact_slices: int = 0
) -> SeenAtEnd | None:
    """Forecast a seen-set with these ``statistics()`` and ``parameters()``. ``compact_slices``: the number of slices of
    a scalable chain that are rebuilt as one; 0 for never.

    None if the end is not in sight, or for the exact kind, whose slices do not matter."""
    more = 0.0
    if left:
        if pace is None or pace.share is None or pace.grows:
            return None
        more = left * pace.share / (1 - pace.share)
    return seen_after(seen, parameters, more, compact_slices)


def seen_after(
    seen: SeenStatistics, parameters: Mapping[str, Any], more: float, compact_slices: int = 0
) -> SeenAtEnd | None:
    """Forecast the seen-set with ``more`` keys. See ``seen_at_end``; None also if its capacity does not suffice."""
    if parameters["kind"] == "exact":
        return None
    bloom = parameters["kind"] in ("scalable", "bloom", "counting")
    try:
        chains = [_grown(seen, parameters, more * part / _STEPS, compact_slices) for part in range(1, _STEPS + 1)]
    except (FilterError, OverflowError):
        return None
    fpps = [seen["fpp_estimated"]]
    fpps += [compound(part.fpp_then(bloom=bloom) for part in chain) for chain in chains if more]
    skipped = (seen["expected_urls_skipped"] or 0.0) + sum(more / _STEPS * sum(pair) / 2 for pair in pairwise(fpps))
    fill = sum(part.count for part in chains[-1]) / sum(part.capacity for part in chains[-1])
    return SeenAtEnd(seen["count"] + round(more), fill, fpps[-1], skipped)


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
    """A problem that the seen-set will soon have: its cause, one of those in the catalogue, and a sentence that
    describes it."""

    cause: str
    text: str


def seen_warning(
    seen: SeenStatistics, parameters: Mapping[str, Any], memory: int | None, compact_slices: int = 0
) -> SeenWarning | None:
    """Return a warning if the last slice is nearly full, and there is no next slice or too little ``memory`` for it.

    ``memory`` is the number of free bytes, None if unknown."""
    last = seen["slices"][-1] if seen["slices"] else None
    if last is None or last["count"] < NEARLY_FULL * last["capacity"]:
        return None
    try:
        size = next_size(seen, parameters, compact_slices)
    except FilterError:
        return None  # this kind does not use slices
    if size is None:
        more = "none" if seen["kind"] == "cuckoo" else f"more at an fpp above {probability(seen['fpp_target'])}"
        holds = f"the filter holds {last['count']:,} of at most {counted(last['capacity'], 'key')}"
        return SeenWarning("full", f"{holds}; once full, it accepts {more} (increase --capacity)")
    if memory is not None and size > memory:
        return SeenWarning("memory", f"the next slice takes {size:,} bytes of memory, and {memory:,} are free")
    return None


class SeenAhead(Struct, frozen=True):
    """The forecast for a seen-set."""

    at_end: SeenAtEnd | None = None
    warning: SeenWarning | None = None


def next_look(seen: SeenStatistics) -> int:
    """Return the number of keys at which the result of `seen_warning` may change."""
    last = seen["slices"][-1]
    before = seen["count"] - last["count"]
    soon = before + math.ceil(NEARLY_FULL * last["capacity"])
    return soon if seen["count"] < soon else max(seen["count"], before + last["capacity"]) + 1


# -- sentences -------------------------------------------------------------------------------------------------------


def end_words(stats: Mapping[str, Any]) -> str:
    """Return the sentence about when a running crawl ends, and what determines it."""
    left, slowest = stats.get("time_left"), stats.get("slowest_host") or {}
    if left is None:
        return "Cannot tell yet when it ends."
    time, host = duration(left["seconds"]), left["host"]
    if host and host == slowest.get("name") and slowest.get("fails"):
        return f"Ends in {time} or later if {host} keeps failing."
    if left["at_least"]:
        alone = f" for {host}" if host and host not in left["why"] else ""
        return f"Cannot tell yet when it ends (at least {time}{alone}): {left['why']}."
    if host is None or host != slowest.get("name"):
        return f"Ends in about {time}, at the present pace."
    others = f" and {counted(slowest['hosts'] - 1, 'other host')}" if slowest["hosts"] > 1 else ""
    work = f"{counted(slowest['pending'], 'pending URL')}, one every {slowest['seconds_per_url']:.1f} s"
    return f"Ends in about {time} (politeness of {host}{others}: {work})."


def seen_words(stats: Mapping[str, Any]) -> str:
    """Describe the seen-set at the end of a running crawl; empty if unknown."""
    end = stats.get("seen_at_end")
    if end is None or stats.get("state") not in ("running", "paused"):
        return ""
    skipped = end["urls_skipped"]
    wrong = f"about {counted(skipped, 'URL')}" if skipped >= 0.95 else f"{'probably ' if skipped else ''}no URLs"
    return (
        f"At the end the seen-set will hold about {counted(end['urls'], 'URL')} and be {share(end['fill'])} full, "
        f"with a false-positive chance of {probability(end['fpp'])} and {wrong} skipped by mistake."
    )


def paragraph(stats: Mapping[str, Any]) -> str:
    """Describe the outlook of a running crawl; empty if nothing is known."""
    running = stats.get("state") == "running" and stats.get("pages_per_second") is not None
    return " ".join(filter(None, [end_words(stats) if running else "", seen_words(stats)]))
