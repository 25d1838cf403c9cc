"""Rows waiting for other partitions, and those in flight.

    key    target (2 bytes, big-endian)  number (8 bytes, big-endian)
    value  a message

Rows are written in the same transaction as the changes they report, and their numbers increase for each target. They
are sent in batches, numbered from 1 for each target in each *epoch*, the time during which one process has the
partition open. A row is removed only when its batch is durable at the target, because acceptance by a carrier proves
nothing. If a batch is not acknowledged in time, it and all later ones are sent again, because the target accepts
batches only in order. In a new epoch all remaining rows are sent again with new numbers; admitting rows again has no
effect at the target.

A new epoch is also needed if a partition has been restored from a backup, so that a target has more or fewer rows than
it has acknowledged: ``outrun`` indicates this.

Memory holds only numbers. A batch is read from the store whenever it is sent.
"""

from __future__ import annotations

import math
import struct
from collections import deque

from msgspec import Struct, field

from crawler.base.kv import Batch, Family, Reader
from crawler.job.partition.link_batch_codec import BATCH_BYTES, Ack, LinkBatch
from crawler.job.partition.messages import UnknownMessage, decode_message

AGAIN = 2.0  # seconds before an unacknowledged batch is first sent again
AGAIN_MOST = 30.0  # maximum of these seconds, which are doubled each time
WINDOW = 32  # maximum number of batches in flight to one target
_ROWS = 64  # number of rows read at a time

_KEY = struct.Struct(">HQ")
KEY_SIZE = _KEY.size


def row_key(target: int, number: int) -> bytes:
    """Return the key of a row."""
    return _KEY.pack(target, number)


def read_key(key: bytes) -> tuple[int, int]:
    """Return (target, number) of a row's key. Raises ValueError."""
    if len(key) != _KEY.size:
        raise ValueError(f"{len(key)} bytes cannot be the key of an outbox row")
    target, number = _KEY.unpack(key)
    return target, number


def check_row(key: bytes, value: bytes, me: int, partitions: int) -> tuple[int, int]:
    """Return (target, number) of a row in the outbox of partition ``me``. Raises ValueError if the row is invalid, or
    if its message cannot be read."""
    target, number = read_key(key)
    if target == me or target >= partitions or not number:
        raise ValueError(f"the outbox of partition {me} has a message for partition {target} of {partitions}")
    message = decode_message(value)
    if isinstance(message, UnknownMessage):
        raise ValueError(f"the kind of a message is unknown: {message.kind}")
    return target, number


class _Sent(Struct, frozen=True):
    """A batch in flight, with its range of rows."""

    number: int
    first: int
    last: int
    size: int


class _Way(Struct):
    """The state of sending to one target. Rows up to ``gone`` are durable there, rows up to ``sent`` are in flight;
    ``last`` is the last row. ``number`` is the number of the last batch sent, ``acknowledged`` that of the last durable
    batch. Batches in flight are sent again at ``again_at``. ``has_less``: the target acknowledges less than before."""

    gone: int = 0
    sent: int = 0
    last: int = 0
    number: int = 0
    acknowledged: int = 0
    has_less: bool = False
    on_way: deque[_Sent] = field(default_factory=deque)
    again_at: float = math.inf
    wait: float = AGAIN


class Outbox:
    """The outbox of partition ``me`` in the current ``epoch``; nothing is sent before the first epoch."""

    def __init__(self, store: Reader, me: int, partitions: int) -> None:
        """Find which rows exist. Raises OSError."""
        self._store = store
        self.me = me
        self.epoch = 0
        self.in_flight = 0  # bytes of messages in flight
        self.outrun = 0  # a new epoch must be greater than this
        self._ways = {target: self._find(target) for target in range(partitions) if target != me}
        self._unsent = sum(way.last - way.sent for way in self._ways.values())  # rows
        self._turn = 0  # rotates over the targets, so that none is always last

    def _find(self, target: int) -> _Way:
        """Return the initial state of sending to a target."""
        rows = self._scan(target, 0, 1)
        if not rows:
            return _Way()
        first = read_key(rows[0][0])[1]
        last, step = first, 1
        while self._scan(target, last + step, 1):
            last, step = last + step, step * 2
        while step > 1:
            step //= 2
            last += step if self._scan(target, last + step, 1) else 0
        return _Way(first - 1, first - 1, last)

    def _scan(self, target: int, first: int, limit: int, last: int | None = None) -> list[tuple[bytes, bytes]]:
        end = row_key(target + 1, 0) if last is None else row_key(target, last + 1)
        return self._store.scan(Family.OUTBOX, row_key(target, first), end, limit)

    # -- rows

    def put(self, target: int, message: bytes, batch: Batch) -> None:
        """Put a message for the target into the batch."""
        way = self._ways[target]
        way.last += 1
        self._unsent += 1
        batch.put(Family.OUTBOX, row_key(target, way.last), message)

    @property
    def targets(self) -> list[int]:
        """The numbers of all other partitions."""
        return list(self._ways)

    @property
    def is_empty(self) -> bool:
        """True if the store has no rows. Raises OSError."""
        return not any(self._scan(target, way.gone + 1, 1) for target, way in self._ways.items())

    def waiting(self) -> dict[int, int]:
        """Return the number of unacknowledged rows by target."""
        return {target: way.last - way.gone for target, way in self._ways.items() if way.last > way.gone}

    # -- batches

    def renumber(self, epoch: int) -> None:
        """Start a greater epoch: all rows are sent again. Raises ValueError."""
        if epoch <= self.epoch:
            raise ValueError(f"epoch {epoch} does not follow {self.epoch}")
        self.epoch, self.in_flight = epoch, 0
        for way in self._ways.values():
            way.sent, way.number, way.acknowledged, way.has_less = way.gone, 0, 0, False
            way.again_at, way.wait = math.inf, AGAIN
            way.on_way.clear()
        self._unsent = sum(way.last - way.sent for way in self._ways.values())

    def gather(self, now: float, most: int) -> list[LinkBatch]:
        """Return batches of rows not yet sent in this epoch, and count them as sent: about ``most`` bytes, but at least
        one batch if there are any rows. Raises OSError."""
        link_batches: list[LinkBatch] = []
        if not self.epoch or not self._unsent:
            return link_batches
        targets = list(self._ways)
        for target in targets[self._turn :] + targets[: self._turn]:
            way = self._ways[target]
            while way.sent < way.last and len(way.on_way) < WINDOW and (most > 0 or not link_batches):
                size, link_batch = self._next(target, way)
                if link_batch is None:
                    break  # the transaction with these rows is not written yet
                most -= size
                way.again_at = min(way.again_at, now + way.wait)
                link_batches.append(link_batch)
            if most <= 0:
                self._turn = (targets.index(target) + 1) % len(targets)
                break
        return link_batches

    def _next(self, target: int, way: _Way) -> tuple[int, LinkBatch | None]:
        """Return the size and content of the next batch."""
        messages, size, last = list[bytes](), 0, way.sent
        while rows := self._scan(target, last + 1, _ROWS):
            for key, value in rows:
                if messages and size + len(value) > BATCH_BYTES:
                    break
                messages.append(value)
                size += len(value)
                last = read_key(key)[1]
            else:
                if len(rows) == _ROWS:
                    continue
            break
        if not messages:
            return 0, None
        way.number += 1
        way.on_way.append(_Sent(way.number, way.sent + 1, last, size))
        self._unsent -= last - way.sent
        way.sent = last
        self.in_flight += size
        return size, LinkBatch(self.me, target, self.epoch, way.number, messages)

    def due(self, now: float) -> list[LinkBatch]:
        """Return the batches to send again now: all those in flight to targets that have acknowledged nothing for too
        long. Raises OSError."""
        link_batches: list[LinkBatch] = []
        for target, way in self._ways.items() if self.in_flight else ():
            if way.again_at > now:
                continue
            if way.has_less and way.wait >= AGAIN_MOST:
                # The rows that the target lacks are gone from here. In a new epoch it accepts those that remain.
                self.outrun = max(self.outrun, self.epoch)
            way.wait = min(2 * way.wait, AGAIN_MOST)
            way.again_at = now + way.wait
            for sent in way.on_way:
                rows = self._scan(target, sent.first, sent.last - sent.first + 1, sent.last)
                link_batches.append(LinkBatch(self.me, target, self.epoch, sent.number, [value for _, value in rows]))
        return link_batches

    def is_news(self, ack: Ack) -> bool:
        """Return True if the acknowledgement removes rows. One that does not may show that this partition or the target
        was restored from a backup, and that only a new epoch helps: see ``outrun``."""
        way = self._ways.get(ack.target)
        if ack.sender != self.me or way is None:
            return False
        if ack.epoch > self.epoch:
            self.outrun = max(self.outrun, ack.epoch)
        elif way.acknowledged and (ack.epoch, ack.number) < (self.epoch, way.acknowledged):
            way.has_less = True  # or this is an old acknowledgement that arrived late
        return ack.epoch == self.epoch and bool(way.on_way) and way.on_way[0].number <= ack.number <= way.number

    def acknowledged(self, ack: Ack, now: float, batch: Batch) -> None:
        """Remove the rows of batches that are durable at their target."""
        if not self.is_news(ack):
            return
        way = self._ways[ack.target]
        first = way.gone + 1
        while way.on_way and way.on_way[0].number <= ack.number:
            sent = way.on_way.popleft()
            way.gone = sent.last
            self.in_flight -= sent.size
        batch.delete_range(Family.OUTBOX, row_key(ack.target, first), row_key(ack.target, way.gone + 1))
        way.acknowledged, way.has_less, way.wait = ack.number, False, AGAIN
        way.again_at = now + AGAIN if way.on_way else math.inf
