"""Makes a job durable, by syncs and by generations of the seen-set, which replace a part of the journal.

Long work is split into pieces. A generator yields a callable that may run in a thread, or None where other tasks may
run. ``drive`` runs all pieces at once, ``drive_beside`` runs them while an event loop runs, and ``drive_slowly`` lets
the caller run them one at a time.

``Promises`` is the state of a job on which others may rely: durable on its disk, and stored in the bucket of the crawl
if it has one. A job recovers from its own disk, but facts that it reports to others, for example that a batch has
arrived, must survive the loss of that disk.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Generator
from concurrent.futures import Executor, Future
from enum import StrEnum
from functools import partial
from typing import Any, Generic, TypeVar

from msgspec import Struct

from crawler.base.disk import FULL, failpoint, no_room
from crawler.base.kv import Reader
from crawler.job.admission import Admission
from crawler.job.checkpoint.generations import Generations, Manifest, Renewal, must_store
from crawler.job.output.page_files import PageFiles
from crawler.job.recovery import trim_finished
from crawler.job.transaction import TransactionWriter

_ENDS = 1_000  # number of output ends kept: one per sync, and so one per second


class Promises:
    """``durable``: the number of transactions that are durable here, or -1 if a killed process may have left some that
    are not; ``stored``: the number of transactions in the store of the crawl; None if the crawl has no store."""

    def __init__(self) -> None:
        self.durable = -1
        self.stored: int | None = None
        self._end: int | None = None
        self._ends: deque[tuple[int, int]] = deque(maxlen=_ENDS)  # number of transactions, end of the output after them
        self._moved = asyncio.Event()
        self.waiting = 0  # number of callers that wait for the store

    @property
    def kept(self) -> int:
        """The number of transactions on which others may rely."""
        return self.durable if self.stored is None else min(self.durable, self.stored)

    @property
    def end(self) -> int | None:
        """The number of output bytes on which others may rely, which never decreases; None until it is known."""
        while self._ends and self._ends[0][0] <= self.kept:
            self._end = self._ends.popleft()[1]
        return self._end

    def synced(self, commits: int, end: int) -> None:
        """Record that ``commits`` transactions are durable here, with the output up to ``end``."""
        self.durable = commits
        self._ends.append((commits, end))

    def stored_to(self, commits: int) -> None:
        """Record that the store of the crawl has ``commits`` transactions."""
        self.stored = commits
        self._moved.set()

    async def reach(self, commits: int) -> None:
        """Wait until the store of the crawl, if there is one, has ``commits`` transactions."""
        self.waiting += 1
        try:
            while self.stored is not None and self.stored < commits:
                self._moved.clear()
                await self._moved.wait()
        finally:
            self.waiting -= 1


T = TypeVar("T")
Pieces = Generator[Callable[[], Any] | None, Any, T]


class RefusedBy(StrEnum):
    """The reason why a generation could not be written."""

    DISK_FULL = "the disk is full"
    UNWRITTEN = "a transaction is still unwritten because the disk is full"


class CheckpointResult(Struct, frozen=True):
    """``manifest`` describes the generation that was written. It is None if nothing had changed since the last one, or
    if the generation was ``refused``; the changes are then only in the journal. ``detail`` is the system's error."""

    manifest: Manifest | None = None
    refused: RefusedBy | None = None
    detail: str | None = None


UNCHANGED = CheckpointResult()


class Checkpointer:
    """Syncs and checkpoints one job."""

    def __init__(
        self,
        generations: Generations,
        admission: Admission,
        writer: TransactionWriter,
        store: Reader,
        output: PageFiles,
    ) -> None:
        self.generations = generations
        self._admission = admission
        self._writer = writer
        self._store = store
        self._output = output
        self.renewal = Renewal()
        self._stored = 0  # the number of keys journalled when the seen-set was last stored
        self.promises = Promises()

    def replayed(self, keys: int) -> None:
        """Record how many keys from the journal are in the seen-set but not in the newest generation."""
        self._stored = -keys

    @property
    def manifest(self) -> Manifest | None:
        """The newest generation."""
        return self.generations.newest

    def sync(self) -> Pieces[None]:
        """Make all transactions so far durable. Raises OSError."""
        commits, end = self._writer.commits, self._output.end
        if commits != self.promises.durable:
            yield self._writer.sync
            self.promises.synced(commits, end)
        else:
            self._writer.look()  # a crawl that waits for disk space must notice that its files are gone

    def checkpoint(self, now: float, *, whole: bool = False) -> Pieces[CheckpointResult]:
        """Write a generation; with ``whole``, one that needs no replay of the journal. A full disk makes the result
        ``refused``; any other OSError is raised."""
        writer, admission = self._writer, self._admission
        if writer.in_transaction:
            raise RuntimeError("a transaction was interrupted: the seen-set in memory no longer matches the journal")
        sequence, journalled, newest = admission.counters.sequence, admission.journalled, self.manifest
        end = self._output.end
        seen = admission.seen
        whole = whole and journalled > self._stored
        if newest is not None and newest.sequence == sequence and not whole:
            return UNCHANGED
        if stores := whole or must_store(newest, seen.parts(), journalled - self._stored, self.renewal):
            snapshot = seen.snapshot(whole=False)
            begin = partial(self.generations.begin, snapshot, sequence, now)
            for _ in iter(snapshot.advance, False):
                yield None
        else:
            begin = partial(self.generations.begin_again, seen.unjournaled_segments(), sequence, now)
        try:
            draft = yield begin
            # The segments may hold bits of a transaction that started after the snapshot. A generation must not contain
            # bits of an unwritten transaction, so discard this one.
            if writer.in_transaction:
                return CheckpointResult(refused=RefusedBy.UNWRITTEN)
            manifest = yield partial(self.generations.complete, draft, writer.sync)
        except OSError as error:
            if error.errno not in FULL or writer.failed is not None:
                writer.failed = error
                raise
            return CheckpointResult(refused=RefusedBy.DISK_FULL, detail=no_room(error))
        self._output.settle(end)
        if stores:
            self._stored = journalled
        if writer.blocked is None:
            trim_finished(self._store, writer, self.generations.oldest_sequence())
        failpoint("checkpoint.trimmed")
        return CheckpointResult(manifest)


class Walk(Generic[T]):
    """Runs the pieces of a generator one at a time, and passes the result or the OSError of each piece to the
    generator."""

    result: T  # set when ``advance`` has returned False

    def __init__(self, pieces: Pieces[T]) -> None:
        self._pieces = pieces
        self._resume: Callable[[], Callable[[], Any] | None] = partial(next, pieces)
        self.piece: Callable[[], Any] | None = None

    def advance(self) -> bool:
        """Advance to the next piece. Returns False if there is none."""
        try:
            self.piece = self._resume()
        except StopIteration as end:
            self.result = end.value
            return False
        return True

    def do(self) -> None:
        """Run the current piece."""
        try:
            self._resume = partial(self._pieces.send, None if self.piece is None else self.piece())
        except OSError as error:
            self._resume = partial(self._pieces.throw, error)


def drive(pieces: Pieces[T]) -> T:
    """Run all pieces in this thread. Returns the generator's result."""
    walk = Walk(pieces)
    while walk.advance():
        walk.do()
    return walk.result


def drive_slowly(pieces: Pieces[T], executor: Executor) -> Generator[Future[None], None, T]:
    """Run all pieces, with the callables in ``executor``. Yields the future of each callable, and waits for it when
    resumed. Returns the result of ``pieces``."""
    walk = Walk(pieces)
    while walk.advance():
        if walk.piece is None:
            walk.do()
        else:
            yield (submitted := executor.submit(walk.do))
            submitted.result()
    return walk.result


async def drive_beside(pieces: Pieces[T], executor: Executor) -> T:
    """Run all pieces, with the callables in ``executor``, while the event loop runs. Returns the generator's result."""
    loop, walk = asyncio.get_running_loop(), Walk(pieces)
    while walk.advance():
        if walk.piece is None:
            await asyncio.sleep(0)
            walk.do()
        else:
            await loop.run_in_executor(executor, walk.do)
    return walk.result
