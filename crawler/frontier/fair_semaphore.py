"""A fair semaphore: limits how many hosts are in flight at once, and serves the others in order of arrival.

    enter     take a place, or join the end of the line
    leave     give the place back and *call* the first host of the line: a place is reserved for it until it enters
    withdraw  leave the line, or give up the reserved place

A called host need not enter at once, because its gap may not have passed; its place stays reserved. The line holds
names, not hosts, so that waiting hosts can be evicted from memory.
"""

from __future__ import annotations


class FairSemaphore:
    """Grants at most ``slots`` places. A host that enters twice takes two."""

    __slots__ = ("_called", "_line", "inside", "slots")

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self.inside = 0
        self._line: dict[str, None] = {}  # in order of arrival
        self._called: dict[str, None] = {}  # an empty set takes three times as much memory

    @property
    def unused(self) -> bool:
        """True if no host holds a place, has been called or waits in the line."""
        return not (self.inside or self._line or self._called)

    def __contains__(self, name: str) -> bool:
        """Return True if the host waits in the line and has not been called yet."""
        return name in self._line

    def admits(self, name: str) -> bool:
        """Return True if ``enter`` would succeed now."""
        return name in self._called or self.inside + len(self._called) < self.slots

    def enter(self, name: str) -> bool:
        """Take a place and return True, or join the line and return False."""
        if not self.admits(name):
            self.wait(name)
            return False
        self._called.pop(name, None)
        self.inside += 1
        return True

    def wait(self, name: str) -> None:
        """Join the line. A host that is already in it keeps its position."""
        self._line.setdefault(name)

    def step_back(self, name: str) -> None:
        """Undo ``enter``, keeping the place reserved for the host."""
        self.inside -= 1
        self._called[name] = None

    def leave(self) -> str | None:
        """Give a place back. Returns the host that is called to it, or None if the line is empty."""
        self.inside -= 1
        return self._call()

    def withdraw(self, name: str) -> str | None:
        """Leave the line, or give up a reserved place. Returns the host that is called to that place, or None."""
        if name in self._line:
            del self._line[name]
            return None
        if name not in self._called:
            return None
        del self._called[name]
        return self._call()

    def resize(self, slots: int) -> list[str]:
        """Change the number of places. Returns the hosts that are called to the new places."""
        self.slots = slots
        return list(iter(self._call, None))

    def _call(self) -> str | None:
        if not self._line or self.inside + len(self._called) >= self.slots:
            return None
        name = next(iter(self._line))
        del self._line[name]
        self._called[name] = None
        return name
