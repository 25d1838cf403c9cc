"""The log of a job: what each transaction wrote, for a store elsewhere.

Two sinks of the transaction writer make it. The one before the job's store puts the number of the step into its batch,
so that it says which state it holds. The one behind it keeps the step, until whoever reads the log forgets it. Memory
is bounded: beyond ``most`` bytes, if the logs of the process leave no ``room`` for more, the oldest steps are dropped,
and a snapshot has to take their place.
"""

from __future__ import annotations

from collections.abc import Sequence

from crawler.base.kv import Batch, Family, Reader
from crawler.job.kept_steps import CHUNK, KeptSteps, StepRoom
from crawler.job.steps.step_codec import START, Chunk, Mark, Step
from crawler.job.transaction import Sink, Transaction

MARK = b"step"  # the META key of the last step
MOST = 16 * 2**20  # bytes of steps that are kept: seconds of a fast crawl, so that a slow store holds up no memory


class StepLog:
    """The log of one opening of a job, whose ``line`` is a random number other than 0; 0: none is kept. ``mark`` is the
    last step that was written, ``size`` the bytes of those that are kept."""

    def __init__(self, line: int = 0, most: int = MOST, room: StepRoom | None = None) -> None:
        self.line = line
        self.mark = START
        self._most = most
        self._room = StepRoom(most) if room is None else room
        self._kept: KeptSteps | None = None
        self._begun = START  # the last step of former openings

    @property
    def size(self) -> int:
        """The bytes of steps that are kept."""
        return 0 if self._kept is None else self._kept.size

    def load(self, store: Reader) -> None:
        """Go on from the state of the store. Raises OSError, ChunkError."""
        self.mark = self._begun = Mark.decode(store.get(Family.META, MARK))

    def begin(self, batch: Batch) -> None:
        """Without a line steps are not numbered any more: nobody follows this state."""
        if not self.line and self.mark != START:
            batch.delete(Family.META, MARK)
            self.mark = START

    # -- sinks -------------------------------------------------------------------------------------------------

    def stamp(self, transaction: Transaction) -> None:
        """Put the number of the step into the batch, once."""
        if not transaction.is_stamped:
            transaction.is_stamped = True
            transaction.batch.put(Family.META, MARK, Mark(self.line, self.mark.number + 1).encode())

    def add(self, transaction: Transaction) -> None:
        """The store has the step."""
        self.mark = Mark(self.line, self.mark.number + 1)
        if self._kept is None:
            return
        bodies = [(body.digest, body.data) for body in transaction.bodies]
        self._kept.add(self.line, Step(transaction.batch.encode(), transaction.written, bodies))

    # -- readers -----------------------------------------------------------------------------------------------

    def keep(self) -> None:
        """Keep steps from now on. Nothing changes if they are kept already."""
        if self._kept is None and self.line:
            self._kept = KeptSteps(self.mark, self._most, self._room)
            self._room.add(self._kept)

    def drop(self) -> None:
        """Keep no steps any more."""
        self._kept = None

    def holds(self, mark: Mark) -> bool:
        """Whether all steps after that state are kept."""
        return self._kept is not None and self._kept.holds(mark)

    def after(self, mark: Mark, partition: int, most: int = CHUNK) -> Chunk | None:
        """The next steps after that state, in a chunk of at most ``most`` bytes or of one step; None if there is none.
        Raises ValueError if the log does not hold them."""
        if self._kept is None:
            raise ValueError("no steps are kept")
        return self._kept.after(mark, partition, most)

    def forget(self, mark: Mark) -> None:
        """The steps up to that one are stored elsewhere."""
        if self._kept is not None:
            self._kept.forget(mark)

    def commits(self, mark: Mark) -> int:
        """How many transactions of this opening the state has; -1 for one that may lack some of former openings."""
        if mark.line == self.line:
            return mark.number - self._begun.number
        return 0 if mark == self._begun else -1


def logged(records: Sink, store: Sink, log: StepLog) -> Sequence[Sink]:
    """The sinks of a job with that log."""
    return (records, StampSink(log), store, LogSink(log)) if log.line else (records, store)


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
    """Tells the log of each step that the store has."""

    def write(self, transaction: Transaction) -> None:
        self._log.add(transaction)
