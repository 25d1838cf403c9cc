"""Everything the job knows of one URL, in sentences."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from crawler.exact import ExactSeenSet, Seen, rows_of
from crawler.fetch.robots_cache import RobotsCache
from crawler.filters import Chain, digest_keys
from crawler.frontier import Host, HostState, decode_host, unpack_page
from crawler.frontier.entry import is_retry, retry_time
from crawler.inspect.host_table import Row, host_row
from crawler.inspect.job_reader import open_job, queue
from crawler.job.clock_anchor import job_time
from crawler.job.directory import PAGES
from crawler.job.live_status import read_live
from crawler.job.transaction import scope_key
from crawler.kv import Family, Reader
from crawler.output.reverse_reader import last_record
from crawler.robots import RobotsRecordError
from crawler.scope import Boundary, PriorityRules, Scope
from crawler.settings import Settings
from crawler.traps import Traps
from crawler.urls import Canonical, Canonicaliser, Rejected, host_key

_QUEUE_SHOWN = 1_000_000  # entries looked through for the position of a URL
_AS_HELD = 0.002  # seconds: a retry that waits as long as its host is held stands in its lane by the millisecond
_PAUSE = 1_024  # entries between two moments at which a look may be broken off


@dataclass(frozen=True, slots=True)
class Known:
    """What is asked. ``seen`` gives the sentences on a key; ``in_flight`` are URLs handed out, and since when; ``host``
    the working state of a host where a crawl runs in this process."""

    directory: Path
    settings: Settings
    store: Reader
    seen: Callable[[Canonical], list[str]]
    in_flight: Mapping[str, float]
    host: Callable[[str], Host | None]


def explain_url(directory: Path, text: str, now: float | None = None) -> Iterator[str]:
    """``explain`` for a job that is looked at from outside, at ``now`` or by its own clock. Raises what ``open_job``
    raises."""
    live = read_live(directory)
    with open_job(directory) as job:
        if job.settings_fault is not None:
            yield f"settings: {job.settings_fault}: the defaults stand in for those of the last run"
        known = Known(
            directory,
            job.settings,
            job.store,
            lambda url: explain_seen(job.restore_seen().seen, url),
            {} if live is None else live.in_flight,
            lambda _: None,
        )
        at = job_time(job.store) if now is None else now
        yield from (line for line in explain(known, text, at) if line is not None)


def explain(known: Known, text: str, now: float) -> Iterator[str | None]:
    """Lines that answer: how it was canonicalised, whether it is in scope, whether it was seen, which queue holds it,
    when it may go and why not now, how it ended. None comes where a long look may be broken off. A text that is no URL
    is explained too."""
    canonicaliser = Canonicaliser(known.settings.canonical.rules)
    for step, value in canonicaliser.explain(text):
        yield f"{step}: {value}"
    url = canonicaliser.canonicalise(text)
    if isinstance(url, Rejected):
        yield f"not a URL to crawl: {url.reason}"
        return
    yield from _scope(known, url)
    yield from known.seen(url)
    if known.settings.seen.ledger:
        yield f"ledger: {_ledger(known, url)}"
    yield from _where(known, url, now)


def explain_seen(seen: Seen, url: Canonical) -> list[str]:
    """Whether the seen-set knows the key, which slice says so, and how far that can be trusted."""
    statistics = seen.statistics()
    if url.key not in seen:
        return ["seen: no; the seen-set has no false negatives"]
    odds = f"for a URL never admitted it would say so with probability {statistics['fpp_estimated']:.2g}"
    lines = [f"seen: yes, says the seen-set ({statistics['kind']}); {odds}"]
    if isinstance(seen, ExactSeenSet):
        return [f"seen: yes, says the seen-set ({statistics['kind']}), which makes no mistake"]
    if isinstance(seen, Chain):
        for number in seen.holders(digest_keys([url.key])):
            part = statistics["slices"][number]
            lines.append(
                f"slice {number + 1} of {len(statistics['slices'])}: holds it, or takes it for one of its "
                f"{part['count']} keys (probability {part['fpp_estimated']:.2g})"
            )
    return lines


def _scope(known: Known, url: Canonical) -> Iterator[str]:
    mode = known.settings.crawl.scope
    prefix = scope_key(mode, "")
    rows = known.store.scan(Family.META, prefix, prefix[:-1] + b"0")
    scope = Scope(mode)
    scope.restore(key[len(prefix) :].decode("utf-8") for key, _ in rows)
    for sentence in Boundary(scope, known.settings).explain(url.href, None):
        yield f"scope {mode}: {sentence}"
    for sentence in Traps(known.settings.traps, known.store).explain(url.href):
        yield f"traps: {sentence}"


def _ledger(known: Known, url: Canonical) -> str:
    (row,) = rows_of([url.key], digest_keys([url.key]))
    if known.store.get(Family.SEEN, row) is not None:
        return "it was admitted, its digest says so"
    if known.store.get(Family.LEDGER, row) is not None:
        return "called seen, not confirmed yet; it is admitted if it never was"
    return "never admitted: when it is found the ledger will say so"


def _where(known: Known, url: Canonical, now: float) -> Iterator[str | None]:
    name = host_key(url.href)
    host = known.host(name)
    if host is None:
        stored = known.store.get(Family.HOSTS, name.encode("ascii"))
        if stored is None:
            yield f"host {name}: never admitted to"
            return
        host = decode_host(name, stored)
    row = host_row(host, now, sum(host_key(href) == name for href in known.in_flight), known.settings)
    yield (
        f"host {name}: {row['state']}, {row['pending']} pending, {row['in_flight']} in flight, "
        f"{row['fetched']} fetched, {row['failed']} failed, a gap of {row['gap_seconds']:.3g} s"
    )
    yield from _robots(known, url, name)
    unfinished = False
    for line in _queued(known, url, host, row, now):
        unfinished |= line is not None
        yield line
    yield from _schedule(known, url, now)
    done = False
    for record in last_record(known.directory / PAGES, url.href):
        if record is not None:
            done = True
            status = "no response" if record["status"] is None else f"status {record['status']}"
            error = f": {record['error']}" if record["error"] else ""
            yield f"done: {record['outcome']}, {status}, {record['fetched_at']}{error}"
        else:
            yield None
    if not done and not unfinished:
        yield "neither pending nor in pages.jsonl under this href"


def _schedule(known: Known, url: Canonical, now: float) -> Iterator[str]:
    stored = known.store.get(Family.PAGES, url.href.encode("ascii"))
    if stored is None:
        if known.settings.recrawl.enabled:
            yield "schedule: it was not finished yet"
        return
    page = unpack_page(stored)
    found = f"{page.visits} visits, {page.changes} found a change, an interval of {page.interval:.0f} s"
    if page.due is None:
        yield f"schedule: {found}, queued for the next"
    elif page.due <= now:
        yield f"schedule: {found}, the next is due since {moment(page.due)}"
    else:
        yield f"schedule: {found}, the next at {moment(page.due)}"


def _robots(known: Known, url: Canonical, name: str) -> Iterator[str]:
    if known.settings.robots.ignore:
        yield "robots: not asked for (robots.ignore)"
        return
    agent = known.settings.fetch.user_agent
    try:
        robots = RobotsCache(known.store, known.settings.robots, agent).get(name)
    except RobotsRecordError as damage:
        yield f"robots: the record in store/ is damaged: {damage}"
        return
    if robots is None:
        yield "robots: not known yet, it will be asked for first"
    elif not robots.rules.allowed(url.href):
        yield f"robots: {robots.refusal} (as {agent!r})"
    else:
        yield f"robots: allowed (as {agent!r})"


def _queued(known: Known, url: Canonical, host: Host, row: Row, now: float) -> Iterator[str | None]:
    ahead = 0
    for number, (slot, entry) in enumerate(queue(known.store, host.name)):
        if number >= _QUEUE_SHOWN:
            yield f"not among the first {_QUEUE_SHOWN} of its host's queue"
            return
        if number % _PAUSE == _PAUSE - 1:
            yield None
        if entry.href != url.href:
            ahead += entry.href not in known.in_flight
            continue
        tries = f", {entry.tries} tries failed" if entry.tries else ""
        tries += f", answered 429 or 503 {entry.throttled} times" if entry.throttled else ""
        found = f"depth {entry.depth}, via {entry.via}{tries}" + (", visited before" if entry.revisit else "")
        since = known.in_flight.get(url.href)
        if since is not None:
            yield f"in flight: handed out at {moment(since)}, {found}"
            return
        lane = "retry lane" if is_retry(slot) else "queue"
        yield f"pending: number {ahead + 1} in the {lane} of {host.name}, {found}"
        by = PriorityRules(known.settings.priority.rules).explain(url.href, entry.depth, seed=entry.seed)
        yield f"class: {entry.priority} since it was admitted. {by}"
        yield _when(slot, host, row, now, known.settings.politeness.per_host)
        return


def _when(slot: bytes, host: Host, row: Row, now: float, per_host: int) -> str:
    if row["state"] in (HostState.BLOCKED, HostState.RETIRED, HostState.PAUSED):
        return f"next: its host is {row['state']}: {row['reason']}"
    if max(host.leased, row["in_flight"]) >= per_host:
        return (
            "next: its host is asked for something else; when that is over, and the gap after it (politeness.per_host)"
        )
    if host.in_line:
        return f"next: its host {row['reason']}"
    again = retry_time(slot) if is_retry(slot) else 0.0
    if again > max(now, host.next_time + _AS_HELD):
        return f"next: not before {moment(again)}, it failed and is asked again"
    if host.next_time > now:
        return f"next: its host not before {moment(host.next_time)}: {host.hold_reason.words}"
    return "next: its host may be asked now; those before it in the queue come first"


def moment(seconds: float) -> str:
    """Seconds since 1970 for people: RFC 3339 in UTC."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
