"""Puts the numbers of a crawl into words, the same on the terminal and on the page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crawler.base.figures import count, counted, duration, probability
from crawler.job.metrics.catalogue import KILLED
from crawler.job.metrics.outlook import RECENTLY, end_words

PLANNED = frozenset({"hours", "round", "schedule"})  # pauses by the clock, as configured

_ENDED_BY = {"interrupted": "it was interrupted; ", KILLED: "it was killed; "}


def urls_of(stats: Mapping[str, Any], outcome: str) -> int:
    """Return the number of URLs whose last visit had this outcome."""
    return (stats.get("urls_by_outcome") or {}).get(outcome) or 0


def broken_pages(stats: Mapping[str, Any]) -> int:
    return sum((stats.get("pages_by_status") or {}).get(kind, 0) for kind in ("4xx", "5xx"))


def nothing_fetched(stats: Mapping[str, Any]) -> str:
    """Return why a finished crawl fetched no page, without a full stop; empty if it fetched one, or is not finished."""
    if stats.get("state") != "ended" or stats.get("pages_fetched"):
        return ""
    if stats.get("urls_admitted") == 0:
        return "no seed was added"
    held = {rule: number for rule, number in (stats.get("urls_held_back") or {}).items() if number}
    failed, excluded = urls_of(stats, "failed"), urls_of(stats, "excluded")
    why = [f"{count(failed)} failed"] if failed else []
    why += [f"{count(number)} excluded by {rule}" for rule, number in held.items()]
    others = excluded - sum(held.values())
    why += [f"{count(others)} excluded by robots.txt or another rule"] if others > 0 else []
    return f"no seed could be fetched{': ' if why else ''}{', '.join(why)}"


_CAUSES = {  # the names of other causes are readable as they are
    "dns": "name not found",
    "cut_off": "cut off",
    "refused": "connection refused",
    "robots": "disallowed by robots.txt",
    "robots_unreachable": "whose robots.txt could not be fetched",
    "excluded": "excluded by a rule or limit",
    **{status: f"answered {status}" for status in ("4xx", "5xx")},
    "429": "answered 429 or 503",
}


def cause_words(cause: str) -> str:
    """Describe a class of failures, or a reason why hosts gave no page."""
    return _CAUSES.get(cause, cause)


def without_page(stats: Mapping[str, Any]) -> str:
    """Describe how many hosts gave no page, and why, without a full stop; empty if every host gave a page or may still
    give one."""
    found = {cause: number for cause, number in (stats.get("hosts_without_page") or {}).items() if number}
    causes = sorted(found.items(), key=lambda each: -each[1])
    why = ", ".join(f"{count(number)} {cause_words(cause)}" for cause, number in causes)
    return (
        f"no 2xx page from {count(sum(found.values()))} of {counted(stats.get('hosts'), 'host')}: {why}"
        if found
        else ""
    )


def need_browser(stats: Mapping[str, Any], *, afresh: bool = False) -> str:
    """Describe how many hosts probably need a browser, what to do, and which host needs it most; empty if no host needs
    one.

    Visits are counted, so the number may include hosts whose pages a browser has rendered since. ``afresh``: the next
    run visits all pages again."""
    found = stats.get("hosts_need_browser") or {}
    if not found.get("count"):
        return ""
    need, worst = "needs" if found["count"] == 1 else "need", found["named"][0]
    signs = f"{count(worst['pages'])} of {counted(worst['of'], 'page')} of {worst['host']} seem to need scripts"
    hosts, again = counted(found["count"], "host"), f"`crawler retry JOB --host {worst['host']}`"
    if any((stats.get("pages_rendered") or {}).values()):
        why = "`crawler explain JOB URL` shows whether and why a page was rendered"
        return f"{hosts} had pages that seemed to need scripts: {why}, {again} visits them again ({signs})"
    past = "" if afresh else f", and {again} for pages already fetched"
    return f"{hosts} probably {need} a browser: --browser{past} ({signs})"


def pages_text(stats: Mapping[str, Any]) -> str:
    """Return the number of 2xx pages, and of those with an error status."""
    broken = broken_pages(stats)
    good = counted((stats.get("pages_by_status") or {}).get("2xx"), "page")
    return f"{good} with status 2xx" + (f", {count(broken)} with 4xx or 5xx" if broken else "")


def came(stats: Mapping[str, Any]) -> str:
    """Return the number of pages, and of failed URLs if there are any."""
    failed = urls_of(stats, "failed")
    return pages_text(stats) + (f", {counted(failed, 'URL')} failed" if failed else "")


def kept_fresh(stats: Mapping[str, Any]) -> str:
    """Describe an endless crawl that has finished each URL once, without a full stop; empty for any other crawl."""
    left = (stats.get("urls_pending") or 0) + (stats.get("urls_in_flight") or 0)
    again = stats.get("revisits_pending") or 0
    if not stats.get("endless") or not stats.get("urls_admitted") or left > again:
        return ""
    visited = "tried" if urls_of(stats, "failed") or urls_of(stats, "excluded") else "visited"
    done = max(0, (stats.get("revisits") or 0) - again)
    found = f"{counted(done, 'revisit')}, {count(stats.get('revisits_changed'))} found a change"
    return f"all found pages {visited} once; keeping them fresh (no end): {found}"


def standing(stats: Mapping[str, Any]) -> str:
    """Return the state as users understand it: ``waiting`` during a planned pause, ``failed`` if a finished crawl
    fetched nothing, ``keeping fresh`` if pages are only revisited, otherwise the state of ``stats``."""
    if stats.get("state") == "paused" and stats.get("paused_by") in PLANNED:
        return "waiting"
    if nothing_fetched(stats):
        return "failed"
    return "keeping fresh" if stats.get("state") == "running" and kept_fresh(stats) else str(stats.get("state", ""))


def waiting(stats: Mapping[str, Any]) -> str:
    """Describe which host the crawl is waiting for, why, and for how long, without a full stop; empty if it waits for
    no host. If it waits for several, describe the host that takes longest."""
    slowest = stats.get("slowest_host")
    if stats.get("state") != "running" or not slowest or kept_fresh(stats):
        return ""
    others = (stats.get("hosts_pending") or 0) - slowest["hosts"]
    wait, why = slowest.get("wait_seconds") or 0.0, slowest.get("reason") or ""
    if not (why or wait >= 1):
        return ""
    text = f"waits for {slowest['name']}"
    text += f" ({why})" if why else ""
    text += f", next request in {duration(wait)}" if wait >= 1 else ""
    return text + (f", and for {counted(others, 'other host')}" if others > 0 else "")


def is_held_up(stats: Mapping[str, Any]) -> bool:
    """True if the whole crawl waits for a single host or group of hosts, for a reason other than its gap."""
    slowest, is_idle = stats.get("slowest_host") or {}, not stats.get("urls_in_flight")
    waits = slowest.get("reason") and (slowest.get("wait_seconds") or 0.0) >= 1
    return bool(is_idle and waits and slowest["hosts"] == stats.get("hosts_pending") and waiting(stats))


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def working(stats: Mapping[str, Any]) -> dict[str, str]:
    """Describe whether the crawl works, how fast, and how long it will take, as ``{"mark", "text"}``. ``mark`` is
    ``good``, ``wait``, ``bad`` or ``over``."""
    state, pending, flying = stats.get("state"), stats.get("urls_pending") or 0, stats.get("urls_in_flight") or 0
    pages = stats.get("pages_per_second")
    if stats.get("paused"):
        mark = "wait" if stats.get("paused_by") in (*PLANNED, "user") else "bad"
        return {"mark": mark, "text": _sentence(str(stats["paused"]))}
    match state:
        case "running" if fresh := kept_fresh(stats):
            return {"mark": "good", "text": _sentence(fresh)}
        case "running" if is_held_up(stats):
            left, fails = stats.get("time_left"), " if it keeps failing" if stats["slowest_host"].get("fails") else ""
            end = f" Ends in {duration(left['seconds'])} or later{fails}." if left else ""
            return {"mark": "wait", "text": f"{_sentence(waiting(stats))}{end}"}
        case "running" if pages:
            return {"mark": "good", "text": f"Working. {end_words(stats)}"}
        case "running" if pending + flying == 0:
            return {"mark": "wait", "text": "Waiting for seeds: no URLs are pending."}
        case "running" if pages is None and stats.get("pages_fetched"):
            return {"mark": "good", "text": f"Running: {pages_text(stats)} so far."}
        case "running":
            is_new = not stats.get("pages_fetched") or (stats.get("elapsed_seconds") or 0.0) < RECENTLY
            none = "no page yet" if is_new else "no page in the last minute"
            where = f"{count(flying)} in flight, {counted(stats.get('hosts_pending'), 'host')} pending"
            return {"mark": "wait", "text": _sentence(waiting(stats) or f"waiting: {none}; {where}")}
        case "copy":
            return {"mark": "wait", "text": "A copy of a running crawl: run the command again for newer figures."}
        case "stopping":
            return {"mark": "wait", "text": "Stopping: requests in flight have a few seconds to finish."}
        case "ended" if why := nothing_fetched(stats):
            return {"mark": "bad", "text": _sentence(why)}
        case "ended":
            silent = sum((stats.get("hosts_without_page") or {}).values())
            none = f", no page from {counted(silent, 'host')}" if silent else ""
            took = stats.get("elapsed_seconds")
            return {"mark": "over", "text": f"Done{f' in {duration(took)}' if took else ''}: {came(stats)}{none}."}
        case "stopped" if fresh := kept_fresh(stats):
            return {"mark": "over", "text": f"Stopped, with {fresh}."}
        case "stopped":
            code = (hook["stopped"] for hook in (stats.get("hooks") or {}).values() if hook.get("stopped"))
            by = _ENDED_BY.get(str(stats.get("stopped_by")), "")
            why = stats.get("stopped") or next(code, f"{by}run the same command to resume")
            return {"mark": "over", "text": f"Stopped with {counted(pending, 'URL')} pending: {why}."}
    return {"mark": "wait", "text": "Starting."}


def suspicion(seen: Mapping[str, Any]) -> str:
    """Explain why a seen-set with the statistics ``seen`` cannot be trusted."""
    estimated, admitted = count(round(seen["count_estimated"])), count(seen["count"])
    return (
        f"its bits correspond to {estimated} keys, but {admitted} were added: more than chance explains. Either keys "
        "were crafted to cause false positives, or its memory is damaged"
    )


def is_above_target(seen: Mapping[str, Any]) -> bool:
    """True if the estimated fpp of the seen-set is above its target."""
    estimated, target = seen.get("fpp_estimated"), seen.get("fpp_target")
    return estimated is not None and target is not None and estimated > target


def is_in_doubt(seen: Mapping[str, Any]) -> bool:
    """True if the seen-set may cause missing pages: there is no ledger that checks what it reports, or its fpp is above
    the target."""
    return is_above_target(seen) or (bool(seen.get("fpp_bound")) and not seen.get("ledger"))


def is_news(seen: Mapping[str, Any]) -> bool:
    """True if the seen-set needs more than the usual report."""
    caught = (seen.get("ledger") or {}).get("false_positives")
    forgeable = (seen.get("hash") or {}).get("forgeable")
    return bool(is_in_doubt(seen) or caught or forgeable or seen.get("count_suspect"))


def trust(stats: Mapping[str, Any]) -> str:
    """Describe in one sentence how far the seen-set can be trusted."""
    seen = stats.get("seen")
    if not seen:
        return "There is no seen-set yet."
    expected = seen.get("expected_urls_skipped")
    if expected is None or seen.get("fpp_bound") == 0:
        return "The seen-set is exact: no URL is skipped by mistake."
    new = (stats.get("urls_admitted") or 0) + expected
    if new < 1:
        return "No URL has been seen yet."
    chance, ledger = probability(seen["fpp_estimated"]), seen.get("ledger")
    few = (
        f"About {chance} new URLs looks known." if chance.startswith("1 in") else "Practically no new URL looks known."
    )
    text = f"About {chance} of new URLs look known." if chance.endswith("%") else few
    if ledger:
        caught, waiting = ledger["false_positives"], ledger["waiting"]
        found = f" and caught {counted(caught, 'false positive')}" if caught else ""
        result = "lost" if caught or ledger["confirmed"] else "checked yet" if waiting else "did so far"
        text += f" The ledger checks each that does{found}: none {result}"
        text += f"; {counted(waiting, 'URL')} still {'waits' if waiting == 1 else 'wait'}." if waiting else "."
    else:
        skipped = f"about {count(expected)}" if expected >= 0.95 else "none"
        text += f" So far it probably skipped {skipped} of {count(new)} by mistake."
    if is_above_target(seen):
        text += f" The chance is above its target, {probability(seen['fpp_target'])}."
    hashed = seen.get("hash")
    if hashed and hashed["forgeable"]:
        text += f" Its hash, {hashed['algorithm']}, can be forged: a page can make it skip another URL."
    if seen.get("count_suspect"):
        text += f" Do not trust it: {suspicion(seen)}."
    return text
