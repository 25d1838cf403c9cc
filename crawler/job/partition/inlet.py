"""What has come from other partitions.

    key    sender (2 bytes, big-endian)
    value  version (1)  epoch (8)  number (8), big-endian

The row of a sender says which of its batches was admitted last; it is written in the transaction that admits it. The
next one has the same epoch and the next number, or a greater epoch and number 1. All others are dropped: those of an
older epoch for ever, because a sender that lost power numbers other rows alike; those that were admitted before, which
are acknowledged again; and those before which one is missing, which comes again.

A batch is acknowledged when the transaction that admitted it is durable.
"""

from __future__ import annotations

import struct
from collections import deque
from enum import StrEnum

from msgspec import Struct, field

from crawler.base.kv import Batch, Family, Reader
from crawler.job.partition.link_batch_codec import Ack, LinkBatch

_KEY = struct.Struct(">H")
_VALUE = struct.Struct(">BQQ")
_VERSION = 1


class InletError(ValueError):
    """A stored row is not one of the inlet."""


class Verdict(StrEnum):
    """What becomes of a batch."""

    ADMITTED = "admitted"
    REPEATED = "repeated"  # it was admitted before
    GAP = "gap"  # one before it is missing
    STALE = "stale"  # of an older epoch
    MISSENT = "missent"  # for another partition, or from none
    UNKNOWN = "unknown"  # a newer version wrote a message in it
    DAMAGED = "damaged"  # a message in it cannot be read


class _From(Struct):
    """What has come from one sender: the last batch that was ``admitted`` and the last one that is ``durable``.
    ``written`` has the others between them, each with the transaction after which it is durable."""

    epoch: int = 0
    admitted: int = 0
    durable: int = 0
    written: deque[tuple[int, int]] = field(default_factory=deque)
    owed: bool = False


def row_key(sender: int) -> bytes:
    """The key of the row of a sender."""
    return _KEY.pack(sender)


def decode_row(key: bytes, value: bytes) -> tuple[int, int, int]:
    """(sender, epoch, number) of a row. Raises InletError."""
    try:
        (sender,), (version, epoch, number) = _KEY.unpack(key), _VALUE.unpack(value)
    except struct.error as error:
        raise InletError(f"not a row of the inlet: {error}") from error
    if version != _VERSION:
        raise InletError(f"a row of the inlet of version {version}, not {_VERSION}")
    return sender, epoch, number


def check_row(key: bytes, value: bytes, me: int, partitions: int) -> None:
    """Raise InletError unless that is a row of the inlet of partition ``me``."""
    sender, _, _ = decode_row(key, value)
    if sender == me or sender >= partitions:
        raise InletError(f"a row of partition {sender} of {partitions}, in the inlet of {me}")


class Inlet:
    """The inlet of one partition, ``me``. A transaction has the number that the writer gives it; what the store has at
    first counts as transaction 0, because a killed process may have left it in no durable state."""

    def __init__(self, store: Reader, me: int, partitions: int) -> None:
        """Read the rows. Raises OSError, InletError."""
        self.me = me
        self._from = {sender: _From() for sender in range(partitions) if sender != me}
        for key, value in store.rows(Family.INLET):
            sender, epoch, number = decode_row(key, value)
            if sender not in self._from:
                raise InletError(f"a row of the inlet of partition {me} is of partition {sender}")
            self._from[sender] = _From(epoch, number, 0, deque([(0, number)]))
        self._unsettled = {sender for sender, each in self._from.items() if each.written}
        self._asked = set[int]()

    def ask(self, sender: int) -> None:
        """Have the sender learn, with the next acknowledgements, that this partition has nothing of what it told."""
        self._asked.add(sender)

    def judge(self, link_batch: LinkBatch) -> Verdict:
        """What is to be done with the batch: ``ADMITTED`` if it is the next one of its sender."""
        known = self._from.get(link_batch.sender)
        if link_batch.target != self.me or known is None or not link_batch.epoch or not link_batch.number:
            return Verdict.MISSENT
        if (
            link_batch.number == (1 if link_batch.epoch > known.epoch else known.admitted + 1)
            and link_batch.epoch >= known.epoch
        ):
            return Verdict.ADMITTED
        known.owed = True  # whatever it is, its sender learns what is here
        self._unsettled.add(link_batch.sender)
        if link_batch.epoch < known.epoch:
            return Verdict.STALE
        is_known = link_batch.epoch == known.epoch and link_batch.number <= known.admitted
        return Verdict.REPEATED if is_known else Verdict.GAP

    def admitted(self, link_batch: LinkBatch, batch: Batch, transaction: int) -> None:
        """Note in the batch that the batch was admitted in the transaction with that number."""
        known = self._from[link_batch.sender]
        if link_batch.epoch != known.epoch:
            known = self._from[link_batch.sender] = _From(link_batch.epoch)
        known.admitted = link_batch.number
        known.written.append((transaction, link_batch.number))
        self._unsettled.add(link_batch.sender)
        batch.put(Family.INLET, row_key(link_batch.sender), _VALUE.pack(_VERSION, link_batch.epoch, link_batch.number))

    def acks(self, durable: int) -> list[Ack]:
        """The acknowledgements that are due, once each: of what has become durable, and of what is durable when a
        batch comes that is not the next one. ``durable``: the last transaction that is, -1 if none is."""
        due = list[Ack]()
        if durable < 0:
            return due  # not even what was there at the beginning
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
