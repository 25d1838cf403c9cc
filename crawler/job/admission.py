"""Admits URLs: seen-set, queue and journal change together.

A URL that is *seen but not queued* would be lost forever. So every path into the seen-set leads through here, and puts
all its durable changes into the one batch of its transaction.

``JournalSearch`` looks up digests in the journal, which has every URL that a job ever admitted: exact, but it reads the
whole journal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from itertools import compress
from operator import attrgetter, not_
from typing import Protocol

import numpy as np
from msgspec import Struct

from crawler.base.kv import Batch, Family, Reader
from crawler.frontier.entry import Entry
from crawler.frontier.frontier import Frontier
from crawler.frontier.opic_score import SEED_SCORE
from crawler.frontier.order import Order, default_class
from crawler.frontier.traps.origins import Origins
from crawler.frontier.traps.traps import Traps
from crawler.job.directory import JobError
from crawler.job.found import KEEP_ALL, UNKNOWN, Brought, CopiedPage, Decided, Found, Router
from crawler.job.metrics.catalogue import Counters
from crawler.job.records import (
    DIGEST_SIZE,
    Outcome,
    PageRecord,
    decode_seen,
    encode_admitted,
    encode_forgotten,
    sequence_key,
)
from crawler.job.transaction import Transaction
from crawler.seen.exact.ledger import Ledger
from crawler.seen.filters import CannotForgetError, SeenSet
from crawler.seen.slices.digests import chosen_digests, digest_words
from crawler.url.refusal.forbidden_targets import Refusal, Rule
from crawler.url.scope.priority_rules import PriorityRules
from crawler.url.urls.canonicaliser import Canonical

_ROWS = 256  # number of events read at a time; each holds at most a few thousand digests


class JournalSearch:
    """A search that reads one page of events at a time. ``found`` maps each digest found to the number of times that
    the journal admits its key, minus the number of times that it removes the key."""

    def __init__(self, journal: Reader, digests: bytes) -> None:
        self.found: Counter[bytes] = Counter()
        self._journal = journal
        self._digests = digests
        self._firsts = digest_words(digests)[:, 0]
        self._at = b""  # key of the first unread event

    def step(self) -> bool:
        """Read some events. Returns True if there are more. Raises OSError, JournalError."""
        rows = self._journal.scan(Family.ADMITTED, self._at, None, _ROWS)
        if not rows:
            return False
        self._at = rows[-1][0] + b"\0"
        events: dict[bool, list[bytes]] = {False: [], True: []}
        for _, value in rows:
            forgotten, named = decode_seen(value)
            events[forgotten].append(named)
        for forgotten, parts in events.items():
            named = b"".join(parts)
            for position in np.flatnonzero(np.isin(digest_words(named)[:, 0], self._firsts)).tolist():
                self.found[named[DIGEST_SIZE * position : DIGEST_SIZE * (position + 1)]] += -1 if forgotten else 1
        return len(rows) == _ROWS

    def missing(self) -> list[int]:
        """Read the remaining events. Returns the first position of each digest whose key is not admitted now."""
        while self.step():
            pass
        size, met, missing = DIGEST_SIZE, set[bytes](), []
        for position in range(len(self._digests) // size):
            digest = self._digests[size * position : size * (position + 1)]
            if digest not in met and self.found[digest] <= 0:
                missing.append(position)
            met.add(digest)
        return missing


RECENT_MOST = 10_000  # keys cached, about 150 bytes each: pages of a site often link to the same URLs
_KEY = attrgetter("key")


class KnownUrls(Protocol):
    """The seen-sets of older crawls, which are only read."""

    def contains(self, urls: Sequence[Canonical]) -> list[bool]:
        """Return, for each URL, True if one of the seen-sets contains it. Raises OSError."""

    def that_know(self, url: Canonical) -> list[str]:
        """Return the names of the seen-sets that contain the URL. Raises OSError."""


class AdmissionPolicy(Struct, frozen=True):
    """The parts that decide on single URLs: ``traps`` refuses some, ``classes`` assigns priority classes to the others,
    ``router`` leaves out URLs of other jobs, and ``known`` leaves out links to URLs in older seen-sets."""

    traps: Traps
    classes: PriorityRules
    router: Router = KEEP_ALL
    known: KnownUrls | None = None


class Admission:
    """The only path into the seen-set and the queue."""

    def __init__(
        self,
        seen: SeenSet,
        ledger: Ledger | None,
        frontier: Frontier,
        counters: Counters,
        policy: AdmissionPolicy,
        finish: Callable[[PageRecord, Transaction], object],
    ) -> None:
        """``finish`` adds the record of a finished URL to a transaction."""
        self.seen = seen
        self.ledger = ledger
        self._frontier = frontier
        self.counters = counters
        self.policy = policy
        self._finish = finish
        self._recent = set[str]()  # keys known to be in the seen-set
        self.journalled = 0  # keys added or removed since this object was created
        self.origins: Origins | None = None  # servers to which links may lead; None: any
        self.dropped: dict[str | None, Counter[str]] = {}  # number of refused links, by page and limit

    def admit(self, found: Found, transaction: Transaction) -> int:
        """Queue the new URLs that belong to this job. A URL that a trap refuses is finished at once. Returns the number
        of new URLs."""
        via, seed, found_at, copy, batch = found.via, found.seed, found.found_at, found.copy, transaction.batch
        urls = self.policy.router.ours(found, batch)
        # URLs of other jobs take their share of the importance with them.
        share = found.share * len(urls) / len(found.urls) if found.share and found.urls else 0.0
        if self.policy.known is not None and found_at is not None:
            urls = self._unknown(self.policy.known, found, urls)
        if found_at is not None:
            dropped = Counter[str]()
            urls = self.policy.traps.open_links(urls, dropped)
            urls = urls if self.origins is None else self.origins.open_links(urls, dropped)
            if dropped and copy is None:
                self.counters.links_trapped += dropped.total()
                self.dropped.setdefault(via, Counter()).update(dropped)
        if not urls:
            return 0
        is_given = seed and via is None and self._frontier.order is Order.SCORE
        score = SEED_SCORE if is_given else share / len(urls)
        met = len(urls)
        if not (share or found.candidates):  # importance and facts must be updated even for known URLs
            urls = list(compress(urls, map(not_, map(self._recent.__contains__, map(_KEY, urls)))))
        keys = list(map(_KEY, urls))
        digests, new = self.seen.admit(keys, batch) if keys else (b"", [])
        # Every run reads the seeds again, so a known seed is not counted as a duplicate.
        self.counters.urls_duplicate += 0 if (seed and via is None) or copy is not None else met - len(new)
        if not keys:
            return 0
        if len(self._recent) > RECENT_MOST:
            self._recent.clear()
        self._recent.update(keys)
        entry = self._entries(found, urls, score)
        if share or found.candidates:
            fresh = set(new)
            self._found_again(found, [url.href for i, url in enumerate(urls) if i not in fresh], score, batch)

        if self.ledger is not None:
            self.ledger.note(keys, digests, new, entry, batch)
        if new:
            entries = [entry(i) for i in new]
            self._name(chosen_digests(digests, new), batch)
            if found_at is not None:
                entries = self._refuse(entries, found_at, transaction, copy)
            self._frontier.admit(entries, batch)
        return len(new)

    def _entries(self, found: Found, urls: Sequence[Canonical], score: float) -> Callable[[int], Entry]:
        """Return a function that creates the entry of the URL at a position."""
        _, depth, via, seed, redirects, _, sitemaps, _, _, probe, given, candidates, chain = found
        otherwise = default_class(self._frontier.order, depth, seed=seed)

        def entry(position: int) -> Entry:
            href = urls[position].href
            if probe:
                return Entry(href, depth, via, probe=True)
            known, priority = candidates.get(href, UNKNOWN), given
            if priority is None:
                priority = self.policy.classes.of(href, depth, seed=seed, sitemap_priority=known.listed)
            if chain:
                priority = 0  # so that the URL is visited while its cookies are valid
            elif priority is None:
                priority = otherwise if known.priority is None else known.priority
            often = 0 if known.stated is None else known.stated.frequency
            told = (href, depth, via, seed, redirects, 0, 0, priority, score, False, sitemaps, 0, False, known.reach)
            return Entry(*told, often, 0, chain)

        return entry

    def admit_brought(self, brought: Sequence[Brought], transaction: Transaction) -> None:
        """Queue requests of an external fetcher, which has already found them to be new."""
        if not brought:
            return
        batch = transaction.batch
        digests, new = self.seen.admit([request.name for request in brought], batch)
        if len(new) < len(brought):
            # If a request collides with one that was just added, its bits are already set, but it still counts as new.
            fresh = set(new)
            self.seen.restore(chosen_digests(digests, [at for at in range(len(brought)) if at not in fresh]))
        self._name(digests, batch)
        for request in brought:
            batch.put(Family.REQUESTS, request.name.encode("ascii"), request.stored)
        entries, places = [request.entry for request in brought], [request.place for request in brought]
        self._frontier.admit(entries, batch, places=places)

    def _found_again(self, found: Found, hrefs: Sequence[str], importance: float, batch: Batch) -> None:
        """Update known URLs to which new links lead: the URLs gain importance, and a better score moves a URL to an
        earlier class, unless a rule fixes its class."""
        if found.share:
            self._frontier.credit(hrefs, importance, batch)
        of, better = self.policy.classes.of, dict[str, int]()
        for href in hrefs:
            priority = found.candidates.get(href, UNKNOWN).priority
            if priority is not None and of(href, found.depth, seed=False, sitemap_priority=None) is None:
                better[href] = priority
        self.counters.urls_raised += self._frontier.raise_classes(better, batch)

    def _unknown(self, known: KnownUrls, found: Found, urls: Sequence[Canonical]) -> Sequence[Canonical]:
        """Leave out links to known URLs, and count these links. Sitemaps are always read, because they list new
        pages."""
        if found.probe or found.sitemaps or not urls:
            return urls
        left = [url for url, is_known in zip(urls, known.contains(urls), strict=True) if not is_known]
        self.counters.urls_known += len(urls) - len(left) if found.copy is None else 0
        return left

    def admit_missed(self, found: Found, search: JournalSearch, transaction: Transaction) -> int:
        """Admit the URLs of ``found`` that the seen-set reports as seen but that are not in the journal. ``search``
        searches for the digests of these URLs. Returns their number."""
        missing = [found.urls[position] for position in search.missing()]
        urls = self.policy.router.ours(found._replace(urls=missing), transaction.batch) if missing else ()
        if not urls:
            return 0
        self.counters.urls_duplicate -= 0 if found.seed else len(urls)
        score = SEED_SCORE if found.seed and self._frontier.order is Order.SCORE else 0.0
        entry = self._entries(found._replace(via=None), urls, score)
        digests = self.seen.digests([url.key for url in urls])
        self._restore(digests, transaction.batch)
        self._frontier.admit(map(entry, range(len(urls))), transaction.batch)
        return len(urls)

    def _restore(self, digests: bytes, batch: Batch) -> None:
        """Count keys as new although their bits are already set, as a replay of the journal would."""
        self.seen.restore(digests)
        self._name(digests, batch)

    def leave_out(self, urls: Sequence[Canonical], copy: CopiedPage, transaction: Transaction, now: float) -> None:
        """Refuse the new links of a page that is a copy of another. Each link gets a record, until the host reaches the
        trap's limit on such records; further links are ignored."""
        if urls and self.policy.traps.takes_copies(copy.href):
            self.admit(Found(urls, copy.depth + 1, copy.href, found_at=now, copy=copy), transaction)

    def _refuse(
        self, entries: list[Entry], now: float, transaction: Transaction, copy: CopiedPage | None = None
    ) -> list[Entry]:
        """Finish the entries that a trap or one of our rules refuses. Returns the others."""
        if copy is None and self.origins is not None:
            entries = self._refuse_origins(self.origins, entries, now, transaction)
        refusals: Sequence[Refusal | None]
        if copy is not None:
            words = f"on a page that says the same as {copy.original}"
            refusals = [Refusal.of_setting(Rule.DUPLICATES, words)] * len(entries)
            counted = self.policy.traps.count_copies(copy.href, len(entries), transaction.batch)
        else:
            refusals, counted = self.policy.traps.refusals([entry.href for entry in entries], transaction.batch)
        self.counters.trap_counts += counted
        return self._finish_refused(entries, refusals, now, transaction)

    def _refuse_origins(
        self, origins: Origins, entries: list[Entry], now: float, transaction: Transaction
    ) -> list[Entry]:
        refusals, counted = origins.refusals([entry.href for entry in entries], transaction.batch)
        self.counters.trap_counts += counted
        return self._finish_refused(entries, refusals, now, transaction)

    def _finish_refused(
        self, entries: list[Entry], refusals: Sequence[Refusal | None], now: float, transaction: Transaction
    ) -> list[Entry]:
        if not any(refusals):
            return entries
        for entry, refusal in zip(entries, refusals, strict=True):
            if refusal is not None:
                record = PageRecord(entry, Outcome.EXCLUDED, now, error=refusal.error, refusal=refusal)
                self._finish(record, transaction)
        return [entry for entry, refusal in zip(entries, refusals, strict=True) if refusal is None]

    def decide(self, limit: int, transaction: Transaction, now: float) -> Decided:
        """Look up on disk at most ``limit`` of the URLs that the seen-set reported as seen, and admit the new ones.
        Raises OSError."""
        if self.ledger is None:
            return Decided()
        batch, before = transaction.batch, self.ledger.counts.waiting
        missed = self.ledger.decide(limit, batch)
        named = sum(entry.via is None for _, entry in missed)
        if missed:
            entries = [entry for _, entry in missed]
            given = sum(entry.seed and entry.via is None for entry in entries)
            self.counters.seeds += given
            self.counters.urls_duplicate -= len(entries) - given
            self._restore(b"".join([digest for digest, _ in missed]), batch)
            # The rules for links do not apply to a URL that a user added.
            asked_for = [entry for entry in entries if entry.seed or entry.via is None]
            links = [entry for entry in entries if not (entry.seed or entry.via is None)]
            self._frontier.admit([*asked_for, *self._refuse(links, now, transaction)], batch)
        return Decided(before - self.ledger.counts.waiting, named)

    def forget(self, keys: Sequence[str], batch: Batch, journal: Reader) -> dict[int, str]:
        """Remove keys from the seen-set. Returns the positions of keys that were not removed, with reasons. Raises
        JobError for a kind of seen-set that cannot forget."""
        try:
            left: dict[int, str] = {**self.seen.forget_keys(keys, batch, partial(admitted_less_forgotten, journal))}
        except CannotForgetError as error:
            raise JobError(str(error)) from error
        self._recent.difference_update(keys)
        digests = self.seen.digests(keys)
        gone = [position for position in range(len(keys)) if position not in left]
        if gone:
            self._journal(encode_forgotten(chosen_digests(digests, gone)), len(gone), batch)
        return left

    def _name(self, digests: bytes, batch: Batch) -> None:
        """Write the digests of admitted URLs to the journal."""
        keys = len(digests) // DIGEST_SIZE
        self._journal(encode_admitted(digests), keys, batch)
        self.counters.urls_admitted += keys

    def _journal(self, event: bytes, keys: int, batch: Batch) -> None:
        self.journalled += keys
        batch.put(Family.ADMITTED, sequence_key(self.counters.sequence), event)
        self.counters.sequence += 1


def admitted_less_forgotten(journal: Reader, digests: bytes) -> Counter[bytes]:
    """Read the whole journal. Returns, for each of ``digests``, the number of times that the journal admits its key,
    minus the number of times that it removes the key."""
    search = JournalSearch(journal, digests)
    while search.step():
        pass
    return search.found
