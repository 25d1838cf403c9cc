"""Finds out that the directory of a partition is an older copy of itself, before it is opened.

A backup that was put back, a machine that was set back to a snapshot, or a disk that lost with its power what it had
called durable: such a directory lacks links that others have forgotten, because this partition had acknowledged them.
Its replica has them: nothing was ever acknowledged that one in step did not have. So if a replica has more steps than
the directory, the partition goes on there, and the directory becomes a replica. After a loss of power the replica may
also be ahead by what the owner had not synced; whoever knows more goes on then too.

What a replica said of itself may be old. So it must say it again meanwhile, and its process must stay. If it does not
for a while, the partition is opened as it is, and the user is told what it may lack.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct, field

from crawler.base.carrier.verbs import CarrierError
from crawler.base.figures import counted
from crawler.base.kv import Family
from crawler.cluster.deserted import PATIENCE
from crawler.cluster.homes import Homes
from crawler.cluster.member_options import Crawl, MemberOptions
from crawler.cluster.ownership import Ownership, name_of
from crawler.cluster.reach import Reach
from crawler.job.directory import STORE, holds_job
from crawler.job.home_register import Home
from crawler.job.partition.replica_homes import Following
from crawler.job.partition.replica_values import STATE, Being, ReplicaState, decode_replica_state, replica_name
from crawler.job.replica.seal import ChunkError
from crawler.job.replica.step_codec import Mark
from crawler.job.step_log import MARK


class _Doubt(Struct):
    """Since when a replica seems to be ahead, and when each home first said so: the epoch of its claim, and its
    beat."""

    since: float
    said: dict[str, tuple[int, int]] = field(default_factory=dict)


class OlderCopies:
    """The partitions whose homes are in the directory of one process, as their replicas know them."""

    def __init__(self, crawl: Crawl, options: MemberOptions, homes: Homes, ownership: Ownership, reach: Reach) -> None:
        self._crawl = crawl
        self._options = options
        self._homes = homes
        self._ownership = ownership
        self._reach = reach
        self._doubts: dict[int, _Doubt] = {}
        self._accepted: set[int] = set()

    def accept(self, number: int) -> None:
        """The replica here becomes the partition: it has all that was promised, also if another one is ahead of it."""
        self._accepted.add(number)

    async def is_newest(self, number: int) -> bool:
        """Whether the partition, whose claim is held and which is at home here, is to be opened from its directory now.
        If not, it may be at home elsewhere since. Raises OSError."""
        if not self._crawl.replicas or not holds_job(self._crawl.partition(number)):
            return True
        if number in self._accepted:
            self._accepted.discard(number)
            return True
        try:
            return await self._is_newest(number)
        except CarrierError:
            return False

    async def _is_newest(self, number: int) -> bool:
        whole = [each for each in await self._states(number) if each.state == Being.WHOLE]
        own = await self._options.beside(lambda: self._mark(number)) if whole else None
        if own is None:
            return True
        told = await self._homes.slots.read(number)
        ahead = [each for each in whole if _is_ahead(each, own, told)]
        if not ahead:
            self._doubts.pop(number, None)
            return True
        now, staying = self._options.boottime(), self._homes.seats.staying
        doubt = self._doubts.setdefault(number, _Doubt(now))
        anew = [each for each in ahead if doubt.said.setdefault(each.home, _said(each)) != _said(each)]
        able = [each for each in anew if each.home in staying]
        best = max(able, key=lambda each: each.number, default=None)
        if best is not None:
            await self._give(number, best, own, told)
            return False
        if now < doubt.since + PATIENCE:
            return False
        del self._doubts[number]
        self._options.notice(
            f"partition {number} resumes from its directory here, which is {_steps(ahead[0], own)} behind a replica "
            "that does not respond: what this machine had not synced is missing; if the directory is an older copy, "
            "links found since then are missing too"
        )
        return True

    async def _states(self, number: int) -> Sequence[ReplicaState]:
        """What other homes that follow the partition say of themselves."""
        names = [replica_name(number, slot) for slot in range(self._crawl.replicas + 1)]
        values = await self._reach.call(self._reach.carrier.get(names, STATE))
        said = [decode_replica_state(value) for value in values]
        return [each for each in said if each is not None and each.home != self._crawl.home]

    def _mark(self, number: int) -> Mark | None:
        """The last step that the directory has; None if it cannot be read: whoever opens it says why."""
        try:
            platform = self._options.platform.of_partition(number, self._crawl.partitions)
            store = platform.open_store(self._crawl.partition(number) / STORE)
            try:
                return Mark.decode(store.get(Family.META, MARK))
            finally:
                store.close()
        except (OSError, ChunkError):
            return None

    async def _give(self, number: int, to: ReplicaState, own: Mark, told: Following) -> None:
        """The partition is at home with that replica from now on. Raises CarrierError, OSError."""
        homes, name, home = self._homes, name_of(number), self._homes.known[number]
        floor = max(told.epoch, 0 if home is None else home.epoch)
        epoch = self._ownership.epoch(name)
        if epoch is not None and epoch <= floor:
            epoch = await self._ownership.claim(name, floor)
        if epoch is None:
            return
        await homes.slots.give_back(number, epoch, own)
        await homes.settle(number, Home(to.home, epoch))
        del self._doubts[number]
        self._options.notice(
            f"partition {number} goes on with its replica in {homes.seats.where(to.home)}, which has {_steps(to, own)} "
            f"more than {self._crawl.partition(number)}: that is an older copy, or lost with its power what was not "
            "synced"
        )


def _is_ahead(replica: ReplicaState, own: Mark, told: Following) -> bool:
    """Whether it has all that was promised, and more steps. Steps of one line follow each other; of different lines,
    one that is in step has what counts."""
    return replica.number > own.number and (replica.line == own.line or replica.home in told.in_step)


def _said(replica: ReplicaState) -> tuple[int, int]:
    return replica.epoch, replica.beats


def _steps(replica: ReplicaState, own: Mark) -> str:
    """How many more the replica has."""
    return counted(replica.number - own.number, "step")
