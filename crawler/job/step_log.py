"""The log of a job: what each transaction wrote, for replicas elsewhere.

Two sinks of the transaction writer make it. The one before the store puts the number of the step into its batch, so
that the store says which state it holds. The one behind it keeps the step, which the store has by then. Nothing is
consumed: several replicas read the same steps, each from its own mark, until all have them. Memory is bounded: beyond
``most`` bytes, if the logs of the process leave no ``room`` for more, the oldest steps are dropped, and a replica that
does not have them begins again with a copy.
"""

from __future__ import annotations

from collections.abc import Sequence

from crawler.base.kv import Batch, Family, Reader
from crawler.job.kept_steps import CHUNK, KeptSteps, StepRoom
from crawler.job.output.body_files import DIRECTORY
from crawler.job.output.outputs import FORMS, OF_BODIES
from crawler.job.records import kind_of
from crawler.job.replica.step_codec import START, Chunk, Mark, Step
from crawler.job.transaction import Sink, Transaction

MARK = b"step"  # the META key of the last step
LEFT_OUT = b"left-out"  # the META key of the outputs that the steps do not have; none if they have all
MOST = 16 * 2**20  # bytes of steps that are kept: seconds of a fast crawl, so that slow replicas hold up no memory
_NAMES = " ".join([DIRECTORY, *sorted(FORMS[kind].name for kind in OF_BODIES)]).encode("ascii")


class StepLog:
    """The log of one opening of a job, whose ``line`` is a random number other than 0; 0: none is kept. ``mark`` is the
    last step that was written, ``size`` the bytes of those that are kept. ``bodies``: whether the steps, and copies of
    the job, have what was fetched; else only its records, and what they lead to."""

    def __init__(self, line: int = 0, most: int = MOST, *, bodies: bool = True, room: StepRoom | None = None) -> None:
        self.line = line
        self.bodies = bodies
        self.mark = START
        self._most = most
        self._room = StepRoom(most) if room is None else room
        self._kept: KeptSteps | None = None
        self._had_bodies = True  # what the store says
        self._begun = START  # the last step of former openings

    @property
    def size(self) -> int:
        """The bytes of steps that are kept."""
        return 0 if self._kept is None else self._kept.size

    def load(self, store: Reader, followed: KeptSteps | None = None) -> None:
        """Go on from the state of the store. If replicas may have followed the job before, steps are kept from now on:
        they may go on where they are, unless steps have something else than before. ``followed``: the last steps that
        the directory was sent as a replica, so that others may lack them. Raises OSError, ChunkError."""
        self.mark = self._begun = Mark.decode(store.get(Family.META, MARK))
        self._had_bodies = not leaves_out(store)
        if not self.line or self.mark == START or self.bodies != self._had_bodies:
            return
        if followed is None or followed.mark != self.mark:
            followed = KeptSteps(self.mark, self._most)
        followed.most = self._most
        self._begin_to_keep(followed)

    def begin(self, batch: Batch) -> None:
        """Let the store say what the steps leave out. Without a line they are not numbered any more: no replica follows
        this state."""
        bodies = self.bodies or not self.line
        if bodies != self._had_bodies:
            self._had_bodies = bodies
            if bodies:
                batch.delete(Family.META, LEFT_OUT)
            else:
                batch.put(Family.META, LEFT_OUT, _NAMES)
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
        written, bodies = transaction.written, [(body.digest, body.data) for body in transaction.bodies]
        if not self.bodies:
            written, bodies = [each for each in written if kind_of(each.file) not in OF_BODIES], []
        self._kept.add(self.line, Step(transaction.batch.encode(), written, bodies))

    # -- readers -----------------------------------------------------------------------------------------------

    def keep(self) -> None:
        """Keep steps from now on. Nothing changes if they are kept already."""
        if self._kept is None and self.line:
            self._begin_to_keep(KeptSteps(self.mark, self._most))

    def _begin_to_keep(self, kept: KeptSteps) -> None:
        self._kept, kept.room = kept, self._room
        self._room.add(kept)

    def drop(self) -> None:
        """Keep no steps any more: every replica begins again with a copy."""
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
        """All replicas have the steps up to that one."""
        if self._kept is not None:
            self._kept.forget(mark)

    def commits(self, mark: Mark) -> int:
        """How many transactions of this opening the state has; -1 for one that may lack some of former openings."""
        if mark.line == self.line:
            return mark.number - self._begun.number
        return 0 if mark == self._begun else -1


def leaves_out(store: Reader) -> bool:
    """Whether the steps that the store has, and the copy before them, left out what was fetched. Raises OSError."""
    return store.get(Family.META, LEFT_OUT) is not None


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
