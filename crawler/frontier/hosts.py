"""The hosts in memory: a bounded working set of those that the store has records of.

    busy      leased, or kept back by something that only memory knows: never put away
    waiting   on the heap. When there are too many, one goes that is ready late: of the one that was put there last and
              the one that has been there longest the one that is ready later. Where more hosts take turns than there is
              room for, those that stay are the next, and hosts that are held for an hour do not keep others out
    idle      nothing queued; the least recently used go first

A host that is put away leaves its ticket on the heap and its record in the store, and is taken up from there: when its
ticket comes up, or when a URL is admitted to it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator

from crawler.frontier.host import Host

WAITING_MAX = 131_072  # hosts on the heap that are in memory
IDLE_MAX = 10_000  # hosts with nothing queued that are in memory


class WorkingSet:
    """Hosts by name."""

    def __init__(self, put_away: Callable[[Host], None]) -> None:
        """``put_away`` is called with each host that leaves memory."""
        self._put_away = put_away
        self._busy: dict[str, Host] = {}
        self._waiting: OrderedDict[str, Host] = OrderedDict()
        self._idle: OrderedDict[str, Host] = OrderedDict()

    def get(self, name: str) -> Host | None:
        """The host, if it is in memory."""
        return self._waiting.get(name) or self._busy.get(name) or self._idle.get(name)

    def place(self, host: Host) -> None:
        """The host is new in memory, or has changed: keep it where it belongs now."""
        name = host.name
        if host.on_heap and not host.leased:
            if name not in self._waiting:
                self._busy.pop(name, None)
                self._idle.pop(name, None)
                self._waiting[name] = host
        elif host.idle:
            self._busy.pop(name, None)
            self._waiting.pop(name, None)
            self._idle[name] = host
            self._idle.move_to_end(name)
        elif name not in self._busy:
            self._waiting.pop(name, None)
            self._idle.pop(name, None)
            self._busy[name] = host

    def trim(self) -> None:
        """Put away what is too much: only where no batch with a change of a host is unwritten, for a host that was put
        away is read again from the store."""
        while len(self._waiting) > WAITING_MAX:
            longest, last = next(iter(self._waiting.values())), next(reversed(self._waiting.values()))
            self._put_away(self._waiting.popitem(last=last.ready >= longest.ready)[1])
        while len(self._idle) > IDLE_MAX:
            self._put_away(self._idle.popitem(last=False)[1])

    def __iter__(self) -> Iterator[Host]:
        for kept in (self._busy, self._waiting, self._idle):
            yield from kept.values()
