"""Transactions: atomic changes of a job. All changes reach the disk through the writer.

The writer passes each transaction to a list of sinks, in order. The output is first, so that the journal never refers
to a missing record. The store is last: its batch commits the transaction. Anything to be written between the two is an
additional sink.

When the disk is full, a transaction stays unwritten and the writer is *blocked*: no other may start (``room`` waits),
and the write of the same bytes is repeated until there is space.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import TypeVar

from msgspec import Struct, field

from crawler.base.disk import FULL, failpoint, no_room
from crawler.base.kv import Batch, Family, Store
from crawler.job.output import Outputs
from crawler.job.output.body_files import BODY_SIZES
from crawler.job.records import (
    Aside,
    AsideDone,
    Body,
    Done,
    Kept,
    PageRecord,
    Part,
    Position,
    encode_aside,
    encode_done,
    encode_page,
    sequence_key,
)
from crawler.job.step_log import StepLog
from crawler.job.steps.step_codec import Written

T = TypeVar("T")

OUTPUT_ENDS = b"output-ends"  # ends of the outputs in addition to pages.jsonl


class Transaction(Struct):
    """The batch for the store, and the records that are written to the outputs before it, each with its journal
    sequence and its parts.

    ``positions`` are the positions of the written parts of the first record. ``written`` and ``bodies`` are the data
    written to the outputs so far, for a log."""

    batch: Batch = field(default_factory=Batch)
    records: list[tuple[int, PageRecord | Aside, Kept]] = field(default_factory=list)
    positions: list[Position] = field(default_factory=list)
    written: list[Written] = field(default_factory=list)
    bodies: list[Body] = field(default_factory=list)


class RecordSink:
    """Appends the records and their parts to the outputs, and puts their positions into the batch."""

    def __init__(
        self,
        outputs: Outputs,
        look: Callable[[], None] | None = None,
        *,
        logs: bool = False,
    ) -> None:
        """``look`` checks that the outputs, and possibly other files, are in place; by default it checks only the
        outputs. ``logs``: the transaction keeps the written data for a log."""
        self._logs = logs
        self._outputs = outputs
        self._look = look or outputs.look

    def write(self, transaction: Transaction) -> None:
        records, outputs, batch = transaction.records, self._outputs, transaction.batch
        while records:
            sequence, record, kept = records[0]
            key = sequence_key(sequence)
            positions, body = self._keep(key, kept, transaction) if kept else ((), None)
            if isinstance(record, Aside):
                batch.put(Family.ASIDES, key, encode_aside(AsideDone(record.owner, positions)))
            else:
                line = encode_page(record, positions, body)
                position = outputs.pages.append(line)
                if self._logs:
                    transaction.written.append(Written(position.file, position.end - position.length, line))
                done = Done(record.outcome, record.status, record.entry, (position, *positions))
                batch.put(Family.DONE, key, encode_done(done))
            records.pop(0)
            transaction.positions.clear()
            failpoint("step.recorded")
            if outputs.in_use and not records:
                batch.put(Family.META, OUTPUT_ENDS, outputs.ends())

    def _keep(self, key: bytes, kept: Kept, transaction: Transaction) -> tuple[tuple[Position, ...], Body | None]:
        """Write the parts and the body of the record with that sequence key, except those that are already written.
        Returns the positions of its parts, and its body. Raises OSError."""
        parts, body = list[Part](), None
        for each in kept:
            if isinstance(each, Part):
                parts.append(each)
            else:
                body = each
                self._outputs.bodies.put(body)
                if self._logs:
                    transaction.bodies.append(body)
                transaction.batch.put(Family.META, BODY_SIZES, self._outputs.bodies.encoded_sizes())
        positions = transaction.positions  # includes those of an earlier call that a full disk interrupted
        for part in parts[len(positions) :]:
            position, data = self._outputs.append(part)
            positions.append(position)
            if self._logs:
                transaction.written.append(Written(position.file, position.end - position.length, data))
            for digest, capture in part.payloads:
                transaction.batch.put(Family.PAYLOADS, digest, key + capture)
            failpoint("step.kept")
        return tuple(positions), body

    def look(self) -> None:
        self._look()

    def sync(self) -> None:
        self._outputs.sync()
        failpoint("sync.output")


class TransactionWriter:
    """Writes the transactions of a job. As a context manager it returns a new transaction, and writes it when the block
    ends. After an exception in the block the transaction stays unwritten, and no other may follow."""

    def __init__(
        self,
        records: RecordSink,
        log: StepLog,
        store: Store,
        seal: Callable[[Batch], None],
        written: Callable[[], None],
    ) -> None:
        """``store`` is reopened after a write failed because of a full disk. ``seal`` adds the data that every
        transaction stores to each batch. ``written`` is called after each transaction is written."""
        self._records = records
        self._log = log
        self._store = store
        self._seal = seal
        self._written = written
        self._current = Transaction()
        self._room = asyncio.Event()
        self._room.set()
        self.in_transaction = False
        self.blocked: str | None = None  # why nothing can be written at present
        self.failed: OSError | None = None  # the error of a failed sync
        self.commits = 0  # transactions written in this run

    @property
    def whole(self) -> bool:
        """True if memory, store and disk agree: no transaction is unwritten, and no sync has failed."""
        return not self.in_transaction and self.failed is None

    def __enter__(self) -> Transaction:
        if self.in_transaction:
            # Other visits may run until they notice the error: their changes would build on unwritten state.
            raise RuntimeError("the previous transaction was not written: no other may follow")
        # Until the transaction is written, memory is ahead of the disk: a checkpoint would hold bits of URLs that were
        # never queued.
        self.in_transaction = True
        self._current = transaction = Transaction()
        return transaction

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            return
        self._seal(self._current.batch)
        self._log.stamp(self._current.batch)
        failpoint("step.marked")
        try:
            self._write()
        except OSError as problem:
            if problem.errno not in FULL:
                raise
            self.blocked = no_room(problem)
            self._room.clear()

    def _write(self) -> None:
        """Write the unwritten rest of the transaction. Raises OSError, and may then be called again."""
        self._put(self._current)
        self._written()
        self.in_transaction = False
        failpoint("step.written")

    def _put(self, transaction: Transaction) -> None:
        """Write the records, then the batch with their positions, which the log keeps."""
        self._records.write(transaction)
        self._store.write(transaction.batch)
        self._log.add(transaction.batch, transaction.written, transaction.bodies)
        self.commits += 1

    def apply(self, change: Callable[[Batch], T]) -> T:
        """Write the batch that ``change`` fills, if it is not empty. Raises OSError, also for a full disk; the change
        is then discarded.

        This is for repeatable changes, at the start of a job or for cleanup."""
        transaction = Transaction()
        result = change(transaction.batch)
        if transaction.batch.changes:
            self._log.stamp(transaction.batch)
            self._put(transaction)
        return result

    # -- a full disk -------------------------------------------------------------------------------------------

    async def room(self) -> None:
        """Wait until a transaction may start. After any other ``await``, wait again."""
        while self.blocked is not None:
            await self._room.wait()

    def write_again(self) -> bool:
        """Retry the transaction that failed because of a full disk. Returns True if it was written. Raises OSError for
        any other fault."""
        if self.blocked is None:
            return True
        try:
            self._store.reopen()
            self._write()
        except OSError as error:
            if error.errno not in FULL:
                raise
            self.blocked = no_room(error)
            return False
        self.blocked = None
        self._room.set()
        return True

    # -- durability --------------------------------------------------------------------------------------------

    def sync(self) -> None:
        """Make all transactions so far durable: first the output, then the journal that refers to its records. May run
        in a thread, one call at a time. Raises OSError."""
        # After a failed fsync the kernel may drop the unwritten pages, and the next fsync may report success.
        if self.failed is not None:
            raise self.failed
        self.look()
        try:
            self._records.sync()
            self._store.sync()
            failpoint("sync.done")
        except OSError as error:
            self.failed = error
            raise

    def look(self) -> None:
        """Raise DisplacedError if the written data is no longer in its place; in that case nothing becomes durable."""
        try:
            self._records.look()
        except OSError as error:
            self.failed = error
            raise
