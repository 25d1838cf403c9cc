"""The log of a job: the data written by each transaction, for a store elsewhere.

Two sinks of the transaction writer build it. The one before the job's store puts the number of the step into its batch,
so that the store records which state it holds. The one after the store keeps the step until the reader of the log
discards it. Memory is bounded: beyond ``most`` bytes, if the logs of the process leave no ``room``, the oldest steps
are dropped, and a snapshot has to replace them. The last step is always kept, whatever its size.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import islice
from weakref import WeakSet

from crawler.base.kv import Batch, Family, Reader
from crawler.job.records import Body
from crawler.job.steps.step_codec import START, Chunk, Mark, Step, Written

MARK = b"step"  # the META key of the last step
MOST = 16 * 2**20  # bytes of steps kept: seconds of a fast crawl, so that a slow store does not use up the memory
MOST_STEPS = 4_096  # maximum number of steps in a chunk
ROOM = 128 * 2**20  # bytes that all logs of a process may keep before a log above its own limit drops steps


class StepRoom:
    """The memory shared by the logs of a process. A single page may use up a log's limit, and several large pages may
    arrive at once, so a log may exceed its own limit as long as the others leave room."""

    def __init__(self, most: int = ROOM) -> None:
        self._most = most
        self._all = WeakSet[StepLog]()

    def add(self, log: StepLog) -> None:
        """Count the steps of this log from now on, until it is garbage-collected."""
        self._all.add(log)

    @property
    def is_full(self) -> bool:
        """True if the logs exceed the limit."""
        return sum(log.size for log in self._all) > self._most


class StepLog:
    """The log of one opening of a job, whose ``line`` is a random number, or 0 to keep no log. ``mark`` is the last
    step written, ``size`` the bytes of all steps kept."""

    def __init__(self, line: int = 0, most: int = MOST, room: StepRoom | None = None) -> None:
        self.line = line
        self.mark = START
        self.size = 0
        self._most = most
        self._room = StepRoom(most) if room is None else room
        self._steps = deque[tuple[int, Step]]()  # the steps kept, up to ``mark``, with their bytes
        self._before: Mark | None = None  # the state before the kept steps; None: no steps are kept
        self._begun = START  # the last step of earlier openings

    def load(self, store: Reader) -> None:
        """Continue from the state of the store. Raises OSError, ChunkError."""
        self.mark = self._begun = Mark.decode(store.get(Family.META, MARK))

    def begin(self, batch: Batch) -> None:
        """Remove the mark if the log has no line: steps are then not numbered, and no reader follows this state."""
        if not self.line and self.mark != START:
            batch.delete(Family.META, MARK)
            self.mark = START

    # -- the writer ------------------------------------------------------------------------------------------------

    def stamp(self, batch: Batch) -> None:
        """Put the number of the next step into its batch, unless no log is kept."""
        if self.line:
            batch.put(Family.META, MARK, Mark(self.line, self.mark.number + 1).encode())

    def add(self, batch: Batch, written: Sequence[Written], bodies: Sequence[Body]) -> None:
        """Keep the step, which the store has written."""
        if not self.line:
            return
        self.mark = Mark(self.line, self.mark.number + 1)
        if self._before is None:
            return
        step = Step(batch.encode(), written, [(body.digest, body.data) for body in bodies])
        size = step.size
        self._steps.append((size, step))
        self.size += size
        while self.size > self._most and len(self._steps) > 1 and self._room.is_full:
            self._drop_first(self._before)

    # -- readers -----------------------------------------------------------------------------------------------

    def keep(self) -> None:
        """Keep steps from now on. Does nothing if they are already kept."""
        if self._before is None and self.line:
            self._before = self.mark
            self._room.add(self)

    def drop(self) -> None:
        """Drop all steps, and keep none from now on."""
        self._before, self.size = None, 0
        self._steps.clear()

    def holds(self, mark: Mark) -> bool:
        """True if all steps after that state are kept."""
        before = self._before
        is_later = before is not None and mark.line == self.line and before.number < mark.number <= self.mark.number
        return is_later or mark == before

    def after(self, mark: Mark, partition: int, most: int) -> Chunk | None:
        """Return the next steps after that state, in a chunk of at most ``most`` bytes or of one step; None if there
        are none. Raises ValueError if the log does not hold them."""
        if self._before is None or not self.holds(mark):
            raise ValueError(f"the steps after {mark} are not kept")
        first, size = mark.number - self._before.number, 0
        taken = list[Step]()
        for more, step in islice(self._steps, first, first + MOST_STEPS):
            size += more
            if taken and size > most:
                break
            taken.append(step)
        return Chunk(partition, self.line, mark.line, mark.number + 1, taken) if taken else None

    def forget(self, mark: Mark) -> None:
        """Drop the steps up to that state, because they are stored elsewhere."""
        if self.holds(mark):
            while self._before is not None and self._before.number < mark.number:
                self._drop_first(self._before)

    def _drop_first(self, before: Mark) -> None:
        self.size -= self._steps.popleft()[0]
        self._before = Mark(self.line, before.number + 1)

    def commits(self, mark: Mark) -> int:
        """Return how many transactions of this opening the state includes; -1 if it may lack some of earlier
        openings."""
        if mark.line == self.line:
            return mark.number - self._begun.number
        return 0 if mark == self._begun else -1
