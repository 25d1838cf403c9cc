"""A partition that is open in this process: its run, and how far its stream is read."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

from crawler.base.carrier.verbs import START, Position
from crawler.cluster.claims import name_of
from crawler.engine.run import Run
from crawler.job.job import Job
from crawler.job.partition.inlet import Inlet
from crawler.job.partition.link_batch_codec import Ack
from crawler.job.partition.outbox import Outbox


class OpenPartition:
    """A partition and its run. ``read_to``: what of its stream is admitted. Once it ``is_closing``, nobody begins to
    write to its job; who does so holds ``writing``. Nothing is sent while a new epoch ``is_rising``. ``claim_changed``
    is set when its claim has another epoch, or is lost."""

    def __init__(
        self, number: int, run: Run, outbox: Outbox, inlet: Inlet, settled: Callable[[OpenPartition], bool]
    ) -> None:
        """``settled``: whether no part of the pages that the whole crawl may fetch is to be granted to it or given
        back."""
        self.number = number
        self.name = name_of(number)
        self.run = run
        self.outbox = outbox
        self.inlet = inlet
        self.read_to: Position = START
        self.is_closing = False
        self.is_rising = True
        self.writing = asyncio.Lock()
        self.claim_changed = asyncio.Event()
        self.claim_changed.set()  # the first epoch is to be begun
        self._settled = partial(settled, self)
        self._since: dict[int, float] = {}  # of partitions for which something waits: when that was last seen to move
        self._read: deque[tuple[int, Position]] = deque()  # a position, and the transaction after which it is durable

    @property
    def job(self) -> Job:
        """The job of the partition."""
        return self.run.job

    @property
    def epoch(self) -> int:
        """The epoch under which it sends."""
        return self.outbox.epoch

    @property
    def version(self) -> int:
        """The transactions written since it was opened."""
        return self.job.writer.commits

    @property
    def durable(self) -> int:
        """How many of them are durable, in the store of the crawl too."""
        return self.job.durable

    @property
    def is_sent(self) -> bool:
        """Whether all that belongs to other partitions is durable there. Raises OSError."""
        return not self.outbox.waiting() and self.outbox.is_empty

    @property
    def is_spent(self) -> bool:
        """Whether URLs are left in it that a limit on the pages of the crawl forbids."""
        return self.run.is_spent and not self.run.is_idle

    @property
    def is_at_rest(self) -> bool:
        """Whether nothing is left to do in it, and all of that is durable."""
        if self.is_closing or self.is_rising or self.durable != self.version or not self._settled():
            return False
        return self.run.is_idle or (self.run.is_spent and self.is_sent)

    def acknowledged(self, acks: Sequence[Ack], now: float) -> None:
        """Remove from the outbox what is durable where it belongs. Raises OSError."""
        if self.job.acknowledged(acks, now):
            self._since.update({ack.target: now for ack in acks})

    def lag(self, now: float) -> tuple[int, float]:
        """How many rows wait for other partitions, and for how many seconds some of them were seen to wait without
        progress."""
        waiting = self.outbox.waiting()
        self._since = {target: self._since.get(target, now) for target in waiting}
        return sum(waiting.values()), max((now - since for since in self._since.values()), default=0.0)

    def has_read(self, position: Position) -> None:
        """An entry of the stream is done with."""
        self.read_to = position
        if self._read and self._read[-1][0] == self.version:
            self._read[-1] = (self.version, position)
        else:
            self._read.append((self.version, position))

    def trimmable(self) -> Position | None:
        """The position up to which all that was read is durable; None if that was said before."""
        position = None
        while self._read and self._read[0][0] <= self.durable:
            position = self._read.popleft()[1]
        return position
