"""The log of a job: what each transaction wrote, for a replica elsewhere.

Two sinks of the transaction writer make it. The one before the store puts the number of the step into its batch, so that
the store says which state it holds. The one behind it keeps the step, which the store has by then, until it is taken.
Memory is bounded: if nobody takes them, the steps are dropped, and the log says that it has a gap.
"""

from __future__ import annotations

from collections import deque

from crawler.job.transaction import Transaction
from crawler.kv import Batch, Family, Reader
from crawler.replica import START, Chunk, Mark, Step

MARK = b"step"  # the META key of the last step
MOST = 16 * 2**20  # bytes of steps that are kept
_CHUNK = 256 * 1024  # bytes of steps in a chunk, unless one step alone has more
_STEPS = 4_096


class StepLog:
    """The log of one opening of a job, whose ``line`` is a random number other than 0; 0: no log is kept."""

    def __init__(self, line: int = 0, most: int = MOST) -> None:
        self.line = line
        self.mark = START  # the last step that was written
        self.size = 0  # bytes of the steps that wait
        self.has_gap = False  # steps were dropped: a replica must begin again with a copy
        self._most = most
        self._steps: deque[Step] = deque()
        self._first = Mark(0, 0)  # the state before the first that waits

    def load(self, store: Reader) -> None:
        """Go on from the state of the store. Raises OSError, ChunkError."""
        self.mark = self._first = Mark.decode(store.get(Family.META, MARK))

    def end(self, batch: Batch) -> None:
        """Steps are not numbered any more: no replica follows this state."""
        if self.mark != START:
            batch.delete(Family.META, MARK)
            self.mark = START

    # -- sinks -------------------------------------------------------------------------------------------------

    def stamp(self, transaction: Transaction) -> None:
        """Put the number of the step into the batch, once."""
        if self.line and not transaction.is_stamped:
            transaction.is_stamped = True
            transaction.batch.put(Family.META, MARK, Mark(self.line, self.mark.number + 1).encode())

    def keep(self, transaction: Transaction) -> None:
        """Keep the step: the store has it."""
        if not self.line:
            return
        self.mark = Mark(self.line, self.mark.number + 1)
        if self.has_gap:
            return
        bodies = [(body.digest, body.data) for body in transaction.bodies]
        step = Step(transaction.batch.encode(), transaction.written, bodies)
        self._steps.append(step)
        self.size += _size(step)
        if self.size > self._most:
            self.drop()

    def drop(self) -> None:
        """Drop what waits: a replica that does not have it begins again."""
        self._steps.clear()
        self.size, self.has_gap = 0, True

    def begin(self) -> Mark:
        """Keep steps from here on. Returns the state that they follow: that of a copy that is made now."""
        self._steps.clear()
        self.size, self.has_gap, self._first = 0, False, self.mark
        return self.mark

    def take(self, partition: int, most: int = _CHUNK) -> Chunk | None:
        """The next steps that wait; None if none does."""
        if not self._steps:
            return None
        before, taken, size = self._first, list[Step](), 0
        while self._steps and len(taken) < _STEPS and (not taken or size + _size(self._steps[0]) <= most):
            step = self._steps.popleft()
            size += _size(step)
            taken.append(step)
        self.size -= size
        self._first = Mark(self.line, before.number + len(taken))
        return Chunk(partition, self.line, before.line, before.number + 1, taken)


def _size(step: Step) -> int:
    written = sum(len(each.data) for each in step.written)
    return len(step.batch) + written + sum(len(data) for _, data in step.bodies)


class StampSink:
    """Puts the number of each step into its batch."""

    def __init__(self, log: StepLog) -> None:
        self._log = log

    def write(self, transaction: Transaction) -> None:
        self._log.stamp(transaction)

    def look(self) -> None:
        pass

    def sync(self) -> None:
        pass


class LogSink(StampSink):
    """Keeps each step that the store has."""

    def write(self, transaction: Transaction) -> None:
        self._log.keep(transaction)
