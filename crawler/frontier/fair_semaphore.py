"""A bound on how many hosts of some kind are in flight at once, with a place in the line for those that must wait.

    enter     in, or to the end of the line
    leave     out; the first of the line is *called*: a place is kept for it until it enters
    withdraw  out of the line, called or not

A host that was called may take its time (its gap may not be over): its place is kept. The line holds names, not hosts:
a host that waits there may leave memory.
"""

from __future__ import annotations


class FairSemaphore:
    """Lets at most ``slots`` hosts through at a time, each as often as it enters."""

    __slots__ = ("_called", "_line", "inside", "slots")

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self.inside = 0
        self._line: dict[str, None] = {}  # in the order they came
        self._called: set[str] = set()

    @property
    def unused(self) -> bool:
        """No host is in, called or in the line."""
        return not (self.inside or self._line or self._called)

    def __contains__(self, name: str) -> bool:
        """Whether the host is in the line, not called yet."""
        return name in self._line

    def admits(self, name: str) -> bool:
        """Whether the host would come in now."""
        return name in self._called or self.inside + len(self._called) < self.slots

    def enter(self, name: str) -> bool:
        """Come in, if there is a place; else wait in the line until called."""
        if not self.admits(name):
            self.wait(name)
            return False
        self._called.discard(name)
        self.inside += 1
        return True

    def wait(self, name: str) -> None:
        """Join the line; a host that is in it keeps its place."""
        self._line.setdefault(name)

    def step_back(self, name: str) -> None:
        """A host that entered goes out again, and its place is kept for it."""
        self.inside -= 1
        self._called.add(name)

    def leave(self) -> str | None:
        """A host goes out. Returns the host that is called in its place, if one waits."""
        self.inside -= 1
        return self._call()

    def withdraw(self, name: str) -> str | None:
        """The host does not wait any more. Returns the host that is called in its place, if any."""
        if name in self._line:
            del self._line[name]
            return None
        if name not in self._called:
            return None
        self._called.remove(name)
        return self._call()

    def _call(self) -> str | None:
        if not self._line or self.inside + len(self._called) >= self.slots:
            return None
        name = next(iter(self._line))
        del self._line[name]
        self._called.add(name)
        return name
