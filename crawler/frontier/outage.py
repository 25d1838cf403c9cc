"""Tells an outage of our own line from hosts that fail. Pure: hosts, addresses and times in, a verdict out.

A host that fails says nothing by itself. Two things say that the fault is ours:

    many hosts       ``HOSTS`` or more hosts, at different addresses as far as these are known, have failed since the
                     last answer of any host, and each had answered before
    this machine     it knows no way to the host: no route, no name server

One answer to a request that began after a failure shows that the line worked then: that failure is its host's. A host
that was blamed for a failure is no witness again before it has answered. So a few dead hosts among many never make an
outage, nor do any number of hosts that have never answered.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

HOSTS = 8  # hosts that must have failed
GOOD_MOST = 1_024  # hosts that are remembered as good


class Failed(NamedTuple):
    """The last failure of a host since it answered. ``witness``: it had answered before. ``local``: this machine knows
    no way to it."""

    at: float
    href: str
    address: str | None
    witness: bool
    local: bool


class OutageJudge:
    """What the last answers and failures of hosts say of our line. Times are seconds since 1970."""

    def __init__(self) -> None:
        self._good: OrderedDict[str, str] = OrderedDict()  # host -> an href of it; the latest answer is last
        self._failed: dict[str, Failed] = {}
        self.answers = 0

    # -- what happens ------------------------------------------------------------------------------------------

    def answered(self, host: str, href: str, began: float) -> bool:
        """A host answered a request that began at that time. Returns whether any failures are their hosts' now."""
        good = self._good
        good[host] = href
        good.move_to_end(host)
        if len(good) > GOOD_MOST:
            good.popitem(last=False)
        self.answers += 1
        if not self._failed:
            return False  # nearly always
        settled = [name for name, failed in self._failed.items() if failed.at <= began]
        for name in settled:
            if name == host:
                del self._failed[name]
            else:
                self.blame(name)
        return bool(settled)

    def failed(self, host: str, failed: Failed) -> bool:
        """A host gave no HTTP response. Returns whether it is a witness; without a mark, it may have answered in this
        run."""
        witness = failed.witness or host in self._good
        self._failed[host] = failed._replace(witness=witness)
        return witness

    def blame(self, host: str) -> None:
        """The failure was the host's own."""
        if self._failed.pop(host, None) is not None:
            self._good.pop(host, None)

    def forget_failures(self) -> None:
        """The failures so far were those of our line."""
        self._failed.clear()

    # -- what it means -----------------------------------------------------------------------------------------

    @property
    def in_doubt(self) -> bool:
        """Whether our own network may be down."""
        return self.many or self.local

    @property
    def many(self) -> bool:
        """Whether so many hosts failed that it cannot be their fault."""
        if len(self._failed) < HOSTS:
            return False
        return len({failed.address or host for host, failed in self._failed.items() if failed.witness}) >= HOSTS

    @property
    def local(self) -> bool:
        """Whether this machine knew no way to a host."""
        return any(failed.local for failed in self._failed.values())

    @property
    def first(self) -> float | None:
        """When the first of these failures was noticed."""
        return min((failed.at for failed in self._failed.values()), default=None)

    def untried(self) -> Iterator[str]:
        """An href of each good host that has not failed; the host that answered last is first."""
        return (href for host, href in reversed(self._good.items()) if host not in self._failed)

    def targets(self, most: int) -> list[str]:
        """Hrefs of the hosts that are the likeliest to answer again, at most ``most`` of them."""
        untried = list(islice(self.untried(), most // 2))
        failed = sorted(self._failed.values(), key=lambda each: not each.witness)
        return [*untried, *(each.href for each in failed[: most - len(untried)])]
