"""The last steps of a job, for whoever lacks them."""

from __future__ import annotations

from weakref import WeakSet

from crawler.job.steps.step_codec import Chunk, Mark, Step

CHUNK = 256 * 1024  # bytes of steps in a chunk, unless one step alone has more
MOST_STEPS = 4_096  # in a chunk
ROOM = 128 * 2**20  # bytes that all logs of a process keep together, before one beyond its own bound drops steps


class StepRoom:
    """What the logs of one process keep together. A page may be as large as all that one log is to keep, and several
    large ones may come at once: then a log goes beyond its own bound as long as the others leave room."""

    def __init__(self, most: int = ROOM) -> None:
        self._most = most
        self._all = WeakSet[KeptSteps]()

    def add(self, kept: KeptSteps) -> None:
        """These steps count from now on, until nobody keeps them."""
        self._all.add(kept)

    @property
    def is_full(self) -> bool:
        """Whether there is none left."""
        return sum(kept.size for kept in self._all) > self._most


class KeptSteps:
    """Steps of one or several lines, in order and without holes: those after the state ``before``, up to ``mark``.
    Beyond ``most`` bytes the oldest are dropped, if there is no ``room`` for more; but the last one stays, whatever its
    size. ``size``: the bytes that are kept."""

    def __init__(self, before: Mark, most: int, room: StepRoom | None = None) -> None:
        self.before = before
        self.mark = before
        self.most = most
        self.room = room
        self.size = 0
        self._steps: dict[int, tuple[int, Step]] = {}  # by number: the line, and the step

    def add(self, line: int, step: Step) -> None:
        """The next one."""
        self.mark = Mark(line, self.mark.number + 1)
        self._steps[self.mark.number] = line, step
        self.size += step.size
        while self.size > self.most and self.before.number + 1 < self.mark.number:
            if self.room is not None and not self.room.is_full:
                break
            self._drop_first()

    def holds(self, mark: Mark) -> bool:
        """Whether all steps after that state are kept."""
        return mark == self.before or (mark.number in self._steps and self._steps[mark.number][0] == mark.line)

    def after(self, mark: Mark, partition: int, most: int) -> Chunk | None:
        """The next steps after that state, of one line, in a chunk of at most ``most`` bytes or of one step; None if
        there is none. Raises ValueError if they are not kept."""
        if not self.holds(mark):
            raise ValueError(f"the steps after {mark} are not kept")
        taken, size, line = list[Step](), 0, 0
        while len(taken) < MOST_STEPS and (found := self._steps.get(mark.number + 1 + len(taken))) is not None:
            of, step = found
            size += step.size
            if taken and (of != line or size > most):
                break
            line = of
            taken.append(step)
        return Chunk(partition, line, mark.line, mark.number + 1, taken) if taken else None

    def forget(self, mark: Mark) -> None:
        """Nobody lacks the steps up to that one."""
        if self.holds(mark):
            while self.before.number < mark.number:
                self._drop_first()

    def _drop_first(self) -> None:
        number = self.before.number + 1
        line, step = self._steps.pop(number)
        self.size -= step.size
        self.before = Mark(line, number)
