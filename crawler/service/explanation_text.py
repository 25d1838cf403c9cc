"""Explains a URL in words, for both the command line and the dashboard."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from crawler.base.figures import counted, probability
from crawler.frontier.rendering.rendering_odds import Why
from crawler.inspect.explanation import (
    Explanation,
    NextTry,
    Place,
    RevisitSchedule,
    SeenAnswer,
    Wait,
)
from crawler.inspect.host_settings import DEFAULT, setting_words
from crawler.inspect.host_table import Row
from crawler.job.directory import PAGES
from crawler.job.records import NOT_RENDERED
from crawler.web.fetch import is_html

Line = tuple[str, str]  # the subject and the text, which is empty if the subject says everything

_RENDERED_FOR = {
    Why.SIGNS: "because it seems to need scripts",
    Why.SHAPE: "because pages of its host or with similar URLs seem to need scripts, or gained from rendering",
    Why.AUDIT: "drawn at random, to estimate how much is missed",
    Why.ALWAYS: "because all pages of its host are rendered",
}


def explanation_lines(found: Explanation) -> Iterator[Line]:
    """Yield the lines of the explanation."""
    if found.settings_fault is not None:
        yield "settings", f"{found.settings_fault}: the defaults are used instead of the settings of the last run"
    if found.partition is not None:
        none_yet = "" if found.partition.begun else "; it has no URL yet"
        yield "partition", f"{found.partition.number:02} of {found.partition.of}{none_yet}"
    before = None
    for step in found.steps:
        if step.value != before:
            yield step.name, step.value
        before = step.value
    if found.rejected is not None:
        yield "not a URL to crawl", found.rejected
        return
    if found.scope is not None:
        for sentence in found.scope.reasons:
            yield f"scope {found.scope.mode}", sentence
    if found.refused is not None:
        fetched = found.record is not None and found.record.get("status") is not None
        yield "excluded", f"the next run would exclude it: {found.refused}" if fetched else found.refused
    for sentence in found.traps:
        yield "traps", sentence
    if found.older_sets_fault is not None:
        yield "known", f"cannot be read: {found.older_sets_fault}"
    for name in found.older_sets:
        yield "known", f"it is in {name}: links to it are not admitted (crawl.known)"
    if found.seen is not None:
        yield from _seen(found.seen)
    if found.ledger is not None:
        yield "ledger", found.ledger.words
    yield from _of_its_host(found)
    stated = [setting for setting in found.settings if setting.place != DEFAULT]
    for setting in stated:
        yield "setting", setting_words(setting)
    if found.settings and len(stated) < len(found.settings) and found.settings_fault is None:
        yield "settings", "all others of the host have their defaults" if stated else "the host has the defaults"
    if found.damage is not None:
        yield "damaged", found.damage


def _seen(seen: SeenAnswer) -> Iterator[Line]:
    if not seen.known:
        yield "seen", "no; the seen-set has no false negatives"
    elif seen.exact:
        yield "seen", f"yes; the {seen.kind} seen-set has no false positives"
    else:
        chance = probability(seen.fpp_estimated)
        yield "seen", f"yes; the {seen.kind} seen-set reports a new URL as seen with probability {chance}"
    if seen.known and seen.forgeable:
        yield (
            "forgeable",
            "collisions of the job's hash can be made: a page may have hidden this URL with a link that the seen-set "
            "mistakes for it",
        )
    for each in seen.slices:
        keys = "only key" if each.count == 1 else counted(each.count, "key")
        chance, what = probability(each.fpp_estimated), "its" if each.count == 1 else "one of its"
        yield (
            f"slice {each.number} of {seen.of}",
            f"contains it or mistakes it for {what} {keys} (probability {chance})",
        )


def _of_its_host(found: Explanation) -> Iterator[Line]:
    row = found.host_row
    if row is None:
        if found.damage is None:
            yield f"host {found.host}", "no URL of this host was admitted"
        return
    by = "" if found.settings_fault is None else " by default"
    yield (
        f"host {found.host}",
        f"{row['state']}, {row['pending']} pending, {row['in_flight']} in flight, {row['fetched']} fetched, "
        f"{row['failed']} failed, gap {row['gap_seconds']:.3g} s{by}",
    )
    robots = found.robots
    if robots is not None:
        yield "robots", robots.state.filled({"agent": robots.agent, "reason": robots.reason})
        if robots.fetching_since is not None:
            yield "robots asked", f"fetch in progress since {moment(robots.fetching_since)}"
        elif robots.expired and robots.until is not None:
            yield "robots expired", f"at {moment(robots.until)}: fetched again before the next page"
        if robots.last_answer is not None and robots.copy_of is not None:
            yield "robots copy", f"{robots.last_answer}: the copy of {moment(robots.copy_of)} is used"
        for words in robots.cut:
            yield "robots read in part", words
    if found.queue_searched is not None:
        yield f"not among the first {counted(found.queue_searched, 'URL')} of its host's queue", ""
    if found.place is not None:
        yield from _place(found.place, row, found.host)
    if found.place is not None and found.paused is not None:
        yield "crawl", f"hands out no URLs now: {found.paused}"
    for proxy in found.proxies:
        yield "proxy", f"failing since {moment(proxy.since)}; URLs that use it wait: {proxy.reason}"
    if found.schedule is not None:
        yield "schedule", _schedule(found.schedule, found.at)
    record = found.record
    if record is not None:
        status = "no response" if record["status"] is None else f"status {record['status']}"
        error = f": {record['error']}" if record["error"] else ""
        yield "done", f"{record['outcome']}, {status}, {record['fetched_at']}{error}"
        if record["status"] is None and error.startswith(": robots.txt "):  # robots.txt could not be fetched
            which = "failed" if record["outcome"] == "failed" else "excluded robots"
            yield "visit again", f"`crawler retry JOB --{which}`, once robots.txt of its host can be fetched"
        if record["status"] is not None and is_html(record["content_type"]):
            when = next((each.value for each in found.settings if each.key == "browser"), "unknown")
            yield "rendered", rendered_words(record, when)
    elif found.place is None and found.queue_searched is None and found.damage is None:
        yield f"neither pending nor in {PAGES} with this href", ""


def rendered_words(record: Mapping[str, Any], when: str) -> str:
    """Describe whether a browser rendered a page, and why. ``when`` is the host's `browser.when`."""
    if record.get("rendered"):
        engine = f"by {record['engine']} in {record['engine_ms']} ms of CPU"
        return f"{record['rendered']}, {_RENDERED_FOR[record['rendered_for']]}, {engine}"
    if NOT_RENDERED in (record["error"] or ""):
        return "no, see its error"
    signs = ", ".join(record.get("needs_scripts") or ())
    if when == "never":
        why = signs and f"it seems to need scripts ({signs})"
    elif record["outcome"] != "fetched":
        why = f"it is {record['outcome']}"
    elif not 200 <= record["status"] < 300:
        why = f"its status is {record['status']}"
    elif when == "always":
        why = "it was visited without a browser; `crawler retry JOB URL` visits it again"
    elif signs:
        why = f"it seems to need scripts ({signs}), but was visited without a browser, or rendering similar pages "
        why += "gained nothing; `crawler retry JOB URL` visits it again"
    else:
        why = "it does not seem to need scripts, and was not drawn at random"
    return f"no (browser.when is {when} for its host){why and ': '}{why}"


def _place(place: Place, row: Row, host: str | None) -> Iterator[Line]:
    tries = f", {counted(place.tries, 'failed try', 'failed tries')}" if place.tries else ""
    tries += f", answered 429 or 503 {counted(place.throttled, 'time')}" if place.throttled else ""
    source = "seed or added" if place.via is None else f"via {place.via}"
    found = f"depth {place.depth}, {source}{tries}" + (", visited before" if place.visited_before else "")
    if place.in_flight_since is not None:
        yield "in flight", f"handed out at {moment(place.in_flight_since)}, {found}"
        return
    lane = "retry lane" if place.lane == "retry" else "queue"
    yield "pending", f"number {place.number} in the {lane} of {host}, {found}"
    yield "class", f"{place.priority_class}, set when it was admitted or moved"
    yield "class by the rules", place.priority_rule
    if place.crashes:
        times = counted(place.crashes, "time")
        yield "crashes", f"visited last on its host: the crawler crashed {times} while reading the page"
    if place.next is not None:
        yield "next", _waits_for(place.next, row, place.number or 1)


def _waits_for(upcoming: NextTry, row: Row, number: int) -> str:
    if upcoming.waits_for is Wait.NOTHING and number > 1:
        return f"its host is ready; {counted(number - 1, 'URL')} ahead of it in the queue {_go(number - 1)} first"
    at = "" if upcoming.not_before is None else moment(upcoming.not_before)
    since = "" if upcoming.since is None else f", since {moment(upcoming.since)}"
    return upcoming.waits_for.filled({"state": row["state"], "reason": upcoming.reason, "at": at, "since": since})


def _go(count: int) -> str:
    return "goes" if count == 1 else "go"


def _schedule(schedule: RevisitSchedule, now: float) -> str:
    if not schedule.visits:
        return "no next visit: not finished yet, or gone"
    found = f"{counted(schedule.visits, 'visit')}, {schedule.changes} found a change"
    if schedule.interval:  # a page that is visited only on request has none before its second visit
        found += f", interval {schedule.interval:.0f} s"
    if schedule.rate is not None and schedule.visits > 1:  # a rate needs two visits
        found = f"{found}, changes {schedule.rate:.2g} times a day (estimate)"
    if schedule.due is None:
        found += ", queued for the next visit"
    elif schedule.due <= now:
        found += f", the next visit has been due since {moment(schedule.due)}"
    else:
        found += f", the next visit is at {moment(schedule.due)}"
    if schedule.moved_for is not None:
        found += f", sooner than the interval: its site reports a change at {moment(schedule.moved_for)}"
    return found


def moment(seconds: float) -> str:
    """Return a time in seconds since 1970 as RFC 3339 in UTC."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
