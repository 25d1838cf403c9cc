"""Stores the files of a job in a bucket, as they are at one step.

First the state is frozen by hard links to files that never change in place (``job.snapshot``). Of each output, only the
part that belongs to that state is stored. Content stored by an earlier snapshot is not stored again.
"""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Iterator
from math import inf
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct

from crawler.base.disk import failpoint
from crawler.base.kv import Family, Reader
from crawler.job.bucket.layout import (
    KEPT,
    Snapshot,
    Stored,
    encode,
    read_snapshot,
    snapshot_key,
    snapshots,
)
from crawler.job.bucket.objects import BucketError, Objects, put_own
from crawler.job.bucket.pieces import PIECE, RELIED_ON, Pieces
from crawler.job.directory import BROKEN_OFF, PAGES, STORE
from crawler.job.output.body_files import body_in
from crawler.job.output.outputs import FORMS
from crawler.job.output.record_text import lines_of, open_text, text_size
from crawler.job.records import body_name, decode_ends, file_number
from crawler.job.recovery import REPAIRING, journalled_end, stored_counters
from crawler.job.snapshot import remove_tree
from crawler.job.step_log import MARK
from crawler.job.steps.step_codec import Mark
from crawler.job.store.rocks import RocksStore
from crawler.job.transaction import OUTPUT_ENDS

BODY = struct.Struct(">32sQ")  # header of each body in a pack: SHA-256 and size; its bytes follow
LOOK = "look"  # folder in the frozen state from which its store is read
_SMALL = 64 * 1024  # maximum bytes of a file that shares a piece with others
_KNOWN_MOST = 65_536  # number of names of recent bodies to remember


class Held(Struct, frozen=True):
    """The sources of a snapshot: the frozen state in one directory, the outputs in the job's directory, and the
    position in the log of ``worker`` where later steps start."""

    state: Path
    job: Path
    worker: str = ""
    log: int = 0


class Snapshots:
    """The snapshots of one partition in one epoch, written by one process."""

    def __init__(self, objects: Objects, partition: int, epoch: int, known: frozenset[str] = frozenset()) -> None:
        """``known``: pieces of other partitions that are not removed meanwhile. Raises BucketError, BucketDown."""
        self.objects = objects
        self.partition = partition
        self.epoch = epoch
        found = snapshots(objects, partition)[:KEPT]
        kept = [(place, read_snapshot(objects, partition, place)) for place in found]
        self._kept = [(place, each) for place, each in kept if each is not None]
        self._known = known
        self.pieces = Pieces(objects, partition, self._named())
        self._number = max((number for of, number in found if of == epoch), default=0)
        self._stored: dict[tuple[str, int, int, int], Stored] = {}  # by path, size, inode and modification time
        self._is_sure = False  # True once the outputs are known to start with their stored bytes
        self._forgotten = -inf  # time at which removable pieces were last forgotten

    @property
    def newest(self) -> Snapshot | None:
        """The newest snapshot of this partition."""
        return self._kept[0][1] if self._kept else None

    def write(self, held: Held, now: float, partitions: int = 0) -> Snapshot:
        """Store the frozen state as a snapshot that counts only if the crawl has this many ``partitions``; 0: it always
        counts. ``now`` is in seconds since 1970. Raises OSError, EOFError, BucketError, BucketDown."""
        self.pieces.now = now
        if now >= self._forgotten + RELIED_ON:
            self._forget_pieces(now)
        before = self.newest
        mark, ends, counters = self._look(held)
        pages = self._pages(held.job / PAGES, ends[PAGES], before)
        goes_on = (
            before is not None
            and bool(before.pages.pieces)
            and pages.pieces[: len(before.pages.pieces)] == (before.pages.pieces)
        )
        known, start, lost = (before.bodies, before.pages.size, before.missing) if before and goes_on else ((), 0, 0)
        packs, missing = self._bodies(held.job, start, pages.size)
        snapshot = Snapshot(
            epoch=self.epoch,
            mark=(mark.line, mark.number),
            worker=held.worker,
            log=held.log,
            files=dict(self._files(held.state)),
            pages=pages,
            outputs={name: self._output(held.job, name, end, before) for name, end in ends.items() if name != PAGES},
            bodies=(*known, *packs),
            missing=lost + missing,
            source=str(held.job.absolute()),
            made_at=now,
            urls_admitted=counters[0],
            urls_pending=counters[1],
            partitions=partitions,
        )
        failpoint("bucket.stored")
        self._number += 1
        place = self.epoch, self._number
        if not put_own(self.objects, snapshot_key(self.partition, *place), encode("snapshot", snapshot)):
            raise BucketError(f"{self.objects.address} has another snapshot {place[1]} of epoch {place[0]}")
        failpoint("bucket.snapshot")
        self._is_sure = True
        self._kept.insert(0, (place, snapshot))
        self._remove_old(now)
        return snapshot

    # -- writing ----------------------------------------------------------------------------------------------

    def _look(self, held: Held) -> tuple[Mark, dict[str, int], tuple[int, int]]:
        """Return the last step of the state, the number of bytes of each output that belong to the state, and the
        numbers of admitted and pending URLs."""
        scratch = held.state / LOOK
        store = RocksStore(held.state / STORE, secondary=scratch)
        try:
            if store.get(Family.META, REPAIRING) is not None:
                raise BucketError(f"{held.job}: {BROKEN_OFF}")
            counters = stored_counters(store)
            # After a power loss the file may be shorter.
            ends = {PAGES: min(journalled_end(store), text_size(held.job / PAGES))}
            ends |= _output_ends(held.job, store)
            return Mark.decode(store.get(Family.META, MARK)), ends, (counters.urls_admitted, counters.pending)
        finally:
            store.close()
            remove_tree(scratch)

    def _files(self, state: Path) -> Iterator[tuple[str, Stored]]:
        """Store the files below a directory. Small files share a piece, because putting an object takes a round
        trip."""
        pack, packed = bytearray(), list[tuple[str, int, int]]()
        for top, _, names in os.walk(state):
            for name in sorted(names):
                path = Path(top, name)
                found, place = path.stat(), str(path.relative_to(state))
                if found.st_size <= _SMALL:
                    data = path.read_bytes()
                    packed.append((place, len(data), len(pack)))
                    pack += data
                    continue
                key = place, found.st_size, found.st_ino, found.st_mtime_ns
                if key not in self._stored:
                    with open(path, "rb") as stream:
                        self._stored[key] = self.pieces.store(stream, found.st_size)
                yield place, self._stored[key]
        piece = self.pieces.put(bytes(pack))
        yield from ((place, Stored(size, (piece,), at)) for place, size, at in packed)

    def _pages(self, path: Path, end: int, before: Snapshot | None) -> Stored:
        if not end:
            return Stored()
        with open_text(path, whole=True) as stream:
            known = Stored() if before is None else before.pages
            return self.pieces.store(stream, end, known if self._begins(stream, end, known) else Stored())

    def _output(self, job: Path, name: str, end: int, before: Snapshot | None) -> Stored:
        known = Stored() if before is None else before.outputs.get(name, Stored())
        with open(job / name, "rb") as stream:
            return self.pieces.store(stream, end, known if self._begins(stream, end, known) else Stored())

    def _begins(self, stream: BinaryIO, end: int, known: Stored) -> bool:
        if self._is_sure:
            return known.size <= end
        return self.pieces.begins(stream, end, known)

    def _bodies(self, job: Path, start: int, end: int) -> tuple[list[str], int]:
        """Store the bodies that the records between two offsets name. Returns their packs, and the number of bodies
        that are missing or do not match their names."""
        packs, pack, missing = list[str](), bytearray(), 0
        for name in _named(job / PAGES, start, end):
            try:
                data = (job / name).read_bytes()
            except FileNotFoundError:
                data = b""
            digest = hashlib.sha256(data).digest()
            if name != body_name(digest):
                missing += 1
                continue
            pack += BODY.pack(digest, len(data)) + data
            if len(pack) >= PIECE:
                packs.append(self.pieces.put(bytes(pack)))
                pack.clear()
        if pack:
            packs.append(self.pieces.put(bytes(pack)))
        return packs, missing

    # -- removal -----------------------------------------------------------------------------------------------

    def _remove_old(self, now: float) -> None:
        old, self._kept = self._kept[KEPT:], self._kept[:KEPT]
        self._forget_pieces(now)
        self.objects.delete([snapshot_key(self.partition, *place) for place, _ in old])

    def _forget_pieces(self, now: float) -> None:
        """Stop relying on pieces that no kept snapshot names: they may be removed."""
        self._forgotten = now
        named = self._named()
        self.pieces.know_only(named)
        self._stored = {key: stored for key, stored in self._stored.items() if named.issuperset(stored.pieces)}

    def _named(self) -> set[str]:
        return set(self._known).union(*(each.pieces() for _, each in self._kept))

    def begins_in(self, worker: str) -> int | None:
        """Return the number of the first object in that worker's log that the kept snapshots need; None if they need
        none."""
        return min((each.log for _, each in self._kept if each.worker == worker), default=None)


def _output_ends(job: Path, store: Reader) -> dict[str, int]:
    """Return the files of the other outputs, each with the number of its bytes to which the journal refers. All files
    but the last are full; some may have been moved away."""
    found: dict[str, int] = {}
    for kind, end in decode_ends(store.get(Family.META, OUTPUT_ENDS)).items():
        for number in FORMS[kind].numbers(job):
            path = FORMS[kind].path(job, number)
            if file_number(kind, number) <= end.file:
                size = path.stat().st_size
                is_last = file_number(kind, number) == end.file
                found[str(path.relative_to(job))] = min(size, end.offset) if is_last else size
    return found


def _named(pages: Path, start: int, end: int) -> Iterator[str]:
    """Yield the names of the bodies that the records between two offsets name."""
    known: dict[str, None] = {}  # many records may name the same body
    for _, line in lines_of(pages, end, start):
        name = body_in(line)
        if name is None or name in known:
            continue
        known[name] = None
        if len(known) > _KNOWN_MOST:
            del known[next(iter(known))]
        yield name
