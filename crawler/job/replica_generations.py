"""Generations of a replica: its owner's are not sent, so it writes its own, from the journal that it has.

A replica answers for no URL, so it keeps no seen-set in memory. Every generation says how much of the journal and of
the outputs is durable, and most only name again what an earlier one has stored of the seen-set. When many keys were
admitted since then, that is loaded, brought up to date from the journal, stored and forgotten. So a replica that
becomes the job replays a bounded number of keys, however long it has followed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event, Lock

from msgspec.structs import replace

from crawler.base.disk import make_private_directory
from crawler.base.kv import Batch, Family, Store
from crawler.base.settings.parts import SeenSettings
from crawler.job.checkpoint.generations import KEPT, Draft, Generations
from crawler.job.checkpoint.renewal import must_store
from crawler.job.directory import SEEN
from crawler.job.identity import Identity
from crawler.job.platform import Platform
from crawler.job.records import DIGEST_SIZE, sequence_key
from crawler.job.recovery import SeenSpec, note_faults, restore_seen, stored_counters
from crawler.seen.filters import NoMemoryError, Part

MOST_KEYS = 2 * 2**20  # that the job would replay: a second at most


class BrokenOffError(Exception):
    """The store is wanted by somebody who must not wait for a generation."""


class ReplicaGenerations:
    """The directory ``seen/`` of a replica."""

    def __init__(self, directory: Path, platform: Platform, identity: Identity, store: Store) -> None:
        """Raises EnvelopeError if the newest generation is damaged, OSError."""
        make_private_directory(directory / SEEN, exist_ok=True)
        platform.disk.sync_directory(directory)
        self._store = store
        self._spec = SeenSpec(SeenSettings(**identity.shaping["seen"]), identity.hash)
        self._renewal = replace(platform.renewal, most_keys=min(MOST_KEYS, platform.renewal.most_keys))
        self._generations = Generations(directory / SEEN, KEPT, platform.disk, self._look)
        self._working = Lock()
        self.is_wanted = Event()  # somebody waits for the end of the one that is being written
        self.is_over = False  # the store is closed
        numbers = self._generations.numbers()
        self._generations.newest = newest = self._generations.read_manifest(numbers[0]) if numbers else None
        self.covered = 0  # the sequence from which on finished URLs must stay, as far as is known
        self._met = self._keys_from(0 if newest is None else newest.seen_sequence)  # keys that it was told of ...
        self._stored = 0  # ... and that a generation has stored since

    @property
    def sequence(self) -> int:
        """The first sequence that the newest one does not cover."""
        newest = self._generations.newest
        return 0 if newest is None else newest.sequence

    def _keys_from(self, sequence: int) -> int:
        """How many keys the journal has from there on, if these are less than are replayed at most."""
        keys = 0
        for rows in self._store.pages(Family.ADMITTED, sequence_key(sequence)):
            keys += sum(len(value) for _, value in rows) // DIGEST_SIZE
            if keys >= self._renewal.most_keys:
                break
        return keys

    def add(self, batch: Batch) -> None:
        """The store has these changes."""
        for family, _, value, _ in batch.changes:
            if family is Family.ADMITTED and value is not None:
                self._met += len(value) // DIGEST_SIZE

    def write(self, now: float, sync: Callable[[], None]) -> list[str]:
        """Write a generation, if there is something new. ``sync`` makes all that was written durable. May run in a
        thread beside all else. Returns what was wrong with former ones. Raises BrokenOffError, OSError, and the errors
        of damaged files; former generations are untouched."""
        with self._working:
            self._look()
            newest, met = self._generations.newest, self._met
            # All keys up to here are in the store; what comes meanwhile is not looked at.
            sequence = stored_counters(self._store).sequence
            if newest is not None and newest.sequence == sequence:
                return []
            parts = [] if newest is None else [Part(s.name, s.sealed, True, s.size) for s in newest.segments]
            said: list[str] = []
            draft: Draft | None = None
            if must_store(newest, parts, met - self._stored, self._renewal):
                try:
                    draft, said = self._store_seen(sequence, now)
                except NoMemoryError as error:
                    said = [f"its seen-set is not stored again, and to become the partition would take longer: {error}"]
            stores = draft is not None
            if draft is None and self._generations.newest is not None:
                draft = self._generations.begin_again((), sequence, now)
            if draft is not None:
                self._generations.complete(draft, sync)
                self.covered = self._generations.oldest_sequence()
            if stores:
                self._stored = met
            return said

    def _store_seen(self, sequence: int, now: float) -> tuple[Draft, list[str]]:
        restored = restore_seen(self._generations, self._store, self._spec, end=sequence, look=self._look)
        said = note_faults(restored, self._generations)
        return self._generations.begin(restored.seen.snapshot(), sequence, now), said

    def _look(self) -> None:
        if self.is_wanted.is_set() or self.is_over:
            raise BrokenOffError

    @contextlib.contextmanager
    def none_under_way(self) -> Iterator[None]:
        """Break off the generation that is being written, and let none begin."""
        self.is_wanted.set()
        try:
            with self._working:
                yield
        finally:
            self.is_wanted.clear()
