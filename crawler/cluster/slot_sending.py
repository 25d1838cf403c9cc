"""What the owner of a partition knows of one of its replicas, and what is on the way to it."""

from __future__ import annotations

from collections import deque

from msgspec import Struct

from crawler.base.carrier.verbs import START as BEGINNING
from crawler.base.carrier.verbs import Position
from crawler.job.partition.replica_values import Being, ReplicaState
from crawler.job.replica.step_codec import START, Mark

AGAIN = 2.0  # seconds without progress after which steps are sent again
SILENT = 10.0  # seconds after which a replica that says nothing counts as gone
LATE = 30.0  # seconds after which a replica that lacks a step keeps pace no more: others wait for what it has
CAUGHT_UP = 5.0  # a replica that gets in so many seconds to where the log ended then keeps pace
COPY_AGAIN = (5.0, 60.0)  # seconds after a copy that broke off, at first and at most
_ENDS = 1_024  # of the log that are kept


class CopyOnItsWay(Struct, frozen=True):
    """A copy on its way, by its number. The steps beside it are those after the state that it ``follows``."""

    number: int
    follows: Mark


class SlotSending:
    """The replica in one slot, whose home is ``home``. Times are by one clock."""

    def __init__(self, slot: int, home: str, now: float, *, in_step: bool = False) -> None:
        self.slot = slot
        self.home = home
        self.heard: ReplicaState | None = None
        self.head: Position = BEGINNING  # of its stream, when steps were last sent again
        self.copy: CopyOnItsWay | None = None  # the copy that is being sent
        self.copy_at = now  # when the next one may begin
        self.in_step = in_step  # what counts as durable is what it has too
        self._heard_at = now
        self._moved_at = now
        self._sent: Mark | None = None  # steps are sent up to there
        self._flying: deque[tuple[Mark, int]] = deque()
        self._behind: deque[tuple[int, float]] = deque()  # ends of the log, and when they were
        self._pause = COPY_AGAIN[0]

    def hear(self, said: ReplicaState, now: float) -> None:
        """What the replica says of itself; it may be old."""
        before = self.heard
        if said.home != self.home or said.slot != self.slot:
            return
        if before is not None and (said.epoch, said.beats) <= (before.epoch, before.beats):
            return
        self._heard_at = now
        if before is None or mark_of(before) != mark_of(said) or before.state != said.state:
            self._moved_at = now
        if before is not None and before.epoch != said.epoch:
            self.rewind()  # who begins to follow leaves what was sent before
        self.heard = said
        number = said.number
        while self._flying and self._flying[0][0].number <= number:
            self._flying.popleft()
        while self._behind and self._behind[0][0] <= number:
            self._behind.popleft()

    def is_silent(self, now: float) -> bool:
        """Whether nothing was heard of it for long."""
        return now >= self._heard_at + SILENT

    @property
    def mark(self) -> Mark:
        """The last step that it has."""
        return START if self.heard is None else mark_of(self.heard)

    @property
    def safe(self) -> Mark:
        """The last step that is safe on its disk."""
        return START if self.heard is None else Mark(self.heard.safe_line, self.heard.safe_number)

    @property
    def is_whole(self) -> bool:
        """Whether it is a replica of some state."""
        return self.heard is not None and self.heard.state == Being.WHOLE

    @property
    def is_copying(self) -> bool:
        """Whether the copy that is sent comes in there."""
        heard, copy = self.heard, self.copy
        return heard is not None and copy is not None and heard.state == Being.COPYING and heard.copy == copy.number

    # -- steps on their way ------------------------------------------------------------------------------------

    @property
    def in_flight(self) -> int:
        """Bytes of steps that are on their way."""
        return sum(size for _, size in self._flying)

    def next_after(self, begin: Mark) -> Mark:
        """The state after which steps are to be sent; ``begin`` if none were."""
        if self._sent is None or self._sent.number < begin.number:
            self._sent = begin
            self._flying.clear()
        return self._sent

    def is_stuck(self, now: float) -> bool:
        """Whether steps are on their way for long."""
        return bool(self._flying) and now >= self._moved_at + AGAIN

    def again(self, now: float) -> None:
        """Look for progress anew."""
        self._moved_at = now

    def rewind(self) -> None:
        """Send again what is on its way."""
        self._sent = None
        self._flying.clear()

    def sends(self, reaches: Mark, size: int, now: float) -> None:
        """Steps were sent."""
        if not self._flying:
            self._moved_at = now
        self._sent = reaches
        self._flying.append((reaches, size))

    # -- how far it is behind ----------------------------------------------------------------------------------

    def look(self, end: Mark, now: float) -> None:
        """The log ends there now."""
        if end.number > self.mark.number and (not self._behind or self._behind[-1][0] < end.number):
            self._behind.append((end.number, now))
        if len(self._behind) > _ENDS:
            # Every other one goes, and what follows it counts as old: a replica may be behind for days.
            ends = list(self._behind)
            thinned = [(later[0], earlier[1]) for earlier, later in zip(ends[::2], ends[1::2], strict=False)]
            self._behind = deque(thinned if len(ends) % 2 == 0 else [*thinned, ends[-1]])

    def behind(self, now: float) -> float:
        """For how many seconds the log has had steps that the replica does not have."""
        return now - self._behind[0][1] if self._behind else 0.0

    def broke_off(self, now: float) -> None:
        """A copy came to nothing; the next one waits a while."""
        self.copy, self.copy_at = None, now + self._pause
        self._pause = min(COPY_AGAIN[1], 2 * self._pause)

    def copied(self) -> None:
        """A copy came in."""
        self.copy, self._pause = None, COPY_AGAIN[0]


def mark_of(said: ReplicaState) -> Mark:
    """The last step of which it speaks."""
    return Mark(said.line, said.number)
