"""Everything a job knows about one URL, as values: its canonical form, whether it is in scope, whether it was seen, its
place in the queue, when it may be fetched, why it waits, and its outcome."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from msgspec import Struct, field, to_builtins

from crawler.base.figures import Worded
from crawler.base.kv import Family, Reader
from crawler.base.settings.parts import Settings
from crawler.base.settings.sites import Sites
from crawler.frontier.capacity import AT_ONCE, Bar
from crawler.frontier.entry import Entry, is_retry, is_revisit, queue_of, retry_time
from crawler.frontier.host_status import HostSnapshot, HostState
from crawler.frontier.page import HASTENED, unpack_page
from crawler.frontier.politeness import HoldReason
from crawler.frontier.revisits import ONCE
from crawler.frontier.traps.origins import Origins
from crawler.frontier.traps.soft404 import explain_rows
from crawler.frontier.traps.traps import Traps
from crawler.inspect.crawl_partitions import CrawlPartitions, crawl_partitions, whole_job
from crawler.inspect.host_settings import SettingInForce, url_settings
from crawler.inspect.host_table import Row, table_row
from crawler.inspect.hosts_now import HostsNow, slot_figures
from crawler.inspect.job_reader import open_job, queue
from crawler.inspect.known_urls import open_known
from crawler.inspect.statistics import FailingProxy, SlotFigures
from crawler.job.clock_anchor import job_time
from crawler.job.crawl_file import crawl_around, partition_directory
from crawler.job.directory import PAGES, JobError
from crawler.job.identity import read_identity
from crawler.job.live_status import Live, read_live
from crawler.job.output.reverse_reader import last_record
from crawler.job.recovery import stored_counters
from crawler.job.scope_state import scope_key
from crawler.job.stored_errors import DAMAGE
from crawler.seen.exact.rows import rows_of
from crawler.seen.filters import Claim, KeyHash, SeenSet
from crawler.url.robots.parse import RobotsRecordError
from crawler.url.scope.boundary import Boundary, Outside
from crawler.url.scope.modes import Scope
from crawler.url.scope.priority_rules import PriorityRules
from crawler.url.urls.canonicaliser import Canonical, Canonicaliser
from crawler.url.urls.host_key import host_key
from crawler.url.urls.whatwg import Rejected
from crawler.web.fetch.robots_answers import RobotsCache

QUEUE_SEARCHED = 1_000_000  # maximum number of entries of a host's queue that are searched for a URL
_AS_HELD = 0.002  # seconds; a retry due no later than this after its host's hold ends counts as waiting for it
_DAY = 86_400.0
_PAUSE = 1_024  # number of entries after which the search checks again whether to stop


class Step(Struct, frozen=True):
    """A step of canonicalisation, and the URL after it."""

    name: str
    value: str


class ScopeAnswer(Struct, frozen=True):
    """The answer of the scope for a link to the URL. ``outside`` is the first rule that excludes it; None if it is in
    scope."""

    mode: str
    outside: Outside | None
    reasons: list[str]


class SeenAnswer(Struct, frozen=True):
    """The answer of the seen-set for a URL.

    ``exact`` is True if the answer cannot be a false positive. Otherwise, ``fpp_estimated`` is the probability of a
    positive answer for a key that was never added. ``slices`` are the slices with a positive answer, out of ``of`` in
    total. ``forgeable`` is True if a page may have caused a positive answer for a URL that was never added."""

    known: bool
    kind: str
    exact: bool
    fpp_estimated: float
    slices: tuple[Claim, ...]
    of: int
    forgeable: bool


class LedgerAnswer(Worded):
    """The answer of the ledger of doubted URLs for a URL."""

    ADMITTED = "admitted", "admitted: its digest is stored"
    DOUBTED = "doubted", "in doubt: the seen-set reports it as seen; it is admitted if its digest is not stored"
    NEW = "new", "never admitted: the ledger corrects the seen-set when a link to it is found"


class RobotsState(Worded):
    """The verdict of robots.txt on the URL."""

    IGNORED = "ignored", "ignored (robots.ignore)"
    UNKNOWN = "unknown", "not known yet: it is fetched before the first page"
    ALLOWED = "allowed", "allowed (as {agent!r})"
    DISALLOWED = "disallowed", "{reason} (as {agent!r})"
    DAMAGED = "damaged", "the record in store/ is damaged: {reason}"


class RobotsAnswer(Struct, frozen=True):
    """``reason`` is why the URL is disallowed or the stored record is damaged. ``last_answer`` is set if the last
    response had no rules; the rules are then those of the copy fetched at ``copy_of`` (seconds since 1970). ``cut``
    lists the parts of the file left out. ``until`` is when the file expires, in seconds since 1970; once the file has
    ``expired``, it is fetched again before the next page. ``fetching_since`` is when the current fetch started."""

    state: RobotsState
    agent: str
    reason: str | None = None
    last_answer: str | None = None
    copy_of: float | None = None
    cut: list[str] = field(default_factory=list)
    until: float | None = None
    expired: bool = False
    fetching_since: float | None = None


class Wait(Worded):
    """The reason why a pending URL waits."""

    NOTHING = "nothing", "its host is ready, and may get a request now"
    HOST_CLOSED = "host-closed", "its host is {state}: {reason}"
    HOST_ROBOTS = (
        "host-robots",
        "when robots.txt of its host has been fetched{since} and the gap after it has passed",
    )
    HOST_BUSY = (
        "host-busy",
        "when the gap after the current request to its host has passed: {reason}{since} (politeness.per_host)",
    )
    HOST_GROUP = "host-group", "its host {reason} (politeness.host_key)"
    RETRY = "retry", "not before {at}: it failed and will be retried then"
    HOST_HELD = "host-held", "not before {at}, because of its host: {reason}"
    CRAWL = "crawl", "its host is due, but the crawl hands out no URLs now: {reason}"
    RATE = "rate", "its host is due, but requests wait for the rate limit (politeness.rate)"
    SLOT = "slot", "its host is due, but no slot is free for it"
    HOST_TURN = "host-turn", "its host is due, but other hosts have their turn first"


class NextTry(Struct, frozen=True):
    """When a pending URL may be fetched. ``not_before`` is in seconds since 1970, if known. ``reason`` is why its host
    waits, or why the crawl hands out no URLs. ``since`` is when the request that the URL waits for started."""

    waits_for: Wait
    not_before: float | None = None
    reason: str | None = None
    since: float | None = None


class Place(Struct, frozen=True):
    """The place of a URL in its host's queue. ``number`` counts from 1; it is None for a URL in flight, which the queue
    handed out at ``in_flight_since``. ``crashes`` counts how often the crawler crashed while reading the page; such a
    URL is fetched after all others of its host. ``priority_rule`` is a sentence about the rule that now determines the
    URL's priority class."""

    number: int | None
    lane: str
    in_flight_since: float | None
    depth: int
    via: str | None
    tries: int
    throttled: int
    visited_before: bool
    crashes: int
    priority_class: int
    priority_rule: str
    next: NextTry | None


class RevisitSchedule(Struct, frozen=True):
    """The visits of a page that is revisited. ``due`` is in seconds since 1970; it is None if the page is queued. It is
    also None, and there are no ``visits``, if no visit is scheduled because the page is unfinished or gone. ``rate`` is
    the estimated number of changes per day, None if there is no estimate. If the visit was moved forward because the
    site reported a change, ``moved_for`` is the time of that change."""

    visits: int
    changes: int
    interval: float
    due: float | None
    rate: float | None = None
    moved_for: float | None = None


class Ownership(Struct, frozen=True):
    """The partition of a crawl that owns a URL: ``number`` of ``of``. ``begun`` is True once the partition has received
    a URL."""

    number: int
    of: int
    begun: bool


class Explanation(Struct):
    """Everything known about the URL ``url`` at ``at`` (seconds since 1970). A field that does not apply is None.

    ``rejected`` is why the text is not a URL to crawl; ``refused`` is the crawler's rule that forbids requesting the
    URL. ``older_sets`` are the sets of ``crawl.known`` that contain the URL; if there are any, links to it are not
    admitted. ``older_sets_fault`` is why these sets cannot be read. ``host_row`` is the row of the table of hosts, None
    if no URL of the host was admitted. If the URL was not found and only part of the queue was searched,
    ``queue_searched`` is the number of entries searched. ``record`` is the URL's last record in the output. ``damage``
    is the error for the first unreadable part; fields filled after that are missing. ``paused`` is why the running
    crawl hands out no URLs. ``proxies`` are the proxies failing now. ``settings`` apply to the host and the URL.
    ``partition`` is None for a job."""

    url: str
    at: float
    settings_fault: str | None = None
    steps: list[Step] = field(default_factory=list)
    rejected: str | None = None
    href: str | None = None
    key: str | None = None
    host: str | None = None
    scope: ScopeAnswer | None = None
    refused: str | None = None
    traps: list[str] = field(default_factory=list)
    older_sets: list[str] = field(default_factory=list)
    older_sets_fault: str | None = None
    seen: SeenAnswer | None = None
    ledger: LedgerAnswer | None = None
    host_row: Row | None = None
    robots: RobotsAnswer | None = None
    place: Place | None = None
    queue_searched: int | None = None
    schedule: RevisitSchedule | None = None
    record: dict[str, Any] | None = None
    damage: str | None = None
    paused: str | None = None
    proxies: Sequence[FailingProxy] = ()
    settings: list[SettingInForce] = field(default_factory=list)
    partition: Ownership | None = None

    def as_json(self) -> dict[str, Any]:
        figures: dict[str, Any] = to_builtins(self)
        return figures


class CrawlNow(Struct, frozen=True):
    """The state of a running crawl. ``in_flight`` maps URLs to the times when they were handed out; ``side_requests``
    maps hosts to the times when the fetch of their robots.txt or address started. ``paused`` is why the crawl hands out
    no URLs. ``slots`` is None if no crawl is running. ``proxies`` are the proxies failing now."""

    in_flight: Mapping[str, float] = field(default_factory=dict)
    side_requests: Mapping[str, float] = field(default_factory=dict)
    paused: str | None = None
    slots: SlotFigures | None = None
    proxies: Sequence[FailingProxy] = ()


class Known(Struct, frozen=True):
    """The sources of an explanation. ``seen`` returns the seen-set's answer for a URL; ``host`` returns the host's
    state if the crawl runs in this process, otherwise None. ``hash`` makes the digests of the ledger. ``crawl`` is the
    state of a running crawl. ``older_sets`` returns the older seen-sets that contain a URL. ``check`` is called from
    time to time; it may raise an exception to stop a long search."""

    directory: Path
    settings: Settings
    hash: KeyHash
    store: Reader
    seen: Callable[[Canonical], SeenAnswer]
    host: Callable[[str], HostSnapshot | None] = lambda _: None
    crawl: CrawlNow = CrawlNow()
    older_sets: Callable[[Canonical], list[str]] = lambda _: []
    check: Callable[[], None] = lambda: None


def explain_url(directory: Path, text: str, now: float | None = None) -> Explanation:
    """Explain a URL for the job in a directory, as of ``now`` or, if that is None, the time on the job's own clock.
    Raises the exceptions of ``open_job``."""
    fetcher = read_identity(directory).fetcher
    if fetcher is not None:
        raise JobError(f"{directory} is the job of {fetcher}, which schedules its requests itself")
    live = read_live(directory)
    with ExitStack() as opened:
        job, older, fault = opened.enter_context(open_job(directory)), None, None
        try:
            older = opened.enter_context(open_known(job.settings.crawl.known, directory))
        except JobError as error:  # the sets may have been moved: explain the rest
            fault = str(error)
        known = Known(
            directory,
            job.settings,
            job.identity.hash,
            job.store,
            lambda url: explain_seen(job.restore_seen().seen, url),
            crawl=CrawlNow() if live is None else _told_by(live),
            older_sets=lambda url: [] if older is None else older.that_know(url),
        )
        at = job_time(job.store) if now is None else now
        found = explain(known, text, at)
        found.settings_fault, found.older_sets_fault = job.settings_fault, fault
        return found


def owner_of(crawl: CrawlPartitions, text: str) -> int | None:
    """Return the number of the partition that owns a URL; None if the text is not a URL. Raises JobError."""
    url = crawl.canonicaliser().canonicalise(text)
    return crawl.placement.of(url.href) if isinstance(url, Canonical) else None


def explain_in(directory: Path, text: str) -> Explanation:
    """Return everything a job or crawl knows about a URL; for a crawl, from the partition that owns it. If the
    directory is that of a single partition, the explanation also names the owner. Raises the exceptions of
    ``open_job``.

    If the owner has not started, none of its URLs has been found. The explanation then comes from another partition,
    which has the same settings."""
    around = crawl_around(directory)
    crawl = crawl_partitions(around or directory)
    number = None if crawl.is_job else owner_of(crawl, text)
    owner = None if number is None else crawl.partition(number)
    partition = (owner or crawl.found[0]) if around is None else whole_job(directory)
    with partition.named():
        found = explain_url(partition.directory, text)
        if found.record is None and owner is not None and found.href is not None and found.damage is None:
            before = (last_record(job / PAGES, found.href) for job in crawl.with_records(owner)[1:])
            found.record = next((each for records in before for each in records if each is not None), None)
    is_here = number is None or (around and partition_directory(around, number).resolve() == directory.resolve())
    if number is not None and not is_here:
        found.partition = Ownership(number, crawl.count, begun=owner is not None)
    return found


def _told_by(live: Live) -> CrawlNow:
    stats = live.stats
    return CrawlNow(
        live.in_flight,
        live.side_requests,
        stats.get("paused"),
        slot_figures(live),
        [FailingProxy(**proxy) for proxy in (stats.get("proxies") or {}).get("named", ())],
    )


def explain(known: Known, text: str, now: float) -> Explanation:
    """Return the explanation, also for a text that is not a URL. For a damaged job, the explanation covers the readable
    parts."""
    canonicaliser = Canonicaliser(known.settings.canonical.rules)
    steps = [Step(*step) for step in canonicaliser.explain(text)]
    found = Explanation(text, now, steps=steps, paused=known.crawl.paused, proxies=known.crawl.proxies)
    url = canonicaliser.canonicalise(text)
    if isinstance(url, Rejected):
        found.rejected = url.reason
    else:
        found.href, found.key, found.host = url.href, url.key, host_key(url.href)
        try:
            _fill(known, url, found)
        except DAMAGE as error:
            found.damage = str(error)
    return found


def explain_seen(seen: SeenSet, url: Canonical) -> SeenAnswer:
    """Return whether the seen-set contains the key, which slices report it, and how reliable that is."""
    found = seen.lookup(url.key)
    return SeenAnswer(
        found.known,
        seen.kind,
        exact=found.certain,
        fpp_estimated=found.fpp,
        slices=found.claims,
        of=found.slices,
        forgeable=seen.hash.forgeable,
    )


def _fill(known: Known, url: Canonical, found: Explanation) -> None:
    found.scope = _scope(known, url)
    refusal = Origins(known.settings.traps, known.settings.fetch, known.store).refusal(url.href)
    found.refused = None if refusal is None else refusal.error
    found.traps = list(Traps(known.settings.traps, known.store).explain(url.href))
    found.traps += explain_rows(known.store, url.href)
    found.older_sets = known.older_sets(url)
    found.seen = known.seen(url)
    if known.settings.seen.ledger:
        found.ledger = _ledger(known, url)
    name = queue_of(url.href)
    host = known.host(name) or _stored_host(known, name, found.at)
    found.settings = url_settings(Sites(known.settings), name, url.href)
    if host is None:
        return
    found.host_row = table_row(host.row)
    found.robots = _robots(known, url, host, found.at)
    found.place, found.queue_searched = _find_place(known, url, host, found.at)
    found.schedule = _schedule(known, url)
    for record in last_record(known.directory / PAGES, url.href):
        found.record = record
        known.check()


def _stored_host(known: Known, name: str, now: float) -> HostSnapshot | None:
    crawl = known.crawl
    beside = HostsNow(
        known.store,
        Counter(map(queue_of, crawl.in_flight)),
        crawl.side_requests,
        AT_ONCE if crawl.slots is None else crawl.slots.serving,
    )
    return beside.snapshot(name, Sites(known.settings), now)


class _Link(Struct, frozen=True):
    href: str


def _scope(known: Known, url: Canonical) -> ScopeAnswer:
    mode = known.settings.crawl.scope
    prefix = scope_key(mode, "")
    rows = known.store.scan(Family.META, prefix, prefix[:-1] + b"0")
    scope = Scope(mode)
    scope.restore(key[len(prefix) :].decode("utf-8") for key, _ in rows)
    boundary, outside = Boundary(scope, known.settings), Counter[Outside]()
    boundary.inside([_Link(url.href)], 0, outside)
    reasons, asked = boundary.explain(url.href, None), known.settings.hooks.filter_link
    if asked is not None:
        refused = stored_counters(known.store).links_filtered
        reasons.append(
            f"Links in scope are followed if {asked} accepts them (hooks.filter_link): it has rejected {refused:,}."
        )
    return ScopeAnswer(mode, next((rule for rule in Outside if outside[rule]), None), reasons)


def _ledger(known: Known, url: Canonical) -> LedgerAnswer:
    (row,) = rows_of([url.key], known.hash.digest_keys([url.key]))
    if known.store.get(Family.SEEN, row) is not None:
        return LedgerAnswer.ADMITTED
    return LedgerAnswer.NEW if known.store.get(Family.LEDGER, row) is None else LedgerAnswer.DOUBTED


def _schedule(known: Known, url: Canonical) -> RevisitSchedule | None:
    stored = known.store.get(Family.PAGES, url.href.encode("ascii"))
    enabled = known.settings.recrawl.enabled
    if stored is None:
        return RevisitSchedule(0, 0, 0.0, None) if enabled else None
    page = unpack_page(stored)
    if page.interval == ONCE and not enabled:
        return None  # a single further visit was requested; the page has no schedule
    rate = None if page.rate is None else page.rate.mean * _DAY
    moved_for = page.stated if page.marks & HASTENED else None
    return RevisitSchedule(page.visits, page.changes, page.interval, page.due, rate, moved_for)


def _robots(known: Known, url: Canonical, host: HostSnapshot, now: float) -> RobotsAnswer:
    agent, name = known.settings.fetch.user_agent, host.row.host
    own = Sites(known.settings).of_host(name).robots
    if own.ignore:
        return RobotsAnswer(RobotsState.IGNORED, agent)
    since = known.crawl.side_requests.get(name)
    try:
        robots = RobotsCache(known.store, agent).get(name)
    except RobotsRecordError as damage:
        return RobotsAnswer(RobotsState.DAMAGED, agent, str(damage), fetching_since=since)
    if robots is None:
        return RobotsAnswer(RobotsState.UNKNOWN, agent, fetching_since=since)
    refusal = robots.refusal(url.href)
    return RobotsAnswer(
        RobotsState.ALLOWED if refusal is None else RobotsState.DISALLOWED,
        agent,
        None if refusal is None else refusal.words,
        None if robots.copy_of is None else robots.answer_words,
        robots.copy_of,
        list(robots.rules.cut),
        host.robots_until or None,
        host.robots_until <= now and not host.robots_unused,
        since,
    )


def _find_place(known: Known, url: Canonical, host: HostSnapshot, now: float) -> tuple[Place | None, int | None]:
    """Return the URL's place in its host's queue; None if it was not found there. If the search stopped before the end
    of the queue, also return the number of entries searched."""
    ahead = 0
    for number, (slot, entry) in enumerate(queue(known.store, host.row.host)):
        if number >= QUEUE_SEARCHED:
            return None, number
        if number % _PAUSE == _PAUSE - 1:
            known.check()
        if entry.href == url.href:
            since = known.crawl.in_flight.get(url.href)
            upcoming = _next_try(slot, host, now, known) if since is None else None
            return _place(known, entry, slot, ahead + 1, since, upcoming), None
        ahead += entry.href not in known.crawl.in_flight
    return None, None


def _place(
    known: Known, entry: Entry, slot: bytes, number: int, since: float | None, upcoming: NextTry | None
) -> Place:
    rules = PriorityRules.of_settings(known.settings)
    rule = rules.explain(entry.href, entry.depth, seed=entry.seed)
    ruled = rules.of(entry.href, entry.depth, seed=entry.seed, sitemap_priority=None) is not None
    if known.settings.hooks.score_links is not None and not (ruled or entry.seed):
        rule = (
            f"Class by the best score of a link to it ({known.settings.hooks.score_links}): no priority rule matches."
        )
    return Place(
        number=number if since is None else None,
        lane="retry" if is_retry(slot) else "revisit" if is_revisit(slot) else "fresh",
        in_flight_since=since,
        depth=entry.depth,
        via=entry.via,
        tries=entry.tries,
        throttled=entry.throttled,
        visited_before=entry.revisit,
        crashes=entry.crashes,
        priority_class=entry.priority,
        priority_rule=rule,
        next=upcoming,
    )


def _next_try(slot: bytes, host: HostSnapshot, now: float, known: Known) -> NextTry:
    """Return the reason why the URL waits."""
    row, crawl = host.row, known.crawl
    again, held_until = retry_time(slot) if is_retry(slot) else 0.0, host.next_time
    if row.state in (HostState.BLOCKED, HostState.RETIRED, HostState.PAUSED):
        return NextTry(Wait.HOST_CLOSED, reason=row.reason)
    if host.side_request:
        return NextTry(Wait.HOST_ROBOTS, reason=row.reason, since=crawl.side_requests.get(row.host))
    if host.leased >= Sites(known.settings).of_host(row.host).politeness.per_host:
        flying = [since for href, since in crawl.in_flight.items() if queue_of(href) == row.host]
        if flying or crawl.slots is None or not crawl.slots.rate_waiting:
            return NextTry(Wait.HOST_BUSY, reason=row.reason, since=min(flying, default=None))
        return NextTry(Wait.RATE)  # the queue has handed out the host
    if host.in_line:
        return NextTry(Wait.HOST_GROUP, reason=row.reason)
    if again > max(now, held_until + _AS_HELD):
        return NextTry(Wait.RETRY, again)
    if row.rule == HoldReason.HOURS.name.lower() and row.next_time is not None:
        return NextTry(Wait.HOST_HELD, row.next_time, row.reason)  # the host may not have been tried yet
    if held_until > now:
        return NextTry(Wait.HOST_HELD, held_until, host.hold_reason.words)
    return _due(host, crawl.slots)


def _due(host: HostSnapshot, slots: SlotFigures | None) -> NextTry:
    """Return the reason why a due host waits."""
    bar = None if slots is None else slots.serving.bar_of(host.kind, in_session=host.in_session)
    if slots is None or bar is None:
        return NextTry(Wait.NOTHING)
    return NextTry(_BARS[bar], reason=slots.reason)


_BARS = {Bar.CRAWL: Wait.CRAWL, Bar.RATE: Wait.RATE, Bar.SLOT: Wait.SLOT, Bar.TURN: Wait.HOST_TURN}
