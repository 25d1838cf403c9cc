"""Keeps a bucket up to date with the jobs of one process: the log every second, a snapshot of each job every few
minutes.

If the store is unavailable, the crawl continues, and only its disk has the newest data. Steps are kept in memory until
they can be stored; if they no longer fit, a snapshot replaces them.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from math import inf
from typing import Any, NamedTuple

from msgspec import Struct, field

from crawler.base.disk import FULL, DisplacedError, make_private_directory
from crawler.job.bucket.layout import Snapshot, alive_key, log_key, newest_snapshot, standing
from crawler.job.bucket.log_objects import Log
from crawler.job.bucket.objects import BucketDown, BucketError, Objects
from crawler.job.bucket.ownership import release
from crawler.job.bucket.snapshots import Held, Snapshots
from crawler.job.bucket.tidying import tidy
from crawler.job.job import Job
from crawler.job.snapshot import COPYING, remove_tree
from crawler.job.steps.step_codec import Chunk, Mark

log = logging.getLogger("crawler")

Beside = Callable[[Callable[[], Any]], Awaitable[Any]]

_EVERY = 1.0  # seconds between two log objects
_QUIET = 5.0  # seconds between two log objects if no visit has been finished since the first
_SIGN = 20.0  # seconds between two signs of life while there are no steps
_CHUNK = 4 * 2**20  # bytes of steps per object, unless a single step is larger
_STEPS, _SECONDS = 20_000, 300.0  # steps and seconds between two snapshots
_REST = 10.0  # seconds to wait after a failed snapshot
_TIDY = 3_600.0  # seconds between two cleanups of unneeded objects
_LOG, _SNAPSHOTS = "steps", "snapshots"
_LAST = 15.0  # seconds to wait at the end of a run for an unavailable store


class TakenOverError(DisplacedError):
    """Another process has closed this process's log: nothing that this process has written since counts."""


class _Kept(Struct, eq=False):
    """A job and its state in the bucket: ``mark`` is the last step stored. ``first``: the number of the first object in
    this process's log that can contain steps of the job."""

    job: Job
    partition: int
    epoch: int
    snapshots: Snapshots
    first: int
    stored_at: float
    mark: Mark
    stored: int = 0  # the step number of the newest snapshot
    storing: asyncio.Lock = field(default_factory=asyncio.Lock)  # one snapshot at a time

    def needs(self, worker: str) -> int:
        """Return the number of the first object in the log of this process, ``worker``, that a restoration needs."""
        first = self.snapshots.begins_in(worker)
        return self.first if first is None else first

    def reached(self, mark: Mark) -> None:
        """Record that the bucket has all steps up to ``mark``."""
        if mark.number > self.mark.number:
            self.mark = mark
            self.job.log.forget(mark)
        self.job.promises.stored_to(self.job.log.commits(self.mark))


class _Pace(Struct):
    """Decides when to put steps in which no visit was finished. ``put_at``: the time of the last object; ``steps``: the
    number of steps of all jobs at the last check; ``signs``: the number of signs of life, of which only the last is
    kept."""

    put_at: float
    steps: int = 0
    signs: int = 0

    def is_due(self, steps: int, now: float) -> bool:
        """Return True if the waiting steps must be put now. If no steps have been added since the last call, they are
        put at once, because other processes may be waiting for a link in them, or for the end of the crawl."""
        before, self.steps = self.steps, steps
        return steps == before or now >= self.put_at + _QUIET


class _Waiting(NamedTuple):
    """An object whose put may or may not have succeeded."""

    chunks: list[tuple[_Kept, Chunk]]
    data: bytes


class Keeping:
    """Keeps the bucket up to date for the jobs of one process."""

    def __init__(
        self, objects: Objects, log: Log, clock: Callable[[], float], beside: Beside = asyncio.to_thread
    ) -> None:
        """``clock`` returns seconds since 1970. ``beside`` runs blocking calls to the store outside the event loop."""
        self.objects = objects
        self.log = log
        self.number = 0  # the number of the next log object
        self._clock = clock
        self._beside = beside
        self._kept: dict[int, _Kept] = {}
        self._left: dict[int, tuple[int, int]] = {}  # released partitions: epoch, and first log object needed
        self._waiting: _Waiting | None = None
        self._shipping = asyncio.Lock()
        self._pace = _Pace(clock())
        self._tidied = -inf
        self._removed = 0  # log objects below this number have been removed
        self._lacks: dict[str, float] = {}  # writes that the store refuses at present -> time of the last refusal

    async def add(self, job: Job, partition: int, epoch: int) -> None:
        """Keep the bucket up to date with the job from now on, and store the job's first snapshot before any request is
        sent. Raises OSError, BucketError, BucketDown."""
        job.log.keep()
        snapshots = await self._beside(partial(Snapshots, self.objects, partition, epoch))
        kept = _Kept(job, partition, epoch, snapshots, self.number, self._clock(), job.log.mark)
        self._kept[partition] = kept
        try:
            kept.reached((await self._snapshot(kept)).reaches)
        except BaseException:
            del self._kept[partition]
            raise

    async def keep(self) -> OSError:
        """Keep the bucket up to date until cancelled. If another process closes the log (TakenOverError) or a disk
        fails, stop the jobs from writing, and return the error. Raises all other exceptions, which are bugs."""
        failed = OSError("the bucket is no longer kept up to date")
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._keep_log())
                group.create_task(self._keep_snapshots())
        except* OSError as errors:
            failed = _first(errors)
        except* Exception:
            self._fail(failed)
            raise
        self._fail(failed)
        return failed

    def _fail(self, why: OSError) -> None:
        """Make the next sync of each job fail, so that its run ends: no job may continue without the bucket."""
        for kept in self._kept.values():
            kept.job.writer.failed = kept.job.writer.failed or why

    async def flush(self, partition: int, *, whole: bool) -> bool:
        """Store the steps of the partition that the bucket still lacks; with ``whole``, also store a snapshot. Retries
        for some seconds if the store is unavailable. Returns True if all this was stored. Raises OSError."""
        kept = self._kept[partition]
        try:
            async with asyncio.timeout(_LAST):
                for pause in itertools.chain([0.0], itertools.repeat(_EVERY)):
                    await asyncio.sleep(pause)
                    if await self._try(self._flush(kept, whole=whole), _LOG):
                        return True
        except TimeoutError:
            if not whole and kept.mark == kept.job.log.mark:
                return True  # only steps of other partitions are missing
        lacks = f"{kept.job.log.mark.number - kept.mark.number:,}"
        log.error("the last %s steps are only in %s: resume the crawl there", lacks, kept.job.directory)
        return False

    async def _flush(self, kept: _Kept, *, whole: bool) -> None:
        await self._ship(inf)
        if whole or not kept.job.log.holds(kept.mark):
            await self._snapshot(kept)

    async def leave(self, partition: int, *, whole: bool) -> bool:
        """Flush the partition, whose run is over, and release it. Returns True if the bucket has all its steps;
        otherwise only the disk has the last steps, and the next process to open the directory stores them. Raises
        OSError."""
        kept = self._kept[partition]
        try:
            if kept.job.writer.failed is not None or not await self.flush(partition, whole=whole):
                return False
            with contextlib.suppress(TimeoutError, BucketDown, BucketError):  # on failure the next owner closes the log
                async with asyncio.timeout(_LAST):
                    await self._beside(partial(release, self.objects, partition, kept.epoch, self.number))
        finally:
            kept.snapshots.pieces.is_over = True  # stops a snapshot in progress
            async with kept.storing:
                # Set this before the ``del``: another thread may cut the log in between.
                self._left[partition] = kept.epoch, kept.needs(self.log.worker)
                del self._kept[partition]
        return True

    # -- the log -----------------------------------------------------------------------------------------------

    async def _keep_log(self) -> None:
        while True:
            await asyncio.sleep(_EVERY)
            if await self._try(self._ship(self._clock()), _LOG) and self._clock() >= self._pace.put_at + _SIGN:
                await self._try(self._beside(self._show_life), _LOG)

    def _show_life(self) -> None:
        self.objects.put(alive_key(self.log.worker, self._pace.signs), b"")
        if self._pace.signs:
            self.objects.delete([alive_key(self.log.worker, self._pace.signs - 1)])
        self._pace.signs, self._pace.put_at = self._pace.signs + 1, self._clock()

    async def _ship(self, now: float) -> None:
        """Put all steps that the bucket lacks at this moment. Raises TakenOverError, BucketError, BucketDown."""
        async with self._shipping:
            ends = {each: each.job.log.mark.number for each in self._kept.values()}
            is_due = self._pace.is_due(sum(ends.values()), now) or any(kept.job.promises.waiting for kept in ends)
            while self._waiting is not None or self._next(ends, is_due=is_due):
                assert self._waiting is not None
                chunks, data = self._waiting
                if not data:
                    data = await self._beside(partial(self.log.encode, [chunk for _, chunk in chunks]))
                    self._waiting = _Waiting(chunks, data)
                if not await self._beside(partial(self.log.put, self.number, data)):
                    raise await self._closed()
                self.number, self._waiting, self._pace.put_at = self.number + 1, None, self._clock()
                for kept, chunk in chunks:
                    kept.reached(chunk.reaches)

    def _next(self, ends: dict[_Kept, int], *, is_due: bool) -> bool:
        """Collect the next steps to put. Returns True if there are any. With ``is_due``, steps without a finished visit
        are put too."""
        chunks, room = list[tuple[_Kept, Chunk]](), _CHUNK
        for kept in self._kept.values():
            if room <= 0 or kept.mark.number >= ends.get(kept, 0):
                continue
            try:
                chunk = kept.job.log.after(kept.mark, kept.partition, room)
            except ValueError:
                continue  # dropped while the store was unavailable: a snapshot follows
            if chunk is not None:
                chunks.append((kept, chunk))
                room -= kept.job.log.size
        if not is_due and not any(step.written for _, chunk in chunks for step in chunk.steps):
            return False
        self._waiting = _Waiting(chunks, b"") if chunks else None
        return bool(chunks)

    async def _closed(self) -> TakenOverError:
        where = ""
        with contextlib.suppress(BucketDown, BucketError):
            for partition in sorted(self._kept):
                owner = (await self._beside(partial(standing, self.objects, partition))).owner
                if owner is not None and owner.worker != self.log.worker:
                    where = f" at {owner.place}"
                    break
        return TakenOverError(f"another process has taken over the crawl in {self.objects.address}{where}")

    # -- snapshots ---------------------------------------------------------------------------------------------

    async def _keep_snapshots(self) -> None:
        while True:
            await asyncio.sleep(_EVERY)
            for kept in list(self._kept.values()):
                steps = kept.job.log.mark.number - kept.stored
                is_due = steps >= _STEPS or (steps and self._clock() >= kept.stored_at + _SECONDS)
                if self._kept.get(kept.partition) is not kept or (not is_due and kept.job.log.holds(kept.mark)):
                    continue
                if not await self._try(self._snapshot(kept), _SNAPSHOTS):
                    await asyncio.sleep(_REST)
            if self._clock() >= self._tidied + _TIDY:
                await self._try(self._beside(partial(self._tidy, 0 in self._kept)), _SNAPSHOTS)

    async def _snapshot(self, kept: _Kept) -> Snapshot:
        async with kept.storing:
            if self._kept.get(kept.partition) is not kept:
                raise BucketDown(f"this process no longer keeps partition {kept.partition}")
            job = kept.job
            at = job.directory / COPYING / f"{kept.epoch:08}"
            held = Held(at, job.directory, self.log.worker, self.number)
            began = self._clock()
            try:
                make_private_directory(at, parents=True)
                await job.hold_still(at)
                snapshot: Snapshot = await self._written(kept, held, began)
            finally:
                await asyncio.shield(self._beside(partial(remove_tree, at)))
            kept.stored, kept.stored_at = snapshot.reaches.number, began
            if not job.log.holds(kept.mark):
                kept.reached(snapshot.reaches)
            await self._try(self._beside(self._cut_log), _LOG)
            return snapshot

    async def _written(self, kept: _Kept, held: Held, now: float) -> Snapshot:
        """Write the snapshot in a thread. A cancelled caller waits for at most one piece."""
        kept.snapshots.pieces.is_over = False
        doing = asyncio.ensure_future(self._beside(partial(kept.snapshots.write, held, now)))
        try:
            return await asyncio.shield(doing)
        except FileNotFoundError as error:  # the file has been compressed or moved away
            raise BucketDown(f"{error.filename} is gone; the snapshot will be retried") from error
        except asyncio.CancelledError:
            kept.snapshots.pieces.is_over = True
            await asyncio.wait([doing])
            doing.exception()  # ignore a failure: the next run stores the snapshot
            raise

    # -- removal -----------------------------------------------------------------------------------------------

    def _cut_log(self) -> None:
        """Remove the beginning of the log, which no snapshot needs any longer."""
        firsts = [kept.needs(self.log.worker) for kept in list(self._kept.values())]  # any may be released meanwhile
        upto = min([*firsts, *(first for _, first in list(self._left.values()))], default=0)
        if upto > self._removed:
            self.objects.delete([log_key(self.log.worker, number) for number in range(self._removed, upto)])
            self._removed = upto

    def _tidy(self, whole: bool) -> None:
        """Forget released partitions of which a later owner has stored a snapshot. With ``whole``, which only one
        process sets, remove all unneeded objects from the bucket."""
        self._tidied = self._clock()
        for partition, left in list(self._left.items()):
            newest = newest_snapshot(self.objects, partition)
            if newest is not None and newest.epoch > left[0] and self._left.get(partition) is left:
                self._left.pop(partition, None)
        if whole:
            tidy(self.objects)

    # -- an unavailable store ----------------------------------------------------------------------------------

    async def _try(self, doing: Awaitable[object], what: str) -> bool:
        """Await the operation. Returns True if it succeeded, False if the store is unavailable or the disk is full."""
        try:
            await doing
        except (BucketDown, BucketError, OSError) as error:
            if isinstance(error, OSError) and error.errno not in FULL:
                raise
            if not self._lacks:
                log.warning("%s accepts no %s at present; the crawl continues: %s", self.objects.address, what, error)
            self._lacks[what] = self._clock()
            return False
        if self._clock() >= self._lacks.get(what, inf) + _REST:  # a full store may still take small objects
            del self._lacks[what]
            if not self._lacks:
                log.warning("%s accepts everything again", self.objects.address)
        return True


def _first(errors: ExceptionGroup[OSError]) -> OSError:
    error = errors.exceptions[0]
    return _first(error) if isinstance(error, ExceptionGroup) else error
