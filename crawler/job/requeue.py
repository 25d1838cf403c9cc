"""Requeues finished URLs at a user's request: each is visited once more, whatever kind of seen-set the job has.

Such a page is queued as a revisit (``revisit``), without a place in the schedule unless it already has one. A URL that
one of our rules holds back is queued as if the rule had been lifted. The seen-set is not consulted: the URL is in it,
and stays.

The URLs arrive in batches (``inbox``). For each batch in progress META holds, under ``put-back/`` and its name, how
many of its URLs are done; this is written in the transaction that queues them. So a batch that is read again after a
crash queues no URL twice, even if some of its URLs have been finished since.

``Reclassing`` moves pending URLs that match a pattern to another priority class. The rows of the queues are read a few
at a time, in the order of their keys, while the crawl runs. Each piece is one transaction, which also stores the
progress (META, ``class/`` and the name of the requesting batch), so a crash repeats nothing. URLs admitted meanwhile
get their class from the rules, and URLs in flight keep theirs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from crawler.base.kv import Batch, Family, Reader
from crawler.frontier.entry import Entry, decode_entry, split_pending_key
from crawler.frontier.frontier import Frontier
from crawler.frontier.order import default_class
from crawler.job.left_out import drop
from crawler.job.metrics.catalogue import Counters
from crawler.job.output.finished import Past
from crawler.job.records import StoredValue
from crawler.job.revisit import Revisiting
from crawler.url.refusal.forbidden_targets import Rule
from crawler.url.scope.patterns import Pattern
from crawler.url.scope.priority_rules import PriorityRules

_DONE = b"put-back/"
_COUNT = StoredValue(int, "the count of a batch")


class Returning:
    """Requeues finished URLs of a job."""

    def __init__(
        self, store: Reader, frontier: Frontier, counters: Counters, revisiting: Revisiting, rules: PriorityRules
    ) -> None:
        self._store = store
        self._frontier = frontier
        self._counters = counters
        self._revisiting = revisiting
        self.rules = rules

    def pending(self, pasts: Sequence[Past]) -> Iterator[set[str]]:
        """Yield those of the URLs that are pending, checking a few rows of their hosts' queues at a time. Raises
        EntryError."""
        wanted: dict[str, set[str]] = {}
        for past in pasts:
            wanted.setdefault(self._frontier.queue_of(past.href), set()).add(past.href)
        for host, hrefs in wanted.items():
            start = host.encode("ascii")
            for rows in self._store.pages(Family.PENDING, start + b"\0", start + b"\1"):
                yield hrefs.intersection(decode_entry(value).href for _, value in rows)

    def done(self, url_batch: str) -> int:
        """Return the number of URLs of the batch that are done."""
        return _COUNT.read(self._store, _DONE + url_batch.encode("ascii")) or 0

    def put_back(
        self,
        url_batch: str,
        pasts: Sequence[Past],
        done: int,
        pending: Collection[str],
        batch: Batch,
        priority: int | None = None,
    ) -> int:
        """Queue the URLs that are not ``pending``, and record that ``done`` URLs of the batch are done.

        The hosts of the queued URLs are tried again, and their robots.txt is fetched first. If ``priority`` is given,
        the URLs get it and go before all others with that priority. Returns the number queued.
        Raises PageError, LeftOutError."""
        again: dict[str, Entry] = {}
        for past in pasts:
            entry = None if past.href in pending or past.href in again else self._entry(past, batch)
            if entry is not None:
                again[past.href] = entry if priority is None else entry._replace(priority=priority)
        for host in {self._frontier.queue_of(href) for href in again}:
            self._frontier.overrides.ask_again(host, batch)
        self._frontier.admit(again.values(), batch, first=priority is not None)
        batch.put(Family.META, _DONE + url_batch.encode("ascii"), _COUNT.encode(done))
        return len(again)

    def _entry(self, past: Past, batch: Batch) -> Entry | None:
        for rule in Rule:
            if (held := drop(self._store, self._counters, past.href, batch, rule)) is not None:
                self._counters.revisits += 1
                self._counters.urls_returned += 1
                return held.entry._replace(tries=0, throttled=0)
        seed = past.depth == 0
        ruled = self.rules.of(past.href, past.depth, seed=seed, sitemap_priority=None)
        priority = default_class(self._frontier.order, past.depth, seed=seed) if ruled is None else ruled
        entry = Entry(past.href, past.depth, past.via, seed, priority=priority, reach=past.reach, last=past.last)
        return self._revisiting.again(entry, past.visits, batch)


ROWS = 250  # rows read in one transaction
_PROGRESS = b"class/"
_STATE = StoredValue(tuple[int, bool, bytes], "the progress of a change")  # URLs moved, whether all are read, next key


class Reclassing:
    """Changes the classes of a job's pending URLs."""

    def __init__(self, store: Reader, frontier: Frontier) -> None:
        self._store = store
        self._frontier = frontier

    def step(self, url_batch: str, pattern: Pattern, priority: int, batch: Batch) -> bool:
        """Read some rows, and move those that match to the class. Returns True if more are left. Raises EntryError."""
        moved, done, at = self._state(url_batch)
        if done:
            return False
        start, end = self._range(pattern)
        rows = self._store.scan(Family.PENDING, max(at, start), end, ROWS)
        found: list[tuple[bytes, Entry]] = []
        for key, value in rows:
            entry = decode_entry(value)
            if entry.priority != priority and not entry.probe and pattern.matches(entry.href):
                found.append((split_pending_key(key)[1], entry._replace(priority=priority)))
        moved += self._frontier.change_class(found, batch)
        done = len(rows) < ROWS
        at = b"" if done else rows[-1][0] + b"\0"
        batch.put(Family.META, _key(url_batch), _STATE.encode((moved, done, at)))
        return not done

    def moved(self, url_batch: str) -> int:
        """Return the number of URLs moved so far."""
        return self._state(url_batch)[0]

    def _range(self, pattern: Pattern) -> tuple[bytes, bytes | None]:
        """Return the key range of the rows that may match."""
        if pattern.host is None:
            return b"", None
        name = self._frontier.queue_of(pattern.host).encode("ascii")
        return name + b"\0", name + b"\1"

    def _state(self, url_batch: str) -> tuple[int, bool, bytes]:
        return _STATE.read(self._store, _key(url_batch)) or (0, False, b"")


def _key(url_batch: str) -> bytes:
    return _PROGRESS + url_batch.encode("ascii")


def forget(url_batch: str, batch: Batch) -> None:
    """Delete the progress of a batch that has been removed."""
    for prefix in (_DONE, _PROGRESS):
        batch.delete(Family.META, prefix + url_batch.encode("ascii"))


def forget_others(store: Reader, url_batches: Collection[str], batch: Batch) -> None:
    """Delete the progress of all other batches: a crash may have prevented its removal."""
    for prefix in (_DONE, _PROGRESS):
        for key, _ in store.scan(Family.META, prefix, prefix + b"\xff"):
            if key.removeprefix(prefix).decode("ascii", "replace") not in url_batches:
                batch.delete(Family.META, key)
