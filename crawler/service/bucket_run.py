"""Keeps the bucket of a run up with its job: the log every second, a snapshot every few minutes.

The store may be away: the crawl goes on, and its disk has what the bucket lacks. Steps are kept in memory for it, as
far as there is room; after that a snapshot takes their place.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import os
from collections.abc import Awaitable, Callable
from math import inf
from pathlib import Path

from crawler.base.clock import SteadyClock
from crawler.base.disk import FULL, DisplacedError, RealDisk, make_private_directory
from crawler.base.settings.parts import Settings
from crawler.job.bucket.address import check_apart, open_objects
from crawler.job.bucket.layout import Snapshot, newest_owner
from crawler.job.bucket.objects import BucketDown, BucketError
from crawler.job.bucket.ownership import Holding, own, read_here
from crawler.job.bucket.snapshots import Held, Snapshots
from crawler.job.identity import check_shape, shaping_of
from crawler.job.job import Job
from crawler.job.platform import Platform
from crawler.job.replica.step_codec import Chunk, Mark
from crawler.job.snapshot import COPYING, remove_tree

log = logging.getLogger("crawler")

_EVERY = 1.0  # seconds between two objects of the log
_QUIET = 5.0  # seconds, if no page was finished since
_CHUNK = 4 * 2**20  # bytes of steps in an object, unless one step alone has more
_STEPS, _SECONDS = 20_000, 300.0  # between two snapshots
_REST = 10.0  # seconds after a snapshot that could not be stored
_LOG, _SNAPSHOTS = "steps", "snapshots"
_LAST = 15.0  # seconds at the end of a run for a store that does not answer


class _ClosedError(DisplacedError):
    """Another process has taken the crawl over."""


async def hold_bucket(directory: Path, settings: Settings, clock: SteadyClock) -> Holding | None:
    """Become the owner of the crawl in its bucket, which is that of the directory if the settings name none; None if it
    lives in none. Raises what ``own`` raises, and FixedSettingError if the job there has other shaping settings."""
    here, address = read_here(directory), settings.crawl.store
    if address is None and here is None:
        return None
    address = here.address if address is None and here is not None else str(address)
    check_apart(directory, address)
    objects = open_objects(address)

    def check(job: Path) -> None:
        check_shape(job, shaping_of(settings))

    try:
        holding = await asyncio.to_thread(own, objects, directory, RealDisk(), clock(), check)
    except BucketDown as error:
        raise BucketError(f"{error}: run the same command when it does") from error
    if holding.was is not None:
        log.warning("the crawl in %s was at %s, and goes on here", objects.address, holding.was.place)
    if holding.behind:
        log.warning("%s had lost what %s has, and was restored", directory, objects.address)
    return holding


def platform_of(holding: Holding | None) -> Platform:
    """The platform of its job: with a log of steps if there is a bucket."""
    return Platform() if holding is None else Platform(line=int.from_bytes(os.urandom(8), "big") or 1)


class BucketRun:
    """The bucket of one run. ``mark``: the last step that it has."""

    def __init__(self, job: Job, holding: Holding, clock: Callable[[], float]) -> None:
        """Raises BucketError, BucketDown."""
        job.log.keep()
        self.mark = job.log.mark
        self._job = job
        self._holding = holding
        self._clock = clock
        self._snapshots = Snapshots(holding.objects, 0, holding.epoch)
        self._number = 0  # of the next object of the log
        self._waiting: tuple[Chunk, bytes] | None = None  # that the store may or may not have
        self._put_at = self._stored_at = clock()
        self._stored = 0  # the number of the step of the newest snapshot
        self._lacks: set[str] = set()  # what the store does not take now

    async def begin(self) -> None:
        """Store the first snapshot, before anything is asked for. Raises OSError, BucketError, BucketDown."""
        self._reached((await self._snapshot()).reaches)

    async def keep(self) -> None:
        """Keep the bucket up with the job until cancelled. If that is over, because another process has taken the crawl
        over or something is wrong here, the job can write no more: its next sync says why."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._keep_log())
                group.create_task(self._keep_snapshots())
        except* Exception as errors:
            error = errors.exceptions[0]
            # Nothing may go on as if the bucket had it: the next sync fails, and the run ends.
            self._job.writer.failed = error if isinstance(error, OSError) else OSError(f"the bucket: {error!r}")
            if not isinstance(error, OSError):
                raise

    async def end(self, *, whole: bool) -> None:
        """Store what is left, with ``whole`` as a snapshot. A store that does not answer gets some seconds; the next
        run stores the rest. Raises OSError."""
        if self._job.writer.failed is not None:
            return
        self._snapshots.pieces.is_over = False
        try:
            async with asyncio.timeout(_LAST):
                for pause in itertools.chain([0.0], itertools.repeat(_EVERY)):
                    await asyncio.sleep(pause)
                    if await self._try(self._ship(inf), _LOG):
                        break
                if whole or not self._job.log.holds(self.mark):
                    await self._try(self._snapshot(), _SNAPSHOTS)
        except TimeoutError:
            lacks = self._job.log.mark.number - self.mark.number
            log.error("the last %s steps are only in %s: run the same command", f"{lacks:,}", self._job.directory)

    # -- the log -----------------------------------------------------------------------------------------------

    async def _keep_log(self) -> None:
        while True:
            await asyncio.sleep(_EVERY)
            await self._try(self._ship(self._clock()), _LOG)

    async def _ship(self, now: float) -> None:
        """Put all steps that the bucket lacks at this moment. Raises _ClosedError, BucketError, BucketDown."""
        last, is_due = self._job.log.mark.number, now >= self._put_at + _QUIET
        while self._waiting is not None or (self.mark.number < last and self._next(is_due=is_due)):
            assert self._waiting is not None
            chunk, data = self._waiting
            data = data or await asyncio.to_thread(self._holding.log.encode, [chunk])
            self._waiting = chunk, data
            if not await asyncio.to_thread(self._holding.log.put, self._number, data):
                raise await self._closed()
            self._number, self._waiting, self._put_at = self._number + 1, None, self._clock()
            self._reached(chunk.reaches)

    def _next(self, *, is_due: bool) -> bool:
        """Whether there are steps to put; ``is_due``: also if no page was finished."""
        try:
            chunk = self._job.log.after(self.mark, 0, _CHUNK)
        except ValueError:
            return False  # they were dropped while the store was away: a snapshot follows
        if chunk is None or not (is_due or any(step.written for step in chunk.steps)):
            return False
        self._waiting = chunk, b""
        return True

    def _reached(self, mark: Mark) -> None:
        if mark.number > self.mark.number:
            self.mark = mark
            self._job.log.forget(mark)
        self._job.replicas_hold(self.mark)

    async def _closed(self) -> _ClosedError:
        objects = self._holding.objects
        where = ""
        with contextlib.suppress(BucketDown, BucketError):
            _, owner = await asyncio.to_thread(newest_owner, objects, 0)
            where = "" if owner is None else f" at {owner.place}"
        return _ClosedError(f"another process goes on with the crawl in {objects.address}{where}")

    # -- snapshots ---------------------------------------------------------------------------------------------

    async def _keep_snapshots(self) -> None:
        while True:
            await asyncio.sleep(_EVERY)
            steps = self._job.log.mark.number - self._stored
            is_due = steps >= _STEPS or (steps and self._clock() >= self._stored_at + _SECONDS)
            if (is_due or not self._job.log.holds(self.mark)) and not await self._try(self._snapshot(), _SNAPSHOTS):
                await asyncio.sleep(_REST)

    async def _snapshot(self) -> Snapshot:
        at = self._job.directory / COPYING / f"{self._holding.epoch:08}"
        held = Held(at, self._job.directory, self._holding.log.worker, self._number)
        began = self._clock()
        try:
            make_private_directory(at, parents=True)
            await self._job.hold_still(at)
            snapshot = await self._written(held, began)
        finally:
            await asyncio.shield(asyncio.to_thread(remove_tree, at))
        self._stored, self._stored_at = snapshot.reaches.number, began
        if not self._job.log.holds(self.mark):
            self._reached(snapshot.reaches)
        return snapshot

    async def _written(self, held: Held, now: float) -> Snapshot:
        """Write it in a thread; whoever cancels this waits for one piece at most."""
        doing = asyncio.ensure_future(asyncio.to_thread(self._snapshots.write, held, now))
        try:
            return await asyncio.shield(doing)
        except FileNotFoundError as error:  # it was compressed, or somebody moved it away
            raise BucketDown(f"{error.filename} has gone: it is looked for again") from error
        except asyncio.CancelledError:
            self._snapshots.pieces.is_over = True
            await asyncio.wait([doing])
            doing.exception()  # the next run stores the same
            raise

    # -- a store that is away ----------------------------------------------------------------------------------

    async def _try(self, doing: Awaitable[object], what: str) -> bool:
        """Whether it could be done: the store may be away for a while, and the disk full."""
        try:
            await doing
        except (BucketDown, BucketError, OSError) as error:
            if isinstance(error, OSError) and error.errno not in FULL:
                raise
            if what not in self._lacks:
                self._lacks.add(what)
                log.warning("%s gets no %s now, the crawl goes on: %s", self._holding.objects.address, what, error)
            return False
        if what in self._lacks:
            self._lacks.remove(what)
            log.warning("%s gets %s again", self._holding.objects.address, what)
        return True
