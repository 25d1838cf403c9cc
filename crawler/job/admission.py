"""Admitting URLs: seen-set, queue and journal change together.

What is *seen but not queued* would be lost for ever, so every way into the seen-set leads through here, and each puts
what makes it durable into the one batch of its step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from crawler.exact import ExactSeenSet, Ledger, Seen, digest_exactly
from crawler.filters import CountingFilter, CuckooFilter, DigestTable, digest_keys
from crawler.frontier import SEED_SCORE, Entry, Frontier, Order, default_class
from crawler.job.directory import JobError
from crawler.job.transaction import Step
from crawler.kv import Batch, Family, Reader
from crawler.records import (
    DIGEST_SIZE,
    Counters,
    Outcome,
    PageRecord,
    decode_seen,
    encode_admitted,
    encode_forgotten,
    sequence_key,
)
from crawler.scope import PriorityRules
from crawler.slices.digests import digest_words
from crawler.traps import Traps
from crawler.urls import Canonical, host_key

SITEMAP_DEPTH = 1  # of a sitemap that robots.txt names

NOT_SEEN = "was not seen"
TAKEN_FOR_ANOTHER = "was never admitted, and cannot be told from URLs that were"
CLAIMED_TWICE = "cannot be forgotten, as two slices of the seen-set claim it"


@dataclass(frozen=True, slots=True)
class Listing:
    """What a site says of URLs that it lists: their ``priorities`` from 0 to 1, by href, and whether they are
    ``sitemaps``."""

    priorities: Mapping[str, float]
    sitemaps: bool


DECLARED = Listing({}, True)


@dataclass(frozen=True, slots=True)
class Rules:
    """What decides on URLs one by one: which are refused, and the class of the others."""

    traps: Traps
    classes: PriorityRules


class Admission:
    """The door to the seen-set and the queue."""

    def __init__(
        self,
        seen: Seen,
        ledger: Ledger | None,
        frontier: Frontier,
        counters: Counters,
        rules: Rules,
        finish: Callable[[PageRecord, Step], None],
    ) -> None:
        """``finish`` puts the record of a URL that is done into a step."""
        self._seen = seen
        self._ledger = ledger
        self._frontier = frontier
        self._counters = counters
        self._traps = rules.traps
        self._classes = rules.classes
        self._finish = finish
        self.journalled = 0  # keys that came or went since this was made

    def admit(
        self,
        found: Sequence[Canonical],
        step: Step,
        *,
        depth: int,
        via: str | None,
        seed: bool,
        redirects: int,
        found_at: float | None,
        listed: Listing | None = None,
        share: float = 0.0,
        copy: PageRecord | None = None,
    ) -> int:
        """Queue those of the URLs that were never seen; what a trap refuses is finished at once. Returns how many were
        new. ``found_at`` is when they were found as links, in seconds since 1970; None for URLs that somebody asked
        for by name: no trap refuses them. ``listed`` is what a sitemap says of those that it names,
        ``share`` is the importance that the page they were found on hands on. Where that page is a ``copy`` of another
        all that are new are refused."""
        batch = step.batch
        if found_at is not None:
            links, found = found, self._traps.open_links(found)
            self._counters.trapped += len(links) - len(found) if copy is None else 0
        if not found:
            return 0
        keys = [url.key for url in found]
        if isinstance(self._seen, ExactSeenSet):
            digests, new = self._seen.admit(keys, batch)
        else:
            digests = digest_keys(keys)
            new = self._seen.add_digests(digests)
        # Seeds are read again by every run: that says nothing of the web.
        self._counters.duplicates += 0 if (seed and via is None) or copy is not None else len(found) - len(new)

        order = self._frontier.order
        otherwise = default_class(order, depth, seed=seed)
        stated, declared = (listed.priorities, listed.sitemaps) if listed is not None else ({}, False)
        score = SEED_SCORE if seed and via is None and order is Order.SCORE else share / len(found)

        def entry(position: int) -> Entry:
            href = found[position].href
            ruled = self._classes.of(href, depth, seed=seed, sitemap_priority=stated.get(href))
            priority = otherwise if ruled is None else ruled
            return Entry(href, depth, via, seed, redirects, priority=priority, score=score, sitemap=declared)

        if share:
            fresh = set(new)
            self._frontier.credit([url.href for i, url in enumerate(found) if i not in fresh], score, batch)

        if self._ledger is not None:
            self._ledger.note(keys, digests, new, entry, batch)
        if new:
            entries = [entry(i) for i in new]
            self._name(_chosen(digests, new), batch)
            if found_at is not None:
                entries = self._refuse(entries, found_at, step, copy)
            self._frontier.admit(entries, batch)
        return len(new)

    def leave_out(self, found: Sequence[Canonical], copy: PageRecord, step: Step, now: float) -> None:
        """The links of a page that is a copy of another are not followed: those that were never seen are refused, as
        long as its host has not had as many records of such links as a trap may have."""
        if found and self._traps.takes_copies(host_key(copy.entry.href)):
            depth, via = copy.entry.depth + 1, copy.entry.href
            self.admit(found, step, depth=depth, via=via, seed=False, redirects=0, found_at=now, copy=copy)

    def sitemaps(self, found: Sequence[Canonical], via: str | None, step: Step, now: float) -> int:
        """The same for the sitemaps that the robots.txt at ``via`` names."""
        depth = SITEMAP_DEPTH
        return self.admit(found, step, depth=depth, via=via, seed=False, redirects=0, found_at=now, listed=DECLARED)

    def _refuse(self, entries: list[Entry], now: float, step: Step, copy: PageRecord | None = None) -> list[Entry]:
        """Finish those that a trap refuses; the others."""
        rules: Sequence[str | None]
        if copy is not None and copy.content is not None:
            rules = [f"traps.duplicates: on a page that says the same as {copy.content.duplicate_of}"] * len(entries)
            counted = self._traps.count_copies(host_key(copy.entry.href), len(entries), step.batch)
        else:
            rules, counted = self._traps.refusals([entry.href for entry in entries], step.batch)
        self._counters.trap_counts += counted
        for entry, rule in zip(entries, rules, strict=True):
            if rule is not None:
                self._finish(PageRecord(entry, Outcome.EXCLUDED, now, error=rule), step)
        return [entry for entry, rule in zip(entries, rules, strict=True) if rule is None]

    def decide(self, limit: int, step: Step, now: float) -> int:
        """Look up so many of the URLs that the seen-set called seen, and admit those that never were. Returns how many
        were looked up. Raises OSError."""
        if self._ledger is None:
            return 0
        batch, before = step.batch, self._ledger.counts.waiting
        missed = self._ledger.decide(limit, batch)
        if missed:
            entries = [entry for _, entry in missed]
            given = sum(entry.seed and entry.via is None for entry in entries)
            self._counters.seeds += given
            self._counters.duplicates -= len(entries) - given
            digests = b"".join([digest for digest, _ in missed])
            # As the journal will: their bits are set already, and they count like those found new.
            self._seen.restore(digests)
            self._name(digests, batch)
            # Who asked for a URL by name gave no page that it was found on.
            asked_for = [entry for entry in entries if entry.seed or entry.via is None]
            links = [entry for entry in entries if not (entry.seed or entry.via is None)]
            self._frontier.admit([*asked_for, *self._refuse(links, now, step)], batch)
        return before - self._ledger.counts.waiting

    def forget(self, keys: Sequence[str], batch: Batch, journal: Reader) -> dict[int, str]:
        """Take keys out of the seen-set; the positions of those that stay as they were, and why. Raises JobError for a
        kind of seen-set that cannot forget."""
        if isinstance(self._seen, ExactSeenSet):
            digests = digest_exactly(keys)
            left = dict.fromkeys(self._seen.forget_in(keys, batch), NOT_SEEN)
        elif isinstance(self._seen, CountingFilter | CuckooFilter):
            digests = digest_keys(keys)
            left = self._forget_admitted(self._seen, digests, journal)
        else:
            shared = not isinstance(self._seen, DigestTable)
            why = "its bits are shared by many URLs" if shared else "its table gives no place back"
            raise JobError(f"a seen-set of kind {self._seen.kind} cannot forget: {why}; counting, cuckoo and exact can")
        gone = [position for position in range(len(keys)) if position not in left]
        if gone:
            self._journal(encode_forgotten(_chosen(digests, gone)), len(gone), batch)
        return left

    def _forget_admitted(self, seen: CountingFilter | CuckooFilter, digests: bytes, journal: Reader) -> dict[int, str]:
        """A key that was never admitted may look as if it were in, and what would be taken out then is others': so the
        journal is asked, which errs never."""
        admitted = admitted_less_forgotten(journal, digests)
        left: dict[int, str] = {}
        for position, known in enumerate(seen.contains_digests(digests)):
            digest = _chosen(digests, [position])
            if admitted[digest] < 1:
                left[position] = TAKEN_FOR_ANOTHER if known else NOT_SEEN
            elif seen.forget_digests(digest):
                left[position] = CLAIMED_TWICE
            else:
                admitted[digest] -= 1
        return left

    def _name(self, digests: bytes, batch: Batch) -> None:
        """Name URLs that the seen-set has taken in in the journal: they are admitted."""
        keys = len(digests) // DIGEST_SIZE
        self._journal(encode_admitted(digests), keys, batch)
        self._counters.admitted += keys

    def _journal(self, event: bytes, keys: int, batch: Batch) -> None:
        self.journalled += keys
        batch.put(Family.ADMITTED, sequence_key(self._counters.sequence), event)
        self._counters.sequence += 1


def admitted_less_forgotten(journal: Reader, digests: bytes) -> Counter[bytes]:
    """For each of ``digests``: how often the journal admits its key, less how often it takes it out. Reads it whole."""
    wanted = {_chosen(digests, [position]) for position in range(len(digests) // DIGEST_SIZE)}
    firsts = digest_words(b"".join(sorted(wanted)))[:, 0]
    found: Counter[bytes] = Counter()
    for rows in journal.pages(Family.ADMITTED):
        events: dict[bool, list[bytes]] = {False: [], True: []}
        for _, value in rows:
            forgotten, named = decode_seen(value)
            events[forgotten].append(named)
        for forgotten, parts in events.items():
            named = b"".join(parts)
            for position in np.flatnonzero(np.isin(digest_words(named)[:, 0], firsts)).tolist():
                found[_chosen(named, [position])] += -1 if forgotten else 1
    return found


def _chosen(digests: bytes, positions: Sequence[int]) -> bytes:
    size = DIGEST_SIZE
    return b"".join([digests[size * i : size * i + size] for i in positions])
