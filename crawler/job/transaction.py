"""A transaction is one atomic change of a job, and the writer is the one door through which changes reach the disk.

A list of sinks takes each transaction in order: the output first, so that no journal names a record that is not there,
the store last, so that its batch makes all of it true. What must be written between the two is one more sink.

When the disk is full a transaction stays unwritten and the writer is *blocked*: no further one may begin (``room``
waits), and the same bytes are written again until there is space.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Protocol, TypeVar

from crawler.disk import FULL, failpoint, no_room
from crawler.kv import Batch, Family, Store
from crawler.output import JsonlOutput
from crawler.records import Done, PageRecord, encode_done, encode_page, sequence_key

T = TypeVar("T")


@dataclass(slots=True)
class Transaction:
    """What goes to the store, and the records (with their journal numbers) that go to the output before it."""

    batch: Batch = field(default_factory=Batch)
    records: list[tuple[int, PageRecord]] = field(default_factory=list)


class Sink(Protocol):
    """Takes its part of each transaction."""

    def write(self, transaction: Transaction) -> None:
        """Hand it to the operating system. Raises OSError; it may then be called again with the same transaction, and
        does what is left of it."""

    def look(self) -> None:
        """Raises DisplacedError when what was written is no longer where it belongs."""

    def sync(self) -> None:
        """Make all that was written durable. Raises OSError."""


class RecordSink:
    """Appends the records to the output, and puts where they end into the batch."""

    def __init__(self, output: JsonlOutput, look: Callable[[], None] | None = None) -> None:
        """``look`` sees whether more than the output is where it belongs, and the output too."""
        self._output = output
        self._look = look or output.look

    def write(self, transaction: Transaction) -> None:
        records = transaction.records
        while records:
            sequence, record = records[0]
            position = self._output.append(encode_page(record))
            done = Done(record.outcome, record.status, record.entry, (position,))
            transaction.batch.put(Family.DONE, sequence_key(sequence), encode_done(done))
            records.pop(0)
            failpoint("step.recorded")

    def look(self) -> None:
        self._look()

    def sync(self) -> None:
        self._output.sync()
        failpoint("sync.output")


class StoreSink:
    """Writes the batch, whole or not at all."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def write(self, transaction: Transaction) -> None:
        self._store.write(transaction.batch)

    def look(self) -> None:
        pass  # the store opens its own files by their names, and says what it misses

    def sync(self) -> None:
        self._store.sync()
        failpoint("sync.done")


class TransactionWriter:
    """Writes the transactions of a job. As a context manager it gives a new one, and writes it when the block ends; an
    exception in the block leaves it unwritten, and nothing may be written after that."""

    def __init__(
        self, sinks: Sequence[Sink], store: Store, seal: Callable[[Batch], None], written: Callable[[], None]
    ) -> None:
        """``store`` is opened again when it found the disk full. ``seal`` puts what belongs to every transaction into
        its batch, ``written`` is called when all of it is written."""
        self._sinks = sinks
        self._store = store
        self._seal = seal
        self._written = written
        self._current = Transaction()
        self._room = asyncio.Event()
        self._room.set()
        self.in_transaction = False
        self.blocked: str | None = None  # why nothing can be written now
        self.failed: OSError | None = None  # what kept the disk from making something durable
        self.commits = 0  # transactions written in this run

    @property
    def whole(self) -> bool:
        """Whether memory, store and disk agree: no transaction was broken off, and all that was to be durable is."""
        return not self.in_transaction and self.failed is None

    def __enter__(self) -> Transaction:
        if self.in_transaction:
            # Other visits may still run before they learn of it: their changes would count what was never written.
            raise RuntimeError("the transaction before was not written: no other may follow it")
        # Until it is written memory is ahead of the disk: a checkpoint of it would hold bits of URLs that were never
        # queued.
        self.in_transaction = True
        self._current = transaction = Transaction()
        return transaction

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            return
        self._seal(self._current.batch)
        failpoint("step.marked")
        try:
            self._write()
        except OSError as problem:
            if problem.errno not in FULL:
                raise
            self.blocked = no_room(problem)
            self._room.clear()

    def _write(self) -> None:
        """Write what of the transaction is not written. Raises OSError; it may then be called again."""
        for sink in self._sinks:
            sink.write(self._current)
        self._written()
        self.commits += 1
        self.in_transaction = False
        failpoint("step.written")

    def apply(self, change: Callable[[Batch], T]) -> T:
        """Write what ``change`` puts into a batch, if it is anything: what is done when a job is opened, or to clean
        up, and may be done again. Raises OSError for a full disk too, and is then forgotten."""
        transaction = Transaction()
        result = change(transaction.batch)
        if transaction.batch.changes:
            for sink in self._sinks:
                sink.write(transaction)
        return result

    # -- a full disk -------------------------------------------------------------------------------------------

    async def room(self) -> None:
        """Wait until a transaction may begin. None may begin after any other ``await``."""
        await self._room.wait()

    def write_again(self) -> bool:
        """Try to write the transaction that found the disk full; True when there is room again. Raises OSError for any
        other trouble."""
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
        """Make all transactions so far durable, the output before the journal that names its records. To be called
        beside the loop, one at a time. Raises OSError."""
        # After a failed fsync the kernel may have dropped what it could not write, and call the next one a success.
        if self.failed is not None:
            raise self.failed
        try:
            for sink in self._sinks:
                sink.look()
            for sink in self._sinks:
                sink.sync()
        except OSError as error:
            self.failed = error
            raise
