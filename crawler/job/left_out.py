"""URLs and links that limits left out of a crawl, kept so that a run that lifts a limit can add them.

``crawler.url.scope.bounds`` has the table of all limits. A row of ``LEFT_OUT`` is, by its key,

    NUL href        a page: the number of its links left out by each limit, the limits of the run that read it, and the
                    entry for another visit, which has to find the links again.
    rule NUL href   a URL that one of our rules excluded: the refused subject (an address, a port, the text of a limit),
                    and the entry. URLs that traps drop without a record are counted at the page that links to them.

A row is written in the transaction that finishes the page or URL, so a page costs one row, however many links were left
out. The row of a URL is removed in the transaction that requeues it. The row of a page stays until the page is read
again: if the visit fails, ``crawler retry`` can still find what is missing. The counters have the totals.

The limits of each run have a number, and META holds them under ``limits/`` and the number. A run that lifts limits
reads the rows of these limits, a few at a time while it crawls. It stores its progress in the same transactions, so a
crash repeats nothing. As long as the limits are unchanged, no rows are read.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping

import msgspec.msgpack
from msgspec import Struct

from crawler.base.kv import Batch, Family, Reader, Store
from crawler.base.settings.parts import FetchSettings, Settings
from crawler.frontier.entry import Entry
from crawler.frontier.frontier import Frontier
from crawler.frontier.traps.origins import Origins, refusal_of_limit
from crawler.frontier.traps.traps import Traps
from crawler.job.metrics.catalogue import Counters
from crawler.job.records import PageRecord, count_in, ended, url_kind
from crawler.url.consent import statements
from crawler.url.refusal.forbidden_targets import (
    Permits,
    Refusal,
    Rule,
    refusal_of,
    refusal_of_address,
    refusal_of_port,
)
from crawler.url.scope.bounds import Bounds, LeftOut, Lifted, Limit

ROWS = 256  # rows read in one transaction
_BOUNDS = b"limits/"
_PROGRESS = b"limits-progress"
_PAGES = ""  # takes the place of the rule in the keys of pages

_encode = msgspec.msgpack.Encoder().encode
_decode_progress = msgspec.msgpack.Decoder(tuple[int, list[str], bytes]).decode


class LeftOutError(ValueError):
    """The row is not a URL or page that a limit left out."""


class LimitRow(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A URL that ``rule`` refused because of ``subject``; or a page with links that were left out, with the number of
    the limits under which it was read, and the depth of its links."""

    entry: Entry
    rule: Rule | None = None
    subject: str = ""
    bounds: int = 0
    visits: int = 0
    depth: int = 0
    counts: dict[Limit, int] = {}

    @property
    def key(self) -> bytes:
        return _key(self.rule or _PAGES, self.entry.href)

    def count(self, counters: Counters, by: int = 1) -> None:
        """Add the row to the counters; with ``by`` = -1 subtract it."""
        if self.rule is not None:
            count_in(counters.urls_held_back, self.rule, by)
            return
        counters.pages_at_border += by
        for limit, links in self.counts.items():
            count_in(counters.links_left_out, limit, by * links)

    def gains(self, lifted: frozenset[Limit], now: Settings) -> bool:
        """True if a visit may find more links once these limits are lifted."""
        if Limit.HOPS_OUTSIDE in lifted and self.entry.reach < now.crawl.hops_outside:
            lifted |= {Limit.SCOPE}
        shallow = now.crawl.max_depth is None or self.depth <= now.crawl.max_depth
        return any(self.counts.get(limit) and (shallow or limit is not Limit.MAX_DEPTH) for limit in lifted)


class OwnRules(Struct, frozen=True):
    """The rules of one run: the addresses and ports that the user permits, and the limits on the numbers of hosts and
    ports."""

    settings: Settings
    origins: Origins

    @classmethod
    def of(cls, settings: Settings, store: Reader) -> OwnRules:
        return cls(settings, Origins(settings.traps, settings.fetch, store))

    def refusal_of_host(self, name: str) -> Refusal | None:
        """Return why a ``host:port`` must not be requested, judging by its name alone."""
        host, _, port = name.rpartition(":")
        return refusal_of(host, int(port), self.settings.fetch)

    def refusal(self, rule: Rule, subject: str) -> Refusal | None:
        """Return why the rule refuses a subject (an address, a port, or a counted name); None if it is permitted
        now."""
        permitted = self.settings.fetch
        if rule is Rule.CONSENT:
            return statements.refusal(statements.stated_in(subject), self.settings.purpose)
        if rule is Rule.BLOCKED_PORT:
            return None if int(subject) in permitted.allow_ports else refusal_of_port(int(subject))
        if rule.is_of_address:
            return refusal_of_address(subject, Permits.of(permitted))
        if rule.is_setting:
            return Refusal.of_setting(rule, subject)
        return refusal_of_limit(rule, subject, self.settings.traps)


class LeftOutRows:
    """The URLs and links that limits left out of a job. ``again`` counts a finished URL as queued for another visit and
    returns its entry, or None if the URL is already queued. ``tell`` is called with one line for the first URL that
    each rule refuses."""

    _rules: OwnRules  # rules of this run; set by ``load``
    _traps: Traps

    def __init__(
        self,
        store: Store,
        frontier: Frontier,
        counters: Counters,
        again: Callable[[Entry, int, Batch], Entry | None],
    ) -> None:
        self._store = store
        self._frontier = frontier
        self._counters = counters
        self._again = again
        self._number = 0  # number of the limits of this run
        self._lifted: dict[int, Lifted] = {}  # limits of earlier runs that this run lifts, by run number
        self._rest: list[str] = []  # rules (or ``_PAGES``) whose rows are still to be read
        self._at = b""  # key of the next row to read, among the rows of the first of these rules
        self._told: set[Rule] = set()
        self.tell: Callable[[str], None] = lambda _: None

    def load(self, rules: OwnRules, traps: Traps, batch: Batch) -> None:
        """Start a run with these limits. Raises BoundsError, LeftOutError."""
        self._rules, self._traps = rules, traps
        bounds, counters = Bounds.of(rules.settings), self._counters
        rows = self._store.rows(Family.META, _BOUNDS, _BOUNDS + b"\xff")
        known = {int(key[len(_BOUNDS) :]): Bounds.decode(value) for key, value in rows}
        self._number = next((number for number, each in known.items() if each == bounds), len(known) + 1)
        if self._number not in known:
            batch.put(Family.META, _BOUNDS + str(self._number).encode("ascii"), bounds.encode())
        self._lifted = {number: each.lifted(bounds) for number, each in known.items()}
        number, self._rest, self._at = self._progress()
        if number != self._number:
            limits = self.lifted | ({Limit.SCOPE} if Limit.HOPS_OUTSIDE in self.lifted else set())
            rules_lifted = frozenset[Rule]().union(*(each.rules for each in self._lifted.values()))
            self._rest = [rule.value for rule in counters.urls_held_back if rule in rules_lifted]
            self._rest += [_PAGES] * any(limit in limits for limit in counters.links_left_out)
            self._at = b""
            self._keep(batch)

    @property
    def left(self) -> bool:
        """True if there are rows still to be read."""
        return bool(self._rest)

    @property
    def lifted(self) -> frozenset[Limit]:
        """The limits of earlier runs that this run lifts."""
        return frozenset[Limit]().union(*(each.limits for each in self._lifted.values()))

    def tell_rest(self, say: Callable[[str], None]) -> None:
        """Report to ``say`` the lifted limits whose pages are revisited, and to ``tell`` how many URLs of earlier runs
        stay excluded."""
        for rule, number in self._counters.urls_held_back.items():
            if rule not in self._rest:
                are = "URL is" if number == 1 else "URLs are"
                self.tell(f"{number} {are} excluded by the rule {rule.value}{self._example(rule, number)}")
        if _PAGES in self._rest:
            say(f"lifted: {', '.join(sorted(self.lifted))}: pages whose links were left out are visited again")

    def _example(self, rule: Rule, number: int) -> str:
        """Describe how to permit the first URL that the rule excludes."""
        for key, value in self._store.scan(Family.LEFT_OUT, *_range(rule), 1):
            with contextlib.suppress(LeftOutError):  # damage is reported by `verify`, and by a run that permits the URL
                row = decode_row(key, value)
                refusal = self._rules.refusal(rule, row.subject)
                if refusal is not None:
                    return f": {refusal.words}" if number == 1 else f", for example {row.entry.href}: {refusal.words}"
        return ": `crawler explain` shows how to permit a URL"

    def add(self, record: PageRecord, batch: Batch) -> None:
        """Store a URL that was finished as excluded by one of our rules. Revisits are not stored, because they are
        scheduled again anyway."""
        refusal, entry = record.refusal, record.entry
        if refusal is None:
            return
        if refusal.rule not in self._told:
            self._told.add(refusal.rule)
            what = "dropped" if refusal.rule is Rule.CONSENT else "not fetched"
            self.tell(f"{what}: {entry.href}: {refusal.error}; `crawler tail --outcome excluded` lists others")
        if not entry.revisit:
            self._put(refusal, ended(entry, url_kind(record.outcome, None)), batch)

    def _put(self, refusal: Refusal, entry: Entry, batch: Batch) -> None:
        row = LimitRow(entry, refusal.rule, refusal.subject)
        if self._store.get(Family.LEFT_OUT, row.key) is None:
            row.count(self._counters)
        batch.put(Family.LEFT_OUT, row.key, _encode(row))

    def note(
        self, record: PageRecord, left: LeftOut | None, batch: Batch, dropped: Mapping[str, int] | None = None
    ) -> None:
        """Store a finished page if limits left out some of its links, and remove its row if they left out none.

        ``left`` is None if the page was not read; ``dropped`` counts links refused by closed traps, by setting. URLs
        that the crawler made up are ignored."""
        if left is None or not self._number or record.entry.probe:
            return
        counts = {limit: links for limit, links in left.counts.items() if links}
        counts |= {Limit(limit): links for limit, links in (dropped or {}).items()}
        entry = ended(record.entry, url_kind(record.outcome, record.status))
        if counts or entry.revisit:
            drop(self._store, self._counters, entry.href, batch)
        if counts:
            page = LimitRow(entry, None, "", self._number, record.visit, left.depth, counts)
            page.count(self._counters)
            batch.put(Family.LEFT_OUT, page.key, _encode(page))

    def wants_whole(self, entry: Entry) -> bool:
        """True if a revisited page must be read even if it has not changed, because links that were left out may be
        admitted now. Raises LeftOutError."""
        if not entry.revisit or not self.lifted:
            return False
        key = _key(_PAGES, entry.href)
        stored = self._store.get(Family.LEFT_OUT, key)
        return stored is not None and self._gains(decode_row(key, stored))

    def _gains(self, page: LimitRow) -> bool:
        lifted = self._lifted.get(page.bounds, Lifted()).limits
        return page.gains(lifted, self._rules.settings)

    def step(self, batch: Batch) -> bool:
        """Read some rows, and requeue the pages and URLs that lifted limits affect. Returns True if more are left.
        Raises OSError, LeftOutError, PageError."""
        if not self._rest:
            return False
        start, end = _range(self._rest[0])
        rows = self._store.scan(Family.LEFT_OUT, self._at or start, end, ROWS)
        again = [entry for row in rows if (entry := self._back(decode_row(*row), batch)) is not None]
        self._frontier.admit(again, batch)
        self._at = rows[-1][0] + b"\0" if len(rows) == ROWS else b""
        if not self._at:
            del self._rest[0]
        self._keep(batch)
        return self.left

    def _back(self, row: LimitRow, batch: Batch) -> Entry | None:
        """Return the entry that requeues a page or URL; None if it is not to be queued now."""
        if row.rule is None:
            return self._again(row.entry, row.visits, batch) if self._gains(row) else None
        refused = self._refusal(row.rule, row, batch)
        if refused is not None and refused.rule is row.rule:
            return None
        batch.delete(Family.LEFT_OUT, row.key)
        row.count(self._counters, -1)
        if refused is not None:
            self._put(refused, row.entry, batch)
            return None
        self._counters.urls_returned += 1
        if row.rule is Rule.CONSENT:  # the URL was visited, and may be queued for its links
            return self._again(row.entry, 1, batch)
        self._counters.revisits += 1
        return row.entry._replace(tries=0, throttled=0)

    def _refusal(self, rule: Rule, row: LimitRow, batch: Batch) -> Refusal | None:
        """Return why the URL that the rule excluded is still refused, by this or another rule; None if it is permitted.

        Rules that are not checked here are applied when the URL is visited."""
        refused: Refusal | None
        grown = 0
        if rule in (Rule.TOO_MANY_PORTS, Rule.TOO_MANY_HOSTS):
            refused, grown = self._rules.origins.take_back(row.entry.href, rule, batch)
        elif rule.value.startswith("traps."):
            refused, grown = self._traps.still_refuses(rule, row.entry.href, batch)
        elif rule.is_setting:
            refused = self._frontier.over_budget(row.entry.href)
        else:
            refused = self._rules.refusal(rule, row.subject)
        self._counters.trap_counts += grown
        return refused

    def _progress(self) -> tuple[int, list[str], bytes]:
        """Return the number of the limits with which rows are read, the rules still to be read, and the key of the next
        row."""
        value = self._store.get(Family.META, _PROGRESS)
        try:
            return (0, [], b"") if value is None else _decode_progress(value)
        except msgspec.DecodeError as error:
            raise LeftOutError(f"not the progress of reading rows: {error}") from error

    def _keep(self, batch: Batch) -> None:
        batch.put(Family.META, _PROGRESS, _encode((self._number, self._rest, self._at)))


async def return_beside(
    sync: Callable[[], Awaitable[None]], room: Callable[[], Awaitable[None]], step: Callable[[], bool]
) -> None:
    """Call ``step`` until it returns False."""
    # If a power loss removes a record, its URL is requeued. This must not happen to URLs that this function has queued.
    await sync()
    more = True
    while more:
        await room()
        more = step()
        await asyncio.sleep(0)


def drop(store: Reader, counters: Counters, href: str, batch: Batch, rule: Rule | None = None) -> LimitRow | None:
    """Remove and return the row of a page, or of a URL that ``rule`` refuses; None if there is none. Raises
    LeftOutError.

    Called when the page is read again, the URL is queued, or its record was lost."""
    key = _key(rule or _PAGES, href)
    stored = store.get(Family.LEFT_OUT, key)
    if stored is None:
        return None
    row = decode_row(key, stored)
    row.count(counters, -1)
    batch.delete(Family.LEFT_OUT, key)
    return row


def decode_row(key: bytes, value: bytes) -> LimitRow:
    """Decode the row with that key. Raises LeftOutError."""
    try:
        row = _decode_row(value)
        if row.rule is Rule.BLOCKED_PORT:
            int(row.subject)
        elif row.rule is not None and row.rule.is_of_address:
            refusal_of_address(row.subject, Permits.of(FetchSettings()))
        if row.key != key or (row.rule is None and not all(row.counts.values() or [0])):
            raise LeftOutError("it lacks a count, or belongs to another URL")
    except ValueError as error:
        raise LeftOutError(f"not a row of left-out URLs: {error}") from error
    return row


_decode_row = msgspec.msgpack.Decoder(LimitRow).decode


def _key(rule: str, href: str) -> bytes:
    return f"{rule}\0{href}".encode("ascii")


def _range(rule: str) -> tuple[bytes, bytes]:
    """Return the key range of the rows of a rule, or of pages."""
    return _key(rule, ""), f"{rule}\1".encode("ascii")
