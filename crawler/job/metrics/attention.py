"""Finds what needs attention in a crawl: a pure function of the mapping of ``stats --json``.

A crawl's page shows all needs; the list of jobs and the notices show only those with ``told`` set.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from crawler.base.figures import count, counted, probability
from crawler.job.metrics.catalogue import KILLED
from crawler.job.metrics.sentences import (
    PLANNED,
    is_above_target,
    need_browser,
    nothing_fetched,
    suspicion,
    without_page,
)

HOSTS_LEAST = 10  # hosts need attention only if at least this many returned no page or were given up
HOSTS_SHARE = 0.1  # and only if they are at least this share of all hosts: ordinary dead links cause smaller shares


class Level(StrEnum):
    """Severity of a need."""

    BAD = "bad"
    WAIT = "wait"
    NOTE = "note"


class Need(NamedTuple):
    """A reason to look at a crawl. ``kind`` identifies the reason, and stays the same as long as the reason persists.

    ``text`` is one line without its full stop, ``what`` its heading, ``act`` the remedy, in sentences. ``told``: also
    report it to people who do not watch the page."""

    kind: str
    text: str
    what: str = ""
    act: str = ""
    level: Level = Level.BAD
    told: bool = True


def needs(stats: Mapping[str, Any]) -> list[Need]:
    """Return what to report to people who do not watch the crawl, the most urgent first."""
    return [need for need in attention(stats) if need.told]


def attention(stats: Mapping[str, Any]) -> list[Need]:
    """Return everything that needs attention, the most urgent first."""
    return [*_of_the_run(stats), *_of_the_seen_set(stats), *_of_code(stats), *_of_hosts(stats)]


def _of_the_run(stats: Mapping[str, Any]) -> Iterator[Need]:
    if nothing := nothing_fetched(stats):
        act = "The events show the reason. Correct the seeds or the settings, and run the crawl again."
        yield Need("nothing-fetched", nothing, "Nothing was fetched", act)
    elif stats.get("state") == "stopped" and not stats.get("pages_fetched"):
        failed = f"{counted(stats['retries'], 'request')} failed" if stats.get("retries") else ""
        why = "; ".join(filter(None, [failed, stats.get("stopped")]))
        text = f"no page was fetched before it stopped{why and f': {why}'}"
        act = "The events show the reason. Run the same command to resume."
        yield Need("nothing-fetched", text, "Nothing has been fetched so far", act)
    if stats.get("stopped_by") == KILLED:
        act = "Run the same command to resume."
        yield Need("killed", "it was killed; nothing is lost", "The last run did not end", act)
    paused, by = stats.get("paused"), stats.get("paused_by")
    if not paused:
        return
    if by == "disk":
        text = f"{paused}; it resumes by itself when there is space"
        yield Need("disk-full", text, "The crawl is paused", "Free some space on the job's disk.")
    elif by == "outage":
        text = f"{paused}; it resumes by itself when a host answers"
        yield Need("outage", text, "The crawl is paused", "Check this machine's network.")
    elif by not in PLANNED or stats.get("state") != "paused":
        act = "Press Resume to continue."
        yield Need("paused", str(paused), "The crawl is paused", act, told=False)


def _of_the_seen_set(stats: Mapping[str, Any]) -> Iterator[Need]:
    seen = stats.get("seen") or {}
    if seen.get("count_suspect"):
        text = f"the seen-set cannot be trusted: {suspicion(seen)}"
        act = "Run crawler verify on the job, and start again with a keyed hash."
        yield Need("seen-suspect", text, "The seen-set cannot be trusted", act)
    warning = stats.get("seen_warning")
    if is_above_target(seen):
        estimated, target = probability(seen["fpp_estimated"]), probability(seen["fpp_target"])
        text = f"the chance of a false positive is {estimated}, above the target of {target}"
        act = "Give the seen-set more memory, or resume with another --seen."
        yield Need("seen-errs", text, "The seen-set errs more often than configured", act, told=False)
    elif warning:
        act = "Check the seen-set before it reaches the limit."
        yield Need("seen-limit", warning["text"], "The seen-set is heading for a limit", act, Level.WAIT, told=False)


def _of_code(stats: Mapping[str, Any]) -> Iterator[Need]:
    """Yield failures of the user's code and failures caused by bugs in the crawler."""
    if unread := stats.get("internal_failures") or 0:
        text = f"because of a bug, the crawler could not read {counted(unread, 'answer')}"
        act = "Please report the bug, with the URLs listed under Failures."
        yield Need("unreadable-answers", text, f"{counted(unread, 'answer')} could not be read", act, told=False)
    for hook in (stats.get("hooks") or {}).values():
        if hook.get("stopped"):
            what = f"Your function {hook['function']} stopped the crawl"
            yield Need("code-stopped", str(hook["stopped"]), what, "Fix the function and resume.", told=False)
    failed = stats.get("pages_code_failed") or 0
    calls = sum((stats.get("calls_code_failed") or {}).values())
    if failed or calls:
        met = [counted(failed, "page")] if failed else []
        met += [counted(calls, "other call")] if calls else []
        act = "The records of the pages show where and why (data_error). Fix the function, then visit them again."
        yield Need("code-fails", f"your code failed on {' and '.join(met)}", "Your code fails", act, Level.WAIT)
    if unextracted := stats.get("text_failed") or 0:
        text = f"the text of {counted(unextracted, 'page')} could not be extracted; their records are complete"
        yield Need("text-fails", text, "Texts are missing", "Nothing else is lost.", Level.WAIT, told=False)


def _of_hosts(stats: Mapping[str, Any]) -> Iterator[Need]:
    left = stats.get("time_left") or {}
    if left.get("like"):
        text = f"{left['host']}: URLs like {left['like']} lead to new ones as fast as they are read, far from the seeds"
        act = "If these URLs have no end, exclude them (scope.exclude) or limit them (traps.max_variants)."
        yield Need("endless", text, "URLs may be endless, for example those of a calendar", act, Level.WAIT, told=False)
    hosts, retired = stats.get("hosts") or 0, (stats.get("hosts_by_state") or {}).get("retired") or 0
    without = stats.get("hosts_without_page") or {}
    many, in_vain = max(HOSTS_LEAST, HOSTS_SHARE * hosts), sum(without.values())
    if in_vain:
        in_trouble = in_vain - without.get("excluded", 0)
        told = in_trouble >= many
        act = "If they answered 429, visit them again later, with a longer politeness.delay. If robots.txt could not "
        act += "be fetched, use crawler retry --excluded robots. If the local network is at fault, fix it and visit "
        act += "them again. crawler hosts --sort no_page lists all of them."
        level = Level.BAD if told else Level.WAIT if in_trouble else Level.NOTE
        yield Need("hosts-without-page", without_page(stats), "Hosts gave no page", act, level, told)
    if retired >= many and retired > in_vain:
        text = f"{count(retired)} of {counted(hosts, 'host')} were given up"
        act = "Sort the hosts by failures to see why. If the local network is the cause, fix it and visit them again."
        yield Need("hosts-retired", text, "Many hosts were given up", act)
    if scripted := need_browser(stats):
        told = stats["hosts_need_browser"]["count"] >= HOSTS_SHARE * hosts
        act = "Only a browser finds links made by scripts. crawler hosts --sort needs_scripts lists the hosts."
        yield Need("hosts-need-browser", scripted, "Hosts probably need a browser", act, Level.WAIT, told)
    proxies = stats.get("proxies") or {}
    if failing := proxies.get("failing") or 0:
        reason = next((each["reason"] for each in proxies.get("named") or () if each.get("reason")), "")
        text = f"no answers from {counted(failing, 'proxy', 'proxies')}"
        act = "Check the proxies. Their failures do not count against the hosts."
        yield Need("proxy-fails", text, f"A proxy fails{reason and f': {reason}'}", act)
