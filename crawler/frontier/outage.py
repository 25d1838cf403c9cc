"""Distinguishes an outage of our own network from failing hosts.

Pure: it takes hosts, addresses and times, and returns a verdict. A single failing host proves nothing. Two observations
point to our own network:

    many hosts       ``HOSTS`` or more hosts, at different addresses as far as these are known, have failed since the
                     last response of any host, and each had responded before
    this machine     it has no route to the host, or no name server

One response to a request that started after a failure shows that the network worked then: the host is to blame for that
failure. A host that was blamed does not count as a witness again before it has responded. A few dead hosts among many
therefore never count as an outage, nor does any number of hosts that have never responded.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

HOSTS = 8  # number of failed hosts required for an outage
GOOD_MOST = 1_024  # number of responding hosts that are remembered


class Failed(NamedTuple):
    """The latest failure of a host since its last response.

    ``witness`` is True if it had responded before. ``local`` is True if this machine has no route to it.
    """

    at: float
    href: str
    address: str | None
    witness: bool
    local: bool


class OutageJudge:
    """Judges our network by the latest responses and failures of hosts. Times are seconds since 1970."""

    def __init__(self) -> None:
        self._good: OrderedDict[str, str] = OrderedDict()  # host -> one of its hrefs; ordered by last response
        self._failed: dict[str, Failed] = {}
        self.answers = 0

    # -- events ------------------------------------------------------------------------------------------------

    def answered(self, host: str, href: str, began: float) -> bool:
        """Record a host's response to a request that started at ``began``.

        Returns True if this shows that any hosts are to blame for their failures, or have recovered.
        """
        good = self._good
        good[host] = href
        good.move_to_end(host)
        if len(good) > GOOD_MOST:
            good.popitem(last=False)
        self.answers += 1
        if not self._failed:
            return False  # the usual case
        settled = [name for name, failed in self._failed.items() if failed.at <= began]
        for name in settled:
            if name == host:
                del self._failed[name]
            else:
                self.blame(name)
        return bool(settled)

    def failed(self, host: str, failed: Failed) -> bool:
        """Record that a host gave no HTTP response.

        Returns True if it counts as a witness: it has responded in this run, or is already marked as one.
        """
        witness = failed.witness or host in self._good
        self._failed[host] = failed._replace(witness=witness)
        return witness

    def blame(self, host: str) -> None:
        """Blame the host for its failure."""
        if self._failed.pop(host, None) is not None:
            self._good.pop(host, None)

    def forget_failures(self) -> None:
        """Discard all failures, because our network caused them."""
        self._failed.clear()

    # -- verdict -----------------------------------------------------------------------------------------------

    @property
    def in_doubt(self) -> bool:
        """True if our own network may be down."""
        return self.many or self.local

    @property
    def many(self) -> bool:
        """True if so many hosts have failed that the hosts cannot be the cause."""
        if len(self._failed) < HOSTS:
            return False
        return len({failed.address or host for host, failed in self._failed.items() if failed.witness}) >= HOSTS

    @property
    def local(self) -> bool:
        """True if this machine had no route to a host."""
        return any(failed.local for failed in self._failed.values())

    @property
    def first(self) -> float | None:
        """Time of the first failure that is not attributed yet, or None."""
        return min((failed.at for failed in self._failed.values()), default=None)

    def untried(self) -> Iterator[str]:
        """Return an href of each responding host that has not failed, the latest response first."""
        return (href for host, href in reversed(self._good.items()) if host not in self._failed)

    def targets(self, most: int) -> list[str]:
        """Return at most ``most`` hrefs of the hosts that are most likely to respond again."""
        untried = list(islice(self.untried(), most // 2))
        failed = sorted(self._failed.values(), key=lambda each: not each.witness)
        return [*untried, *(each.href for each in failed[: most - len(untried)])]
