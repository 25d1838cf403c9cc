"""The life of one replica in this process. Read top to bottom:

    claimed    one process follows in a slot at a time
    opened     if the home has a directory of this partition from before: its store says which step it holds
    following  what the owner sends is written, beside the event loop, in order; steps that do not follow what is there
               are left, and the owner sends them again
    copied     if the owner does not have the steps after ours: the copy is made beside the old directory, steps wait in
               a spool meanwhile, and both together take its place
    renewed    now and then it gets a generation, so that it can become the partition soon, however long it has followed
    told       the owner learns what is written and what is safe on the disk, at once when it changes and each second
    closed     synced; the claim is freed

A disk that is full makes a replica wait. One that is damaged in any other way is copied anew: it says that it has
nothing, so its owner relies on it no more, and sends a copy.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from crawler.base.carrier.verbs import START, CarrierError, Entry, Position, StaleEpochError
from crawler.base.disk import FULL, no_room
from crawler.base.settings.parts import Settings
from crawler.cluster.member_options import Crawl, MemberOptions
from crawler.cluster.ownership import Ownership, name_of
from crawler.cluster.reach import Reach
from crawler.cluster.replica_directory import ReplicaDirectory
from crawler.engine.durability import REST, first_part
from crawler.job.directory import STORE, JobError
from crawler.job.kept_steps import KeptSteps
from crawler.job.partition.link_batch_codec import LinkBatchCodec, Note
from crawler.job.partition.notes import encode_note
from crawler.job.partition.replica_values import STATE, Being, ReplicaState, encode_value, replica_name
from crawler.job.replica.replica_codec import ReplicaCodec
from crawler.job.replica.step_codec import Mark

TOLD = 1.0  # seconds between two times that the state is told while nothing changes
GATHER = 0.1  # seconds between two notes
SYNCED = 5.0  # seconds between two syncs while steps come ...
SYNCED_FIRST, QUIET = 1.0, 0.5  # ... and at least, when none has come for so long
AGAIN = 5.0  # seconds until a disk that was full is tried again
_LINES = 256


class Unfit(Struct, frozen=True):
    """A replica that could not be opened as the partition, and why."""

    stamp: tuple[int, int]
    fault: str


def stamp(directory: Path) -> tuple[int, int]:
    """What a copy, or a repair, of the directory has another of."""
    try:
        return directory.stat().st_ino, (directory / STORE).stat().st_ino
    except OSError:
        return 0, 0


class ReplicaPlace(Struct):
    """What the replicas of one process share. ``settings()`` are those of a run that begins now. ``handed_over`` is
    told that the owner of a partition has given it to this home, and that all its steps are written here. ``unfit``:
    replicas that nobody follows with before they are copied anew."""

    crawl: Crawl
    options: MemberOptions
    reach: Reach
    ownership: Ownership
    codec: ReplicaCodec
    notes: LinkBatchCodec
    settings: Callable[[], Settings]
    handed_over: Callable[[int, Mark], None] = lambda number, mark: None
    told: set[str] = field(default_factory=set)  # lines that are said once
    # One replica at a time loads its seen-set.
    renewing: asyncio.Lock = field(default_factory=asyncio.Lock)
    unfit: dict[int, Unfit] = field(default_factory=dict)

    def fault(self, number: int) -> str:
        """Why the replica that is there now cannot become the partition, as far as that was looked at."""
        unfit = self.unfit.get(number)
        return "" if unfit is None or unfit.stamp != stamp(self.directory(number)) else unfit.fault

    def distrust(self, number: int, fault: str) -> None:
        """The replica that is there cannot become the partition."""
        self.unfit[number] = Unfit(stamp(self.directory(number)), fault)

    def say(self, line: str) -> None:
        """Say a line to the user, once."""
        if line not in self.told and len(self.told) < _LINES:
            self.told.add(line)
            self.options.notice(line)

    def directory(self, number: int) -> Path:
        """Where the replica of a partition is."""
        return self.crawl.directory / "replicas" / f"{number:02d}"


class ReplicaLife:
    """The life of the replica of partition ``number`` in that slot."""

    def __init__(self, number: int, slot: int, place: ReplicaPlace) -> None:
        self.slot = slot
        self.name = replica_name(number, slot)
        self.read_to: Position = START
        self.given = 0.0  # when something came last, by the event loop
        self.replica = ReplicaDirectory(
            place.directory(number),
            number,
            place.options.platform.of_partition(number, place.crawl.partitions),
            place.codec,
        )
        self._number = number
        self._place = place
        self._entries: Sequence[Entry] = ()
        self._news = asyncio.Event()  # entries came, or it is to stop
        self._changed = asyncio.Event()
        self._is_stopping = False
        self.is_free = asyncio.Event()  # whether it takes more entries
        self.followed: KeptSteps | None = None  # the last steps of a replica that is closed

    @property
    def mark(self) -> Mark | None:
        """The last step that is written, if the replica is whole."""
        return self.replica.mark if self.replica.being is Being.WHOLE else None

    def stop(self) -> None:
        """Close it in order."""
        self._is_stopping = True
        self._news.set()

    def give(self, entries: Sequence[Entry]) -> None:
        """What came for it. It is free then."""
        self.read_to = entries[-1].position
        self._entries = entries
        self.is_free.clear()
        self._news.set()
        self.given = asyncio.get_running_loop().time()

    async def live(self) -> None:
        """Follow until it is stopped, or another process has the claim."""
        place = self._place
        try:
            if await place.ownership.claim(self.name, 0) is None:
                return
            await self._skip()
        except CarrierError:
            await place.ownership.free(self.name)
            return
        try:
            open_it = partial(self.replica.open, place.settings().output, place.fault(self._number))
            if fault := await place.options.beside(open_it):
                place.distrust(self._number, fault)
            await self._follow()
        except (JobError, OSError) as error:  # the crawl goes on without it, and it is tried again
            place.say(f"the replica of partition {self._number} cannot be opened here: {error}")
        finally:
            self.is_free.clear()
            self.followed = await place.options.beside(self.replica.close)
            await place.ownership.free(self.name)

    async def _skip(self) -> None:
        """Leave what came for whoever followed here before: a copy of then would take the place of what is here now.
        What is missing is sent again. Raises CarrierError."""
        carrier, call = self._place.reach.carrier, self._place.reach.call
        (self.read_to,) = await call(carrier.last([self.name]))
        if self.read_to != START:
            await call(carrier.trim(self.name, self.read_to))

    async def _follow(self) -> None:
        telling, renewing = asyncio.ensure_future(self._tell()), asyncio.ensure_future(self._renew())
        self.is_free.set()
        try:
            loop = asyncio.get_running_loop()
            synced, synced_given = loop.time(), self.given
            while not (self._is_stopping or telling.done() or renewing.done()):
                # Where nothing comes, what is there is made safe soon: somebody may wait for that to hand over.
                sync_at = min(synced + SYNCED, max(self.given + QUIET, synced + SYNCED_FIRST))
                if self.replica.is_left and self.given != synced_given:
                    sync_at = self.given  # nothing more is to come
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(max(0.0, sync_at - loop.time())):
                        await self._news.wait()
                self._news.clear()
                if self._entries:
                    await self._take()
                if loop.time() >= sync_at:
                    given = self.given
                    await self._sync()
                    synced, synced_given = loop.time(), given
            await self._sync()
        finally:
            for task in (telling, renewing):
                task.cancel()
            await asyncio.wait({telling, renewing})
            for task in (telling, renewing):
                if not task.cancelled():
                    task.result()

    async def _take(self) -> None:
        """Write what came, and let the carrier forget it."""
        place, entries = self._place, self._entries
        try:
            handed = await place.options.beside(partial(self.replica.take, [each.data for each in entries]))
        except OSError as error:
            if error.errno not in FULL:
                raise
            place.say(f"the replica of partition {self._number} waits for space: {no_room(error)}")
            await asyncio.sleep(AGAIN)
            self._news.set()
            return
        self._notice()
        self._entries = ()
        self._changed.set()
        with contextlib.suppress(CarrierError):  # said; it is trimmed with what comes next
            await place.reach.call(place.reach.carrier.trim(self.name, entries[-1].position))
        if handed is not None:
            place.handed_over(self._number, handed)
        self.is_free.set()

    async def _sync(self) -> None:
        try:
            await self._place.options.beside(self.replica.sync)
        except OSError as error:
            if error.errno not in FULL:
                raise
        self._notice()
        self._changed.set()

    async def _renew(self) -> None:
        """Write generations until cancelled, as often as the partition does."""
        place = self._place
        interval = place.settings().durability.checkpoint_interval
        pause = interval * first_part((self._number, place.crawl.partitions))
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(pause)
            async with place.renewing:
                began = loop.time()
                try:
                    await place.options.beside(partial(self.replica.checkpoint, place.options.clock()))
                except OSError as error:
                    if error.errno not in FULL:
                        raise
            self._notice()
            pause = max(interval, REST * (loop.time() - began))

    def _notice(self) -> None:
        said = self.replica.said  # a thread may add to it
        while said:
            self._place.say(f"the replica of partition {self._number}: {said.pop(0)}")

    # -- what is told ------------------------------------------------------------------------------------------

    async def _tell(self) -> None:
        """Tell the owner what is there, until another process has the claim."""
        told: ReplicaState | None = None
        beats, put_at, loop = 0, -TOLD, asyncio.get_running_loop()
        while (epoch := self._place.ownership.epoch(self.name)) is not None:
            beats += 1
            state = self._state(epoch, beats)
            try:
                if told is None or replace(told, beats=beats) != state:
                    await self._say(state)
                    told = state
                if loop.time() >= put_at + TOLD:
                    await self._put(state)
                    put_at = loop.time()
            except CarrierError:
                await asyncio.sleep(TOLD)
            except StaleEpochError:
                break
            await asyncio.sleep(GATHER)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, put_at + TOLD - loop.time())):
                    await self._changed.wait()
            self._changed.clear()
        self._news.set()

    def _state(self, epoch: int, beats: int) -> ReplicaState:
        replica = self.replica
        mark, safe = replica.mark, replica.safe
        home = self._place.crawl.home
        return ReplicaState(self.slot, epoch, home, beats, replica.being, *mark, *safe, replica.copy, replica.pieces)

    async def _say(self, state: ReplicaState) -> None:
        """Raises CarrierError, StaleEpochError."""
        note = Note(self._number, self._number, state.epoch, 0, encode_note(state))
        carrier, entry = self._place.reach.carrier, self._place.notes.encode(note)
        await self._place.reach.call(carrier.append(name_of(self._number), self.name, state.epoch, [entry]))

    async def _put(self, state: ReplicaState) -> None:
        await self._place.reach.call(self._place.reach.carrier.put(self.name, {STATE: encode_value(state)}))
