"""Takes one partition through its life in this process, from its claim to its last generation."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Callable
from functools import partial
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from crawler.base.carrier.verbs import CarrierError, StaleEpochError
from crawler.base.clock import SteadyClock
from crawler.base.disk import FULL, Expendable, no_room
from crawler.base.settings.parts import Settings
from crawler.cluster.claims import Ownership, name_of
from crawler.cluster.end_watch import EndWatch
from crawler.cluster.member_options import Crawl, MemberOptions, no_seeds
from crawler.cluster.open_partition import OpenPartition
from crawler.cluster.quota_coordinator import QuotaCoordinator
from crawler.cluster.robots_coordinator import RobotsCoordinator
from crawler.cluster.seats import SEEDED, Seats
from crawler.cluster.sender import Sending
from crawler.cluster.stored_partitions import first_epoch
from crawler.cluster.tally import Tally
from crawler.engine.lifecycle import State, Stop
from crawler.engine.membership import Membership
from crawler.engine.run import Run
from crawler.engine.worker import Worker
from crawler.inspect.known_urls import open_known
from crawler.job.bucket.objects import BucketDown, BucketError
from crawler.job.crawl_file import check_none_gone, note_begun
from crawler.job.directory import JobError, holds_job
from crawler.job.job import Job
from crawler.job.job_lock import lock_holder
from crawler.job.partition.router import PartitionRouter
from crawler.job.platform import new_line
from crawler.job.run_settings import RUN, write_run
from crawler.job.seeds_mark import seeds_are_read

ASKS = 5.0  # seconds before a partition without a scope asks for it
ASKS_NEXT = 2.0  # ... and before the partition that reads the seeds asks the next partition
AGAIN = 0.5  # seconds until a carrier that did not answer is asked again


class PartitionServices(Struct):
    """The services through which one member's partitions coordinate with other processes."""

    quota: QuotaCoordinator
    robots: RobotsCoordinator
    ends: EndWatch


class MemberContext(Struct):
    """The state that one member's partitions share. ``open`` are the open partitions, ``wanted`` those that should be
    open; ``settings()`` returns the settings for a run that starts now."""

    crawl: Crawl
    options: MemberOptions
    settings: Callable[[], Settings]
    ownership: Ownership
    worker: Worker
    sending: Sending
    seats: Seats
    services: PartitionServices
    open: dict[int, OpenPartition]
    tally: Tally
    wanted: set[int] = field(default_factory=set)
    told: set[str] = field(default_factory=set)  # lines already reported; each is reported once
    is_over: Callable[[], bool] = lambda: False  # the process is ending; its partitions stay here until taken over
    unstored: set[int] = field(default_factory=set)  # partitions whose last steps the store did not take


class PartitionLife:
    """Takes the partition ``number`` through its life."""

    def __init__(self, number: int, shared: MemberContext) -> None:
        self._number = number
        self._name = name_of(number)
        self._shared = shared

    async def live(self) -> Stop | None:
        """Open the partition if possible, and return why its run ended; None if it could not be opened, or was lost.
        Raises BucketError, JobError, OSError, and the errors of a job's parts."""
        shared = self._shared
        directory = shared.crawl.partition(self._number)
        if lock_holder(directory) is not None:
            return None  # the previous owner has not closed the partition yet
        try:
            claimed = await shared.ownership.claim(self._name, 0)
            if claimed is None:
                return None
        except CarrierError:
            return None
        try:
            epoch = await self._own(directory, claimed)
            if epoch is None:
                return None
            with open_known(shared.settings().crawl.known, directory) as known:
                job = await self._open()
                if job is None:
                    return None
                try:
                    job.leave_out(known)
                    return await self._run(job, epoch)
                finally:
                    shared.open.pop(self._number, None)
                    await shared.options.beside(job.close)
        finally:
            await shared.ownership.free(self._name)

    async def _own(self, directory: Path, claimed: int) -> int | None:
        """Become the owner of the partition, which this process has claimed in the epoch ``claimed``. Returns its epoch
        in the crawl's store, 0 without a store; None if the partition cannot be opened now."""
        shared, number = self._shared, self._number
        begins = number != SEEDED or shared.options.has_seeds
        if shared.options.stored is None:
            return 0 if begins or holds_job(directory) else None
        try:
            await shared.options.stored.outlast(directory, claimed)
            return await shared.options.stored.take(number, directory, begins=begins, lives=shared.seats.lives)
        except JobError:
            if lock_holder(directory) is not None:
                return None
            raise

    async def _open(self) -> Job | None:
        """Return the open job; None if it cannot be opened now."""
        shared, number = self._shared, self._number
        try:
            opening = partial(open_job, number, shared.crawl, shared.settings(), shared.options)
            job: Job = await shared.options.beside(opening)
        except JobError:
            if lock_holder(shared.crawl.partition(number)) is not None:
                return None
            raise
        except OSError as error:
            if error.errno not in FULL:
                raise
            self._say(f"partitions wait for space, nothing is lost: {no_room(error)}")
            return None
        return job

    async def _run(self, job: Job, epoch: int) -> Stop | None:
        """Run the job until its run in this process ends, and write its last generation. ``epoch`` is its epoch in the
        store."""
        shared, number, stored = self._shared, self._number, self._shared.options.stored
        settings = shared.settings()
        with Expendable(str(job.directory / RUN)):
            write_run(job.disk, job.directory, settings)  # before the first snapshot, which contains the file
        if stored is not None and not await stored.begin(job, number, epoch):
            return None
        if number not in shared.wanted or shared.ownership.epoch(self._name) is None:
            await self._leave(whole=False)
            return None
        if epoch > 1:
            job.frontier.resume()  # the last owner may have died after sending requests that it had not stored
        router, worker, options = job.partition, shared.worker, shared.options
        assert router is not None
        partition: OpenPartition | None = None

        def is_sent() -> bool:
            return partition is not None and partition.is_sent

        def may_request() -> bool:
            # The epoch is stored before the partition has risen, and shows the next owner that hosts may have received
            # requests. Links from others may arrive before partition 0 sends the scope, and would be left out without
            # it.
            has_begun = partition is not None and not partition.is_rising and job.scope.is_known
            return has_begun and shared.ownership.may_request(self._name)

        context = worker.context.with_code(options.code)
        seeds = options.seeds() if number == SEEDED else no_seeds()
        member = Membership(
            may_request,
            is_sent,
            partial(shared.services.quota.allowance, number),
            partial(shared.services.robots.is_elsewhere, number),
            partial(shared.services.robots.ask, number),
            number == SEEDED and options.has_seeds,
            lambda: (0, 0.0) if partition is None else partition.lag(options.clock()),
        )
        run = Run(job, settings, context, seeds, member=member)
        partition = shared.open[number] = OpenPartition(number, run, router.outbox, router.inlet, self._is_settled)
        shared.tally.begin(partition)
        options.opened(number, run)
        worker.add(run)
        try:
            await self._until_over(partition, epoch)
        finally:
            partition.is_closing = True
            async with partition.writing:  # waits until the current writer is done
                await self._finish(partition)
        return run.life.reason

    def _is_settled(self, partition: OpenPartition) -> bool:
        """Return True if this partition has no quota left to receive and no seeds left to read. Seeds are left if an
        earlier owner ended before it had read them all."""
        if not self._shared.services.quota.is_settled(partition):
            return False
        if self._number != SEEDED or self._shared.options.has_seeds or seeds_are_read(partition.job):
            return True
        self._say("the crawl cannot end before all seeds are read: run the command that started the crawl again")
        return False

    async def _until_over(self, partition: OpenPartition, epoch: int) -> None:
        """Follow the claim until the run is over. ``epoch``: see ``_run``."""
        over = asyncio.ensure_future(self._shared.worker.until_over(partition.run))
        following = asyncio.ensure_future(self._follow_claim(partition, epoch))
        asking = asyncio.ensure_future(self._ask_for_scope(partition))
        try:
            await asyncio.wait({over, following}, return_when=asyncio.FIRST_COMPLETED)
            if following.done():
                following.result()
            await over
        finally:
            for each in (over, following, asking):
                each.cancel()
            await asyncio.wait({over, following, asking})

    async def _ask_for_scope(self, partition: OpenPartition) -> None:
        """Ask for the scope until it is known. A partition that received the scope in an earlier run gets it again only
        if it asks. The partition that reads the seeds learns the scope from the seeds or, if this process has none,
        from one other partition at a time, because each answer contains the whole scope."""
        reads_seeds = self._number == SEEDED
        if reads_seeds and self._shared.options.has_seeds:
            return
        for other in itertools.cycle(partition.outbox.targets if reads_seeds else [SEEDED]):
            await asyncio.sleep(ASKS_NEXT if reads_seeds else ASKS)
            if partition.job.scope.is_known:
                return
            partition.inlet.ask(other)
            with contextlib.suppress(CarrierError):  # the loop asks again
                await self._shared.sending.acknowledge(partition)

    async def _follow_claim(self, partition: OpenPartition, epoch: int) -> None:
        """Start each new epoch of the claim. When the claim is lost, end the run at once. Raises OSError."""
        while True:
            await partition.claim_changed.wait()
            partition.claim_changed.clear()
            partition.is_rising = True
            if self._shared.ownership.epoch(self._name) is None:
                break
            try:
                await self._rise(partition, epoch)
            except StaleEpochError:
                partition.claim_changed.set()
            except (CarrierError, BucketDown, BucketError):
                partition.claim_changed.set()
                await asyncio.sleep(AGAIN)
        self._say(f"another process took over partition {self._number}; its run here ends")
        await self._shared.worker.break_off(partition.run)

    async def _rise(self, partition: OpenPartition, stored_epoch: int) -> None:
        """Start the claim's epoch durably, then send under it. Raises CarrierError, StaleEpochError, BucketDown,
        BucketError, OSError."""
        ownership, job, stored = self._shared.ownership, partition.job, self._shared.options.stored
        # Another process may have claimed, owned and released the partition since it was opened or last claimed here.
        if stored is not None and not await stored.owns(self._number, stored_epoch):
            await ownership.free(self._name)
            partition.claim_changed.set()
            return
        # This is greater than all earlier epochs, even if the carrier has forgotten them.
        floor = max(first_epoch(stored_epoch), job.epoch, partition.outbox.outrun)
        epoch = ownership.epoch(self._name)
        if epoch is not None and epoch <= floor:
            epoch = await ownership.claim(self._name, floor)
        if epoch is None:
            ownership.forget(self._name)
            partition.claim_changed.set()
            return
        await job.begin_epoch(epoch)
        partition.is_rising = partition.claim_changed.is_set()
        partition.run.wake()  # the partition sends no request before the epoch starts
        await self._shared.sending.announce(partition)

    async def _finish(self, partition: OpenPartition) -> None:
        """Write the last generation of a run that is over, for whatever reason, and acknowledge the batches that this
        generation makes durable. Raises OSError."""
        shared, job, run = self._shared, partition.job, partition.run
        shared.tally.add(partition)
        if job.writer.whole:
            await job.checkpoint(shared.options.clock(), whole=run.life.state is State.ENDED)
            await job.sync()
            if job.writer.failed is None:
                await run.keeper.derive_rest()
                if run.life.state is State.ENDED:
                    await run.keeper.compress_rest()
                shared.options.closing(self._number, run)  # writes the history, which the last snapshot contains
            await self._leave(whole=run.life.state is State.ENDED)
            with contextlib.suppress(CarrierError):  # already reported; the sender sends the batches again
                await shared.sending.acknowledge(partition)
        shared.sending.forget(partition)
        if job.writer.failed is not None:
            raise job.writer.failed

    async def _leave(self, *, whole: bool) -> None:
        """Release the partition in the crawl's store."""
        stored = self._shared.options.stored
        if stored is None:
            return
        if not await stored.leave(self._number, whole=whole):
            self._shared.unstored.add(self._number)
            return
        self._shared.unstored.discard(self._number)
        if not self._shared.is_over():
            stored.left(self._shared.crawl.partition(self._number))

    def _say(self, line: str) -> None:
        if line not in self._shared.told:
            self._shared.told.add(line)
            self._shared.options.notice(line)


def open_job(number: int, crawl: Crawl, settings: Settings, options: MemberOptions) -> Job:
    """Open the job of a partition. Raises the same errors as ``Job``."""
    is_stored = options.stored is not None  # missing files are restored from the store
    if not is_stored:
        check_none_gone(crawl.directory)
    clock = options.clock
    anchor = clock.anchor if isinstance(clock, SteadyClock) else None
    platform = replace(options.platform, line=new_line() if is_stored else 0)
    router = PartitionRouter(number, crawl.placement)
    job = Job(crawl.partition(number), settings, clock(), platform, anchor, router)
    try:
        if not is_stored:
            note_begun(job.disk, crawl.directory, number)
    except BaseException:
        job.close()
        raise
    return job
