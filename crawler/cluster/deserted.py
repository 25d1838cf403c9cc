"""Partitions of a crawl that wait, because no worker runs in the directory in which they are: the user is told."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence

from crawler.base.figures import listed, noun
from crawler.cluster.homes import Homes
from crawler.cluster.member_options import MemberOptions
from crawler.cluster.ownership import HELD
from crawler.cluster.seats import Seated

PATIENCE = 2 * HELD  # seconds without a worker in a home: then it is said. One that is replaced is back sooner


class Deserted:
    """What the process ``name`` of a home says of them."""

    def __init__(
        self,
        home: str,
        name: str,
        options: MemberOptions,
        has_ended: Callable[[], Awaitable[bool]],
        homes: Homes,
    ) -> None:
        """``has_ended()``: whether the crawl has, and nobody has resumed it; it raises CarrierError."""
        self._home = home
        self._name = name
        self._options = options
        self._has_ended = has_ended
        self._homes = homes
        self._since: float | None = None
        self._has_said = False
        self.came_too_late = False  # the crawl has ended, and the owners of others have left with that

    async def look(self, homes: Sequence[str | None], alive: Mapping[str, Seated]) -> None:
        """Say once which partitions wait, or that the crawl has ended without this process. Of a home's processes that
        have a seat, one says it; those that are left out do not know of each other. ``homes``: those of the partitions.
        Raises CarrierError."""
        manned = {self._home, *(each.home for each in alive.values())}
        deserted = [number for number, home in enumerate(homes) if home is not None and home not in manned]
        if not deserted:
            self._since, self._has_said, self.came_too_late = None, False, False
            return
        now = self._options.boottime()
        self._since = now if self._since is None else self._since
        near = [name for name, each in alive.items() if each.home == self._home]
        if self._has_said or now < self._since + PATIENCE or self._name != min([*near, self._name]):
            return
        told, resumed = self._homes.slots.told, any(each.has_seeds for each in alive.values())
        have_ended = not resumed and all(number in told and told[number].ended for number in deserted)
        self.came_too_late = have_ended or (len(manned) == 1 and await self._has_ended())
        self._has_said = True
        where = {self._homes.seats.where(homes[number] or "") for number in deserted}
        self._options.notice(_ENDED if self.came_too_late else _waiting(deserted, where))


_ENDED = "the crawl has ended, and workers are missing: to resume it, start one with each of its directories"


def _waiting(numbers: Sequence[int], where: Collection[str]) -> str:
    """What is said of partitions that wait for workers, and ``where`` they are, as far as that is known."""
    one, several = (
        "partition {0} is waiting: no worker runs on {1}. Start one there (`crawler stats` with --engine and --crawl "
        "shows where it is); if that directory is gone for good, `crawler work` with `{2}` begins the partition again, "
        "from a replica in the directory of that worker if it has one, or else from incoming links",
        "partitions {0} are waiting: no worker runs on {1}. Start one there (`crawler stats` with --engine and --crawl "
        "shows where they are); if that directory is gone for good, `crawler work` with `{2}` begins them again, from "
        "replicas in the directory of that worker if it has some, or else from incoming links",
    )
    flags = " ".join(f"--forget-partition {number}" for number in numbers)
    return noun(len(numbers), one, several).format(listed(numbers), " or ".join(sorted(where)), flags)
