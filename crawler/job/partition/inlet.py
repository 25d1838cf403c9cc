"""Tracks the batches received from other partitions.

    key    sender (2 bytes, big-endian)
    value  version (1)  epoch (8)  number (8), big-endian

A sender's row names its last admitted batch, and is written in the transaction that admits this batch. The next batch
has the same epoch and the next number, or a greater epoch and number 1. All others are dropped: those of an older epoch
for good, because a sender that has lost power reuses numbers for other rows; those admitted before, which are
acknowledged again; and those after a gap, which the sender sends again.

A batch is acknowledged once the transaction that admitted it is durable.
"""

from __future__ import annotations

import struct
from collections import deque
from enum import StrEnum

from msgspec import Struct, field

from crawler.base.kv import Batch, Family, Reader
from crawler.job.partition.link_batch_codec import Ack, LinkBatch
from crawler.job.records import StoredValue

_KEY = struct.Struct(">H")
_LAST = StoredValue(tuple[int, int], "an inlet row")  # epoch and number of the last batch admitted


class InletError(ValueError):
    """A stored row is not a valid inlet row."""


class Verdict(StrEnum):
    """The decision on a batch."""

    ADMITTED = "admitted"
    REPEATED = "repeated"  # admitted before
    GAP = "gap"  # an earlier batch is missing
    STALE = "stale"  # of an older epoch
    MISSENT = "missent"  # for another partition, or from an invalid sender
    UNKNOWN = "unknown"  # has a message of a newer version
    DAMAGED = "damaged"  # has an unreadable message


class _From(Struct):
    """The state of one sender: its last ``admitted`` batch and its last ``durable`` one. ``written`` has the batches in
    between, each as the number of the transaction that admitted it, and its own number."""

    epoch: int = 0
    admitted: int = 0
    durable: int = 0
    written: deque[tuple[int, int]] = field(default_factory=deque)
    owed: bool = False


def row_key(sender: int) -> bytes:
    """Return the key of a sender's row."""
    return _KEY.pack(sender)


def decode_row(key: bytes, value: bytes) -> tuple[int, int, int]:
    """Return (sender, epoch, number) of a row. Raises InletError, JournalError."""
    try:
        (sender,) = _KEY.unpack(key)
    except struct.error as error:
        raise InletError(f"not an inlet row: {error}") from error
    return sender, *_LAST.decode(value)


def check_row(key: bytes, value: bytes, me: int, partitions: int) -> None:
    """Raise InletError unless this is a valid row in the inlet of partition ``me``."""
    sender, _, _ = decode_row(key, value)
    if sender == me or sender >= partitions:
        raise InletError(f"the inlet of partition {me} has a row from partition {sender} of {partitions}")


class Inlet:
    """The inlet of partition ``me``. The writer numbers the transactions; the store's initial content counts as
    transaction 0, because a killed process may have left it without syncing."""

    def __init__(self, store: Reader, me: int, partitions: int) -> None:
        """Read the rows. Raises OSError, InletError."""
        self.me = me
        self._from = {sender: _From() for sender in range(partitions) if sender != me}
        for key, value in store.rows(Family.INLET):
            sender, epoch, number = decode_row(key, value)
            if sender not in self._from:
                raise InletError(f"the inlet of partition {me} has a row from partition {sender}")
            self._from[sender] = _From(epoch, number, 0, deque([(0, number)]))
        self._unsettled = {sender for sender, each in self._from.items() if each.written}
        self._asked = set[int]()

    def ask(self, sender: int) -> None:
        """Inform the sender, with the next acknowledgements, that this partition has none of its messages."""
        self._asked.add(sender)

    def judge(self, link_batch: LinkBatch) -> Verdict:
        """Return the decision on the batch: ``ADMITTED`` if it is the next one of its sender."""
        known = self._from.get(link_batch.sender)
        if link_batch.target != self.me or known is None or not link_batch.epoch or not link_batch.number:
            return Verdict.MISSENT
        if (
            link_batch.number == (1 if link_batch.epoch > known.epoch else known.admitted + 1)
            and link_batch.epoch >= known.epoch
        ):
            return Verdict.ADMITTED
        known.owed = True  # tell the sender in any case what is durable here
        self._unsettled.add(link_batch.sender)
        if link_batch.epoch < known.epoch:
            return Verdict.STALE
        is_known = link_batch.epoch == known.epoch and link_batch.number <= known.admitted
        return Verdict.REPEATED if is_known else Verdict.GAP

    def admitted(self, link_batch: LinkBatch, batch: Batch, transaction: int) -> None:
        """Record that the transaction with this number and this ``batch`` of the store admits the link batch."""
        known = self._from[link_batch.sender]
        if link_batch.epoch != known.epoch:
            known = self._from[link_batch.sender] = _From(link_batch.epoch)
        known.admitted = link_batch.number
        known.written.append((transaction, link_batch.number))
        self._unsettled.add(link_batch.sender)
        batch.put(Family.INLET, row_key(link_batch.sender), _LAST.encode((link_batch.epoch, link_batch.number)))

    def acks(self, durable: int) -> list[Ack]:
        """Return the acknowledgements that are due, each only once: for batches that have become durable and, after an
        unexpected batch, for the last batch that is durable here. ``durable``: the last durable transaction, -1 if
        there is none."""
        due = list[Ack]()
        if durable < 0:
            return due  # not even the initial content is durable
        for sender in sorted(self._unsettled):
            known = self._from[sender]
            while known.written and known.written[0][0] <= durable:
                known.durable = known.written.popleft()[1]
                known.owed = True
            if known.durable or not known.written:
                if known.owed:
                    due.append(Ack(sender, self.me, known.epoch, known.durable))
                known.owed = False
            if not known.written:
                self._unsettled.discard(sender)
        due += [Ack(sender, self.me, 0, 0) for sender in sorted(self._asked)]
        self._asked.clear()
        return due
