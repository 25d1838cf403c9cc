"""The hosts in memory: a bounded working set of the hosts in the store.

    busy      leased: never evicted
    waiting   on the heap. Above the limit, compare the host placed last with the one that has been there longest, and
              evict the one that is not in a session, or else the one that is ready later. The hosts that stay are thus
              those that are next, and a host that is held for an hour does not keep others out of memory
    resting   on no heap: in a line at the gate, or paused. The last to arrive is evicted first, because the one that
              has waited longest is called next
    idle      nothing queued; the least recently used is evicted first

An evicted host still has its ticket on the heap or its name in the line, and its record in the store. It is restored
when its ticket comes up, when it is called, or when a URL of it is admitted.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator

from crawler.frontier.host import Host
from crawler.frontier.limits import MemoryLimits
from crawler.frontier.states import QUEUED


class WorkingSet:
    """The hosts in memory, by name."""

    def __init__(self, put_away: Callable[[Host], None], limits: MemoryLimits) -> None:
        """``put_away`` is called with each host that is evicted."""
        self._put_away = put_away
        self._limits = limits
        self._busy: dict[str, Host] = {}
        self._waiting: OrderedDict[str, Host] = OrderedDict()
        self._resting: OrderedDict[str, Host] = OrderedDict()
        self._idle: OrderedDict[str, Host] = OrderedDict()

    def get(self, name: str) -> Host | None:
        """Return the host if it is in memory."""
        return self._waiting.get(name) or self._busy.get(name) or self._idle.get(name) or self._resting.get(name)

    def place(self, host: Host) -> None:
        """Put a new or changed host into the part where it belongs."""
        name = host.name
        kept = self._kept(host)
        if host.kept is not kept:
            if host.kept is not None:
                del host.kept[name]
            kept[name] = host
            host.kept = kept
        elif kept is self._idle:
            self._idle.move_to_end(name)

    def _kept(self, host: Host) -> dict[str, Host]:
        if host.leased:
            return self._busy
        if host.state & QUEUED:
            return self._waiting
        return self._resting if host.queue.size else self._idle

    def trim(self) -> None:
        """Evict surplus hosts.

        Every batch with a change of a host must have been written: an evicted host is read again from the store.
        """
        while len(self._waiting) > self._limits.waiting:
            longest, last = next(iter(self._waiting.values())), next(reversed(self._waiting.values()))
            later = last.ready >= longest.ready
            if bool(last.session_until) is not bool(longest.session_until):
                later = not last.session_until
            self._drop(self._waiting.popitem(last=later)[1])
        self.trim_resting()
        while len(self._idle) > self._limits.idle:
            self._drop(self._idle.popitem(last=False)[1])

    def trim_resting(self) -> None:
        """Evict only surplus resting hosts."""
        while len(self._resting) > self._limits.resting:
            self._drop(self._resting.popitem()[1])

    def _drop(self, host: Host) -> None:
        host.kept = None
        self._put_away(host)

    def __iter__(self) -> Iterator[Host]:
        for kept in (self._busy, self._waiting, self._resting, self._idle):
            yield from kept.values()
