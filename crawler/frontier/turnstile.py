"""A bound on how many hosts of some kind are in flight at once, with a place in the line for those that must wait.

    enter     in, or to the end of the line
    leave     out; the first of the line is *called*: a place is kept for it until it enters
    withdraw  out of the line, called or not

A host that was called may take its time (its gap may not be over): nobody else takes its place meanwhile.
"""

from __future__ import annotations

from crawler.frontier.host import Host


class Turnstile:
    """Lets at most ``slots`` hosts through at a time, each as often as it enters."""

    __slots__ = ("_called", "_line", "inside", "slots")

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self.inside = 0
        self._line: dict[str, Host] = {}  # in the order they came
        self._called: dict[str, Host] = {}

    @property
    def unused(self) -> bool:
        """Nobody is in, called or in the line."""
        return not (self.inside or self._line or self._called)

    def admits(self, host: Host) -> bool:
        """Whether the host would come in now."""
        return host.name in self._called or self.inside + len(self._called) < self.slots

    def enter(self, host: Host) -> bool:
        """Come in, if there is a place; else wait in the line (``host.parked``) until called."""
        if not self.admits(host):
            self.wait(host)
            return False
        self._called.pop(host.name, None)
        self.inside += 1
        return True

    def wait(self, host: Host) -> None:
        """Stand in the line; a host that stands there keeps its place."""
        self._line.setdefault(host.name, host)
        host.parked = True

    def step_back(self, host: Host) -> None:
        """A host that entered goes out again, and its place is kept for it."""
        self.inside -= 1
        self._called[host.name] = host

    def leave(self) -> Host | None:
        """Somebody goes out; the host that is called for it, if one waits."""
        self.inside -= 1
        return self._call()

    def withdraw(self, host: Host) -> Host | None:
        """The host does not wait any more; the host that is called in its place, if any."""
        if self._line.pop(host.name, None) is not None:
            host.parked = False
            return None
        return self._call() if self._called.pop(host.name, None) is not None else None

    def _call(self) -> Host | None:
        if not self._line or self.inside + len(self._called) >= self.slots:
            return None
        host = self._line.pop(next(iter(self._line)))
        host.parked = False
        self._called[host.name] = host
        return host
