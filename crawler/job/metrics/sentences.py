"""Puts the numbers of a crawl into words, the same on the terminal and on the page."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from crawler.base.figures import count, counted, duration, per_second, probability, size

PLANNED = frozenset({"hours", "round", "schedule"})  # pauses that end by the clock, as somebody wished

LATELY = 60.0  # seconds that the sentences describe
_NEARLY_ALL = 0.9  # share of what is left
_STEADY = 1.5  # as much longer may it take with the URLs that are yet to be found
_SLOW = 0.1  # pages per second; below, a crawl says what it waits for
_NOISE = 0.15  # of a pace that was measured over half a minute


def nothing_fetched(stats: Mapping[str, Any]) -> str:
    """Return why a crawl that is over has brought no page, without a full stop; empty if it has, or is not over."""
    if stats.get("state") != "ended" or stats.get("pages_fetched"):
        return ""
    held = {rule: number for rule, number in (stats.get("urls_held_back") or {}).items() if number}
    why = [f"{count(stats['pages_failed'])} failed"] if stats.get("pages_failed") else []
    why += [f"{count(number)} held back by {rule}" for rule, number in held.items()]
    others = (stats.get("urls_excluded") or 0) - sum(held.values())
    why += [f"{count(others)} refused by robots.txt or another rule"] if others > 0 else []
    return f"no seed could be fetched{': ' if why else ''}{', '.join(why)}"


def kept_fresh(stats: Mapping[str, Any]) -> str:
    """Say that a crawl without an end has finished each URL once, without a full stop; empty if it has not."""
    left = (stats.get("urls_pending") or 0) + (stats.get("urls_in_flight") or 0)
    again = stats.get("revisits_pending") or 0
    if not stats.get("endless") or not stats.get("urls_admitted") or left > again:
        return ""
    visited = "tried" if stats.get("pages_failed") or stats.get("urls_excluded") else "visited"
    done = max(0, (stats.get("revisits") or 0) - again)
    found = f"{counted(done, 'revisit')}, {count(stats.get('revisits_changed'))} found a change"
    return f"all found pages {visited} once; keeping them fresh (no end): {found}"


def standing(stats: Mapping[str, Any]) -> str:
    """Return the state as people understand it: ``waiting`` for a time that was planned, ``failed`` if a crawl that
    is over has fetched nothing, ``keeping fresh`` if pages are only visited again, otherwise as in ``stats``."""
    if stats.get("state") == "paused" and stats.get("paused_by") in PLANNED:
        return "waiting"
    if nothing_fetched(stats):
        return "failed"
    return "keeping fresh" if stats.get("state") == "running" and kept_fresh(stats) else str(stats.get("state", ""))


class TimeLeft(Struct, frozen=True):
    """The time to the end of a crawl. ``at_least``: the crawl still finds URLs, so it may well take longer. ``host`` is
    the one that takes so long, None if it is no single host."""

    seconds: float
    at_least: bool
    host: str | None


def time_left(
    stats: Mapping[str, Any], slope: float | None, new: float | None = None, *, measured: bool = True
) -> TimeLeft | None:
    """Return the longest of three times: until all hosts together have finished everything, at the present pace; until
    the slowest host has; and what slots and rate limit take at least. None if unknown, or if the crawl has no end.

    ``slope`` URLs joined the frontier per second, and ``new`` of them were found; None if unknown. ``measured``: enough
    URLs were finished that this is a pace."""
    left = (stats.get("urls_pending") or 0) + (stats.get("urls_in_flight") or 0)
    slowest = stats.get("slowest_host")
    if slope is None or not left or stats.get("endless"):
        return None
    together, grows = _together(left, slope, new or 0.0) if measured else (0.0, bool(new))
    bound = bool(new) or (measured and slope >= 0)
    least = stats.get("least_seconds") or 0.0
    if least > max(together, 0.0 if slowest is None else slowest["seconds"]):
        return TimeLeft(least, bound, None)
    if slowest is not None:
        # If nearly all is the slowest host's, its own pace is known better than that of the last seconds.
        noise = _NOISE if slowest["pending"] >= _NEARLY_ALL * left else 0.0
        if slowest["seconds"] * (1 + noise) > together:
            return TimeLeft(slowest["seconds"], bound, slowest["name"])
    return TimeLeft(together, grows, None) if together else None


def _together(left: int, slope: float, new: float) -> tuple[float, bool]:
    """(Seconds until all hosts together have finished everything, 0 if unknown; whether that is a bound).

    While few URLs are found for each that is finished, the frontier shrinks at a steady pace, and its end can be told.
    Otherwise only what is known now can: when a frontier begins to shrink, its slope is nearly nothing, and would tell
    of an hour where it takes minutes."""
    finished = new - slope
    if finished <= 0:
        return 0.0, True
    least = left / finished
    shrinking = left / -slope if slope < 0 else math.inf
    return (least, True) if shrinking > _STEADY * least else (shrinking, False)


def told_left(stats: Mapping[str, Any]) -> TimeLeft | None:
    """The time left that the crawl tells; None if it does not know, or does not run."""
    told = stats.get("time_left")
    return TimeLeft(**told) if told and stats.get("state") == "running" else None


def _to_go(left: TimeLeft) -> str:
    why = "" if left.host is None else f" for {left.host}"
    return f"{'at least' if left.at_least else 'about'} {duration(left.seconds)} to go{why}"


def working(
    stats: Mapping[str, Any],
    pages: float | None,
    slope: float | None,
    new: float | None = None,
    over: float = LATELY,
    growth: float | None = None,
) -> dict[str, str]:
    """Return whether the crawl works and how long it takes, as ``{"mark", "text"}``: the mark is ``good``, ``wait``,
    ``bad`` or ``over``.

    In the last ``over`` seconds, a minute at most, ``pages`` were fetched, ``slope`` URLs joined the frontier and
    ``new`` were found per second; None if unknown. ``growth`` is the slope to tell if another than ``slope``.
    """
    told = doing(stats, pages, slope if growth is None else growth, over)
    # A crawl of an earlier version does not tell.
    left = told_left(stats) if "time_left" in stats else time_left(stats, slope, new) if pages else None
    if told["mark"] != "good" or kept_fresh(stats):
        return told
    return told if left is None else told | {"text": f"{told['text'].removesuffix('.')}, {_to_go(left)}."}


def waiting(stats: Mapping[str, Any]) -> str:
    """Say which host a crawl waits for, why and how long, without a full stop; empty if for none. Of several it is the
    one that takes longest."""
    slowest = stats.get("slowest_host")
    if stats.get("state") != "running" or not slowest or kept_fresh(stats):
        return ""
    others = (stats.get("hosts_pending") or 0) - slowest["hosts"]
    more = f" and {counted(others, 'other host')}" if others > 0 else ""
    text = f"waits for {slowest['name']}{more}"
    wait, why = slowest.get("wait_seconds") or 0.0, slowest.get("reason") or ""
    if why:
        text += f" ({why})"
    if wait >= 1:
        return f"{text}, asked again in {duration(wait)}"
    return text if why else ""


def crawls_along(pages: float | None) -> bool:
    """Whether so few pages per second come that somebody will ask what the crawl waits for."""
    return pages is not None and pages < _SLOW


def doing(stats: Mapping[str, Any], pages: float | None, slope: float | None, over: float = LATELY) -> dict[str, str]:
    """Return what ``working`` does, without how long the crawl takes."""
    state, pending, flying = stats.get("state"), stats.get("urls_pending") or 0, stats.get("urls_in_flight") or 0
    if stats.get("paused"):
        why = str(stats["paused"])
        return {"mark": "wait" if stats.get("paused_by") in PLANNED else "bad", "text": f"{why[0].upper()}{why[1:]}."}
    match state:
        case "running" if fresh := kept_fresh(stats):
            return {"mark": "good", "text": f"{fresh[0].upper()}{fresh[1:]}."}
        case "running" if pages:
            text = f"Working: {per_second(pages)} pages/s over {_lately(over)}"
            if slope is not None and slope > 0:
                text += f", pending URLs grow by {per_second(slope)}/s"
            if crawls_along(pages) and (why := waiting(stats)):
                text += f"; {why}"
            return {"mark": "good", "text": f"{text}."}
        case "running" if pending + flying == 0:
            return {"mark": "wait", "text": "Waiting for seeds: no URLs are pending."}
        case "running" if pages is None and stats.get("pages_fetched"):
            return {"mark": "good", "text": f"Running: {counted(stats['pages_fetched'], 'page')} fetched so far."}
        case "running":
            none = "no page has come yet" if not stats.get("pages_fetched") else f"no page in {_lately(over)}"
            where = f"{count(flying)} in flight, {counted(stats.get('hosts_pending'), 'host')} pending"
            why = waiting(stats)
            return {"mark": "wait", "text": f"Waiting: {none}, {where}{f'; {why}' if why else ''}."}
        case "stopping":
            return {"mark": "wait", "text": "Stopping: requests in flight have a few seconds to finish."}
        case "ended" if why := nothing_fetched(stats):
            return {"mark": "bad", "text": f"{why[0].upper()}{why[1:]}."}
        case "ended":
            failed = f", {count(stats.get('pages_failed'))} failed" if stats.get("pages_failed") else ""
            return {"mark": "over", "text": f"Ended: {counted(stats.get('pages_fetched'), 'page')} fetched{failed}."}
        case "stopped" if fresh := kept_fresh(stats):
            return {"mark": "over", "text": f"Stopped, with {fresh}."}
        case "stopped":
            why = stats.get("stopped") or "run the same command to resume"
            return {"mark": "over", "text": f"Stopped with {counted(pending, 'URL')} pending: {why}."}
    return {"mark": "wait", "text": "Starting."}


def _lately(over: float) -> str:
    return "the last minute" if over >= _NEARLY_ALL * LATELY else f"the last {max(1, round(over))} s"


_NOTHING_NEW = "Hardly any new URLs are found"


def outlook(stats: Mapping[str, Any]) -> str:
    """Return when the crawl ends at its present rate, and the figure behind it; empty if unknown."""
    told = _forecast(stats)
    if told is None:
        return ""
    new = told["new_per_url"]
    each = f"{new:.2g}" if new < 9.5 else count(new)
    brings = f"Each finished URL brings {each} new one{'' if each == '1' else 's'}" if new >= 0.01 else _NOTHING_NEW
    if told["when"] == "day" and new < 1:
        return "The crawl never ends: it revisits its pages."
    left = told_left(stats)
    if told["when"] == "end" and left is not None:
        return f"{brings}: the crawl ends in {'at least ' if left.at_least else 'about '}{duration(left.seconds)}."
    if not told.get("steady", True):
        return f"{brings}{'' if brings == _NOTHING_NEW else ' at present'}: too early to tell when the crawl ends."
    if told["when"] == "day":
        return f"{brings}: no end in sight."
    if stats["state"] == "paused":
        return f"{brings}: at this rate the crawl ends some time after it resumes."
    return f"{brings}: at this rate the crawl ends in {duration(told['seconds'])}."


def _forecast(stats: Mapping[str, Any]) -> Mapping[str, Any] | None:
    told: Mapping[str, Any] | None = (stats.get("advice") or {}).get("forecast")
    return told if stats.get("state") in ("running", "paused") else None


def forecast(stats: Mapping[str, Any]) -> str:
    """Return the outlook, and what the seen-set will be then or in a day."""
    told = _forecast(stats)
    if told is None:
        return ""
    if not told.get("steady", True):
        return outlook(stats)
    slices = counted(told["slices"], "slice")
    when = "Then" if told["when"] == "end" else "In a day"
    text = (
        f"{outlook(stats)} {when} the filter holds {counted(told['urls'], 'URL')} in {slices}, {size(told['bytes'])}:"
    )
    text += f" fpp {probability(told['fpp'])}"
    skipped = told["urls_skipped"]
    if skipped >= 0.95:
        return f"{text}, about {counted(skipped, 'URL')} skipped by mistake in all."
    return f"{text}, {'probably ' if skipped else ''}no URLs skipped by mistake."


def suspicion(seen: Mapping[str, Any]) -> str:
    """Say that a seen-set with the statistics ``seen`` is not what its keys should have made of it."""
    estimated, admitted = count(round(seen["count_estimated"])), count(seen["count"])
    return (
        f"its bits are those of {estimated} keys, and {admitted} were added: more than chance explains. Somebody chose "
        "keys to make it wrong more often, or its memory is damaged"
    )


def trust(stats: Mapping[str, Any]) -> str:
    """Say in one sentence how far the seen-set can be trusted."""
    seen = stats.get("seen")
    if not seen:
        return "There is no seen-set yet."
    expected = seen.get("expected_urls_skipped")
    if expected is None or seen.get("fpp_bound") == 0:
        return "The seen-set is exact: no URL is skipped by mistake."
    new = (stats.get("urls_admitted") or 0) + expected
    if new < 1:
        return "No URL has been seen yet."
    ledger = seen.get("ledger")
    if ledger:
        caught, waiting = ledger["false_positives"], ledger["waiting"]
        rate = f" ({probability(caught / new)})" if caught else ""
        text = (
            f"No URL is skipped by mistake: the ledger caught {counted(caught, 'false positive')}{rate} among "
            f"{counted(new, 'new URL')}"
        )
        text += f"; {counted(waiting, 'URL')} {'waits' if waiting == 1 else 'wait'} for it." if waiting else "."
    elif expected >= 0.95:
        were = "was" if round(expected) == 1 else "were"
        text = f"About {count(expected)} of {count(new)} new URLs {were} probably skipped by mistake."
    else:
        few = f"{expected:.2g}" if expected >= 0.001 else "less than 0.001"
        text = f"No URLs are likely to have been skipped by mistake (expected: {few} of {count(new)})."
    estimated, target = seen.get("fpp_estimated"), seen.get("fpp_target")
    if estimated is not None and target is not None and estimated > target:
        text += f" The estimated fpp is {probability(estimated)}, above the target of {probability(target)}."
    hashed = seen.get("hash")
    if hashed and hashed["forgeable"]:
        text += f" Its hash, {hashed['algorithm']}, can be forged: a page can hide another URL from it."
    if seen.get("count_suspect"):
        text += f" Do not trust it: {suspicion(seen)}."
    return text
