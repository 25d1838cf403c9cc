"""A partition that is open in this process: its run, and its read position in its stream."""

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

_PAUSE = 0.2  # seconds between two checks for free disk space


class OpenPartition:
    """A partition and its run. Stream entries up to ``read_to`` are admitted. Once it ``is_closing``, no new write to
    its job starts; a writer holds the lock ``writing``. The partition sends nothing while ``is_rising``, when a new
    epoch is being started. ``claim_changed`` is set when its claim changes epoch or is lost."""

    def __init__(
        self, number: int, run: Run, outbox: Outbox, inlet: Inlet, settled: Callable[[OpenPartition], bool]
    ) -> None:
        """``settled`` returns True if the quota has nothing left to grant to the partition or take back from it."""
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
        self.claim_changed.set()  # set initially, because the first epoch has not started
        self._settled = partial(settled, self)
        self._since: dict[int, float] = {}  # by target with waiting rows: when the target last made progress
        self._read: deque[tuple[int, Position]] = deque()  # (transaction that makes it durable, position)

    @property
    def job(self) -> Job:
        """The job of the partition."""
        return self.run.job

    @property
    def epoch(self) -> int:
        """The epoch under which the partition sends."""
        return self.outbox.epoch

    @property
    def version(self) -> int:
        """The number of transactions written since the partition was opened."""
        return self.job.writer.commits

    @property
    def durable(self) -> int:
        """The number of transactions written since the partition was opened that are durable, also in the crawl's
        store."""
        return self.job.promises.kept

    @property
    def is_sent(self) -> bool:
        """True if everything sent to other partitions is durable there. Raises OSError."""
        return not self.outbox.waiting() and self.outbox.is_empty

    @property
    def is_spent(self) -> bool:
        """True if the partition has URLs left that the crawl's page limit does not allow it to fetch."""
        return self.run.is_spent and not self.run.is_idle

    @property
    def is_at_rest(self) -> bool:
        """True if the partition has no work left and its last state is durable."""
        if self.is_closing or self.is_rising or self.durable != self.version or not self._settled():
            return False
        return self.run.is_idle or (self.run.is_spent and self.is_sent)

    async def may_write(self) -> bool:
        """Wait until a transaction may start. Returns False if no more may start."""
        while self.job.blocked is not None and not self.is_closing:  # noqa: ASYNC110 - one of them
            await asyncio.sleep(_PAUSE)
        # No transaction may follow one that failed midway. The code that sees the failure ends the process.
        return not self.is_closing and self.job.writer.whole

    def acknowledged(self, acks: Sequence[Ack], now: float) -> None:
        """Remove acknowledged rows from the outbox. Raises OSError."""
        if self.job.acknowledged(acks, now):
            self._since.update({ack.target: now for ack in acks})

    def lag(self, now: float) -> tuple[int, float]:
        """Return the number of rows waiting to be sent to other partitions, and the longest time in seconds for which
        any target has made no progress."""
        waiting = self.outbox.waiting()
        self._since = {target: self._since.get(target, now) for target in waiting}
        return sum(waiting.values()), max((now - since for since in self._since.values()), default=0.0)

    def has_read(self, position: Position) -> None:
        """Record that the stream has been processed up to this position."""
        self.read_to = position
        if self._read and self._read[-1][0] == self.version:
            self._read[-1] = (self.version, position)
        else:
            self._read.append((self.version, position))

    def trimmable(self) -> Position | None:
        """Return the position up to which all entries read are durable; None if it has not advanced since the last
        call."""
        position = None
        while self._read and self._read[0][0] <= self.durable:
            position = self._read.popleft()[1]
        return position
