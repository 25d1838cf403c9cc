"""A member of a crawl: one process and the partitions it works on. Read from top to bottom, this is how a process works
on a partition:

    shared     all members see the same seats, and derive from them who owns which partition
    claimed    if no other process holds it; the lock on its directory is a second guard
    opened     the job resumes, so each host waits for its gap; a new epoch is stored before anything is sent
    open       the process's single worker drives its run along with all others; links found for other partitions are
               sent, and links found by others are received
    over       because the crawl has ended or a limit was reached; because another member is to own it, or this one
               was stopped; or because the claim was lost, in which case the run ends at once
    closed     with a last generation; the claim is freed, so that the next owner need not wait

Each partition has one task that takes it through these steps. Other tasks only ask its run to stop.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from crawler.base import entropy
from crawler.base.carrier.verbs import Carrier, CarrierError
from crawler.base.settings.parts import Settings
from crawler.cluster.claims import Ownership, name_of
from crawler.cluster.drain_file import is_asked
from crawler.cluster.end_watch import EndWatch
from crawler.cluster.member_options import Crawl, MemberOptions, MemberResult, settings_later
from crawler.cluster.open_partition import OpenPartition
from crawler.cluster.partition_life import MemberContext, PartitionLife, PartitionServices
from crawler.cluster.quota_coordinator import BANK, QuotaCoordinator
from crawler.cluster.rate_coordinator import RateCoordinator
from crawler.cluster.reach import Reach
from crawler.cluster.receiver import Receiving
from crawler.cluster.robots_coordinator import RobotsCoordinator
from crawler.cluster.seats import SEEDED, Seated, Seats, share
from crawler.cluster.sender import Sending
from crawler.cluster.step_aside import StepAside
from crawler.cluster.tally import Tally
from crawler.engine.lifecycle import Stop
from crawler.engine.run import Run
from crawler.engine.worker import Worker
from crawler.job.directory import JobError, holds_job
from crawler.job.partition.link_batch_codec import LinkBatchCodec, Note
from crawler.job.partition.notes import RobotsAnswer, RobotsQuestion, decode_note

TICK = 1.0  # seconds between two checks of who owns which partition
FIRST = 0.25  # ... until all partitions of this member are open
TOGETHER = 3.0  # seconds to wait for expected members


async def run_member(
    crawl: Crawl,
    carrier: Carrier,
    settings: Settings,
    options: MemberOptions,
    begun: Callable[[Member], None] = lambda _: None,
) -> MemberResult:
    """Work on the crawl until it is over, a limit is reached or the member is stopped. ``settings`` apply to the whole
    crawl. ``begun`` is called with the member before it starts.

    Raises CarrierRefusedError, JobError, OSError, and any bug; by then all jobs are closed, and checkpointed as far as
    they are consistent.
    """
    member = Member(crawl, carrier, settings, options)
    begun(member)
    return await member.work()


class Member:
    """One process of a crawl."""

    def __init__(self, crawl: Crawl, carrier: Carrier, settings: Settings, options: MemberOptions) -> None:
        self._crawl = crawl
        self._settings = settings
        self._options = options
        self._began = options.clock()
        self._reach = Reach(carrier, options.boottime, options.notice)
        ownership = Ownership(self._reach, options.name or entropy.random_bytes(8).hex(), options.boottime)
        stored = options.stored
        me = Seated(
            ownership.holder,
            crawl.directory_id,
            0,
            options.has_seeds,
            place=options.place(crawl.directory),
            log="" if stored is None else stored.worker,
        )
        seats = Seats(self._reach, ownership, crawl.partitions, me, options.boottime)
        worker = Worker(options.fetcher, settings, options.clock, options.lag, slots=options.slots)
        worker.context.renderer.live_in(crawl.directory)
        worker.rate.change(options.own_rate)
        self._rates = RateCoordinator(self._reach, seats, ownership, worker.rate, options.boottime)
        self._rates.change(settings.politeness.rate)
        opened = dict[int, OpenPartition]()
        codec = LinkBatchCodec(crawl.secret)
        self._receiving = Receiving(self._reach, codec, opened, worker.context.turns, options.clock, self._heard)
        sending = Sending(self._reach, codec, opened, options.clock, self._look_at_claims, self._receiving.take)
        may_grant = partial(ownership.may_request, name_of(BANK))
        quota = QuotaCoordinator(settings.crawl.max_pages, crawl.partitions, opened, sending.tell, may_grant)
        robots, tally = RobotsCoordinator(crawl.placement, opened, sending.tell), Tally(crawl.partitions)
        ends = EndWatch(self._reach, ownership, crawl.partitions, lambda: opened, self._ended)
        services = PartitionServices(quota, robots, ends)
        self._context = MemberContext(
            crawl, options, self._settings_now, ownership, worker, sending, seats, services, opened, tally
        )
        self._aside = StepAside(ownership.holder, options.boottime)
        self._lives: dict[int, asyncio.Task[None]] = {}
        self._reason: Stop | None = None
        self._stopped = asyncio.Event()
        self._context.is_over = self._stopped.is_set
        self._claims_doubted = asyncio.Event()
        ownership.changed, ownership.renewed = self._claim_changed, self._wake

    # -- for callers -------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The name of this worker."""
        return self._context.ownership.holder

    @property
    def reason(self) -> Stop | None:
        """Why the member is ending; None while it keeps working."""
        return self._reason

    @property
    def runs(self) -> dict[int, Run]:
        """The runs of the partitions that are open here."""
        return {number: partition.run for number, partition in self._context.open.items()}

    @property
    def worker(self) -> Worker:
        """The worker that drives the runs."""
        return self._context.worker

    def stats(self) -> dict[str, Any]:
        """Return the pooled statistics of this member's partitions; empty if it has none."""
        return self._stats(self._context.open)

    def done(self) -> Mapping[str, int]:
        """Return the counts of this member's own work, by statistic name."""
        return self._context.tally.done(self._context.open)

    def change(self, settings: Settings) -> None:
        """Apply new values of the settings that can change during a run. Raises OSError."""
        self._settings = settings
        self._rates.change(settings.politeness.rate)
        for run in self.runs.values():
            run.change(self._crawl.settings_of_partition(settings))

    def stop(self, reason: Stop = Stop.INTERRUPTED) -> None:
        """Hand over all partitions in order, then end. Only the first ``reason`` is kept, but an interruption overrides
        a limit."""
        if self._reason is None or (reason is Stop.INTERRUPTED and self._reason is not Stop.FINISHED):
            self._reason = reason
        self._context.wanted.clear()
        for run in self.runs.values():
            run.stop(reason)
        self._stopped.set()

    # -- its work ----------------------------------------------------------------------------------------------

    async def work(self) -> MemberResult:
        """See ``run_member``."""
        context, services = self._context, self._context.services
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(context.worker.serve())
                parts = [context.ownership.keep(), context.sending.keep(), self._receiving.keep(), self._rates.keep()]
                parts += [services.quota.keep(), services.ends.watch(), self._check_claims(), self._keep_stored()]
                beside = [group.create_task(each) for each in parts]
                beating = group.create_task(context.seats.keep())
                await self._take_part(group)
                beating.cancel()
                self._say_of_myself(drains=True)
                with contextlib.suppress(CarrierError):  # if it fails, others take over when the beat stops
                    await context.seats.say_now()
                if self._lives:
                    await asyncio.wait(self._lives.values())
                for task in beside:
                    task.cancel()
                await services.robots.close()
                context.worker.end()
                await self._rates.leave()
                await context.seats.leave()
        except BaseExceptionGroup as errors:
            raise _first(errors) from errors
        assert self._reason is not None
        tally = context.tally
        return MemberResult(
            self._reason,
            self._stats({}),
            tally.seeds_fetched,
            tally.last_seed_error,
            tally.done({}),
            tally.had,
            self._options.clock() - self._began,
            sorted(context.unstored),
        )

    async def _keep_stored(self) -> None:
        """Keep the crawl's store up to date. Raises TakenOverError if another process has taken one of our
        partitions."""
        if self._options.stored is not None:
            raise await self._options.stored.keeping.keep()

    async def _take_part(self, group: asyncio.TaskGroup) -> None:
        """Share the partitions with the other members until this one is stopped. Raises JobError, OSError."""
        loop = asyncio.get_running_loop()
        workers = self._settings.partitions.workers
        expected = workers or self._options.expected
        say_at = loop.time() + TOGETHER
        waits_until = loop.time() + TOGETHER if workers is None else math.inf
        while not self._stopped.is_set():
            pause = FIRST
            limit = self._settings.crawl.max_time
            if limit is not None and self._options.clock() >= self._began + limit and not self._context.open:
                self.stop(Stop.MAX_TIME)  # no run is open that would reach the limit and stop the member
                return
            try:
                alive = await self._context.seats.look()
                if self._context.seats.has_twin:
                    raise JobError(
                        f"{self._crawl.directory} is a copy of a directory that another worker uses: give this worker "
                        "a directory of its own, or stop the other worker first"
                    )
                self._look_around(alive)
                if self._stopped.is_set():
                    return
                has_begun = workers is not None and holds_job(self._crawl.partition(SEEDED))
                if len(alive) >= expected or loop.time() >= waits_until or has_begun:
                    waits_until = 0.0
                    mine = share(self.name, alive, self._crawl.partitions)
                    self._take(mine, group)
                    if self._options.stored is not None:
                        await self._options.stored.leave_others(self._crawl.directory, mine | self._lives.keys())
                    pause = FIRST if self._options.stored is None and not mine <= self._context.open.keys() else TICK
                elif workers is not None and loop.time() >= say_at:
                    say_at = math.inf
                    has = "has" if len(alive) == 1 else "have"
                    self._options.notice(f"waiting for workers: {len(alive)} of {workers} {has} joined")
            except CarrierError:
                pause = TICK  # reported by ``Reach``; open partitions stay open
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._stopped.wait()

    def _look_around(self, alive: Mapping[str, Seated]) -> None:
        """Leave if a drain was requested. Step aside if this process cannot fetch while others can."""
        if is_asked(self._crawl.directory):
            self.stop()
        line = self._aside.look(self._context.worker.unanswered, alive)
        if line is not None:
            self._options.notice(line)
        self._say_of_myself(drains=False)

    def _say_of_myself(self, *, drains: bool) -> None:
        unanswered = self._context.worker.unanswered > 0
        self._context.seats.say(drains=drains, aside=self._aside.since is not None, unanswered=unanswered)

    def _take(self, mine: set[int], group: asyncio.TaskGroup) -> None:
        """Start opening the partitions in ``mine``, and hand over the others."""
        if self._stopped.is_set():
            return
        self._context.wanted = mine
        self._context.tally.others = set(range(self._crawl.partitions)) - mine
        for number, run in self.runs.items():
            if number not in mine:
                run.stop()
        # The last steps of some partitions may be only on this disk: they are opened once more, stored, and handed
        # over.
        for number in sorted((mine | self._context.unstored) - self._lives.keys()):
            life = self._lives[number] = group.create_task(self._live(number))
            life.add_done_callback(partial(self._is_closed, number))

    async def _live(self, number: int) -> None:
        reason = await PartitionLife(number, self._context).live()
        if reason not in (None, Stop.INTERRUPTED, Stop.FINISHED):
            self.stop(reason)  # a limit applies to the whole process

    def _is_closed(self, number: int, _: asyncio.Task[None]) -> None:
        self._lives.pop(number, None)

    def _heard(self, partition: OpenPartition, note: Note) -> None:
        said = decode_note(note.message)
        if isinstance(said, RobotsQuestion | RobotsAnswer):
            self._context.services.robots.heard(partition, note, said)
        elif said is not None:
            self._context.services.quota.heard(partition.number, note.sender, said)

    def _ended(self, spent: bool) -> None:
        """Stop all runs because the crawl is over. ``spent``: its page limit left URLs unfetched."""
        self._reason = Stop.MAX_PAGES if spent else Stop.FINISHED
        for run in self.runs.values():
            # URLs added from outside at the last moment stay for the next start.
            run.finish() if run.is_idle else run.stop(Stop.MAX_PAGES if run.is_spent else Stop.INTERRUPTED)
        self._context.wanted.clear()
        self._stopped.set()

    def _stats(self, open_now: Mapping[int, OpenPartition]) -> dict[str, Any]:
        stats = self._context.tally.stats(open_now)
        # Use the elapsed time of this process, because its oldest run may have moved to another process.
        return {**stats, "elapsed_seconds": self._options.clock() - self._began} if stats else stats

    # -- claims ------------------------------------------------------------------------------------------------

    def _look_at_claims(self) -> None:
        """Trigger a check of the claims: an append was refused, so a claim may have been lost."""
        self._claims_doubted.set()

    async def _check_claims(self) -> None:
        while True:
            await self._claims_doubted.wait()
            self._claims_doubted.clear()
            await self._context.ownership.renew()
            await asyncio.sleep(FIRST)

    def _claim_changed(self, name: str) -> None:
        for partition in self._context.open.values():
            if partition.name == name:
                partition.is_rising = True
                partition.claim_changed.set()

    def _wake(self) -> None:
        """Wake the runs, because requests may start again, or because a partition restored from an old directory needs
        a greater epoch."""
        for partition in self._context.open.values():
            partition.run.wake()
            if partition.outbox.outrun >= partition.epoch > 0:
                partition.claim_changed.set()

    def _settings_now(self) -> Settings:
        """Return the settings for a run that starts now; its time limit is what is left of the process's limit."""
        return settings_later(self._crawl.settings_of_partition(self._settings), self._options.clock() - self._began)


def _first(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    error: BaseException = errors
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
