"""What waits for other partitions, and what of it is on its way.

    key    target (2 bytes, big-endian)  number (8 bytes, big-endian)
    value  a message

Rows are written in the transactions that they tell of, and their numbers grow for each target. They go on their way in
batches, which are numbered from 1 for each target in each *epoch*, the time for which one process has the partition
open. A row is removed when its batch is durable at the target, and not before: what a carrier says of it proves
nothing. What is not acknowledged in time is sent again, from the first such batch on, because the target takes batches
only in order. In a new epoch all rows that are left are sent again, numbered anew: the target admits what it knows once
more, which changes nothing. A new epoch also helps when a partition was restored from a backup, so that another has
received more of it, or it has received less, than was acknowledged: ``outrun`` then says so.

Memory holds numbers only. A batch is read from the store when it is sent, and again when it is sent again.
"""

from __future__ import annotations

import math
import struct
from collections import deque

from msgspec import Struct, field

from crawler.base.kv import Batch, Family, Reader
from crawler.job.partition.link_batch_codec import BATCH_BYTES, Ack, LinkBatch
from crawler.job.partition.messages import UnknownMessage, decode_message

AGAIN = 2.0  # seconds after which a batch without an acknowledgement is sent again ...
AGAIN_MOST = 30.0  # ... doubled each time, up to this
WINDOW = 32  # batches on their way to one target
_ROWS = 64  # that are read at a time

_KEY = struct.Struct(">HQ")
KEY_SIZE = _KEY.size


def row_key(target: int, number: int) -> bytes:
    """The key of a row."""
    return _KEY.pack(target, number)


def read_key(key: bytes) -> tuple[int, int]:
    """(target, number) of the key of a row. Raises ValueError."""
    if len(key) != _KEY.size:
        raise ValueError(f"{len(key)} bytes are no key of a row of the outbox")
    target, number = _KEY.unpack(key)
    return target, number


def check_row(key: bytes, value: bytes, me: int, partitions: int) -> tuple[int, int]:
    """(target, number) of a row of the outbox of partition ``me``. Raises ValueError if it is none, or its message
    cannot be read."""
    target, number = read_key(key)
    if target == me or target >= partitions or not number:
        raise ValueError(f"a message for partition {target} of {partitions}, in the outbox of {me}")
    message = decode_message(value)
    if isinstance(message, UnknownMessage):
        raise ValueError(f"a message of the unknown kind {message.kind}")
    return target, number


class _Sent(Struct, frozen=True):
    """A batch on its way, with its rows."""

    number: int
    first: int
    last: int
    size: int


class _Way(Struct):
    """The way to one target. Rows up to ``gone`` are durable there, up to ``sent`` on their way; ``last`` is the last
    one. ``number`` is that of the last batch, ``acknowledged`` that of the last one that is durable. What is on its
    way is sent again at ``again_at``. ``has_less``: the target says that it has less than it had."""

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
    """The outbox of one partition. ``me`` is its number, ``epoch`` the current one; before the first nothing is
    sent."""

    def __init__(self, store: Reader, me: int, partitions: int) -> None:
        """Find the rows that are there. Raises OSError."""
        self._store = store
        self.me = me
        self.epoch = 0
        self.in_flight = 0  # bytes of messages on their way
        self.outrun = 0  # only a greater epoch than this helps
        self._ways = {target: self._find(target) for target in range(partitions) if target != me}
        self._unsent = sum(way.last - way.sent for way in self._ways.values())  # rows
        self._turn = 0  # of the targets, so that none is always the last

    def _find(self, target: int) -> _Way:
        """The way to a target after the partition was opened."""
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
        """All other partitions."""
        return list(self._ways)

    @property
    def is_empty(self) -> bool:
        """Whether the store has no row. Raises OSError."""
        return not any(self._scan(target, way.gone + 1, 1) for target, way in self._ways.items())

    def waiting(self) -> dict[int, int]:
        """How many rows are not acknowledged, by target."""
        return {target: way.last - way.gone for target, way in self._ways.items() if way.last > way.gone}

    # -- batches

    def renumber(self, epoch: int) -> None:
        """Begin a greater epoch: all rows are sent again. Raises ValueError."""
        if epoch <= self.epoch:
            raise ValueError(f"epoch {epoch} does not follow {self.epoch}")
        self.epoch, self.in_flight = epoch, 0
        for way in self._ways.values():
            way.sent, way.number, way.acknowledged, way.has_less = way.gone, 0, 0, False
            way.again_at, way.wait = math.inf, AGAIN
            way.on_way.clear()
        self._unsent = sum(way.last - way.sent for way in self._ways.values())

    def gather(self, now: float, most: int) -> list[LinkBatch]:
        """Batches of rows that were not sent in this epoch: about so many bytes, and at least one batch if there is
        any. They count as sent. Raises OSError."""
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
        """The next batch, and its size."""
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
        """The batches to be sent again now: all that are on their way to a target that has acknowledged nothing for too
        long. Raises OSError."""
        link_batches: list[LinkBatch] = []
        for target, way in self._ways.items() if self.in_flight else ():
            if way.again_at > now:
                continue
            if way.has_less and way.wait >= AGAIN_MOST:
                # What it lacks is gone from here. In a new epoch it takes what there is.
                self.outrun = max(self.outrun, self.epoch)
            way.wait = min(2 * way.wait, AGAIN_MOST)
            way.again_at = now + way.wait
            for sent in way.on_way:
                rows = self._scan(target, sent.first, sent.last - sent.first + 1, sent.last)
                link_batches.append(LinkBatch(self.me, target, self.epoch, sent.number, [value for _, value in rows]))
        return link_batches

    @property
    def next_time(self) -> float:
        """When something is due again, if nothing is acknowledged before; infinity if nothing is on its way."""
        return min((way.again_at for way in self._ways.values()), default=math.inf)

    def is_news(self, ack: Ack) -> bool:
        """Whether the acknowledgement removes rows. One that does not may say that a partition was restored from a
        backup, this one or the target, and that only a new epoch helps: see ``outrun``."""
        way = self._ways.get(ack.target)
        if ack.sender != self.me or way is None:
            return False
        if ack.epoch > self.epoch:
            self.outrun = max(self.outrun, ack.epoch)
        elif way.acknowledged and (ack.epoch, ack.number) < (self.epoch, way.acknowledged):
            way.has_less = True  # or the acknowledgement is an old one
        return ack.epoch == self.epoch and bool(way.on_way) and way.on_way[0].number <= ack.number <= way.number

    def acknowledged(self, ack: Ack, now: float, batch: Batch) -> None:
        """Remove the rows of the batches that are durable at their target."""
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
