"""A run: one job, from its seeds to its end. ``run``, ``discover`` and ``visit`` connect all other parts; together they
describe the life of one URL.

    discover   href and base -> canonical -> in scope? -> admitted if new
    visit      taken from the frontier -> robots.txt -> fetched -> outlinks discovered -> record written, done

A run is passive: the worker starts it, takes leases from it, has them visited, and asks whether it is over. Besides the
visits, a run reads its seeds and its inbox, keeps its job durable, and resolves doubted URLs.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator
from datetime import UTC, datetime
from functools import partial
from math import inf
from typing import Any

from msgspec.structs import asdict, replace

from crawler.base.figures import counted, duration
from crawler.base.memory import resident_memory
from crawler.base.settings.parts import Settings
from crawler.base.settings.sites import Sites
from crawler.engine.archiving import WARC, head_of_files
from crawler.engine.checkpoint_loop import DurabilityLoop
from crawler.engine.context import Context
from crawler.engine.ending import Ending
from crawler.engine.gauges import Gauges, ProxyWatch
from crawler.engine.injector import Injector
from crawler.engine.ledger_resolver import resolve_beside
from crawler.engine.lifecycle import Lifecycle, Pause, PausedBy, State, Stop
from crawler.engine.links_and_redirects import Discovery
from crawler.engine.membership import FencedNetwork, Membership
from crawler.engine.outage_detector import RunOutage
from crawler.engine.robots_visit import RobotsVisits
from crawler.engine.visit import Visitor
from crawler.frontier.capacity import Bar, Serving
from crawler.frontier.lease import Lease
from crawler.inspect.statistics import JobFigures, RunFigures, SlotFigures, assemble
from crawler.job.inbox import Inbox
from crawler.job.job import Job
from crawler.job.left_out import OwnRules, return_beside
from crawler.job.markdown_files import markdown_size
from crawler.job.metrics.events import Kind
from crawler.job.revisit import revisit_beside
from crawler.job.seeds_mark import note_seeds
from crawler.job.seen_compaction import compact_beside
from crawler.web.fetch import Fetches

log = logging.getLogger("crawler")

GRACE = 5.0  # seconds that requests in flight get when the run stops

ELSEWHERE = "no page but the seeds is in scope; their links lead to"
WIDER = "add that host as a seed, or crawl with --scope domain or --scope any"


class Run:
    """A run of a job. ``finite``: the seeds end, so they are all read even if a limit is reached first, and the next
    run has them."""

    def __init__(
        self,
        job: Job,
        settings: Settings,
        context: Context,
        seeds: AsyncIterator[list[str]],
        *,
        finite: bool = True,
        member: Membership | None = None,
    ) -> None:
        """``context`` belongs to the worker that will drive the run; ``member`` is set for a run of a partition."""
        self.job = job
        self.life = Lifecycle(settings.crawl, context.clock())
        proxies = ProxyWatch(context.clock, job)
        wake = context.wake  # below, ``context`` is a copy that wakes this run
        self._wake: Callable[[bool], None] = lambda _: wake()
        self._context = context = replace(context, fetcher=_fenced(proxies, member, job, context), wake=self.wake)
        self._member = member
        job.enforce(OwnRules.of(settings, job.store))
        job.left_out.tell = log.warning
        job.left_out.tell_rest(lambda text: context.said.say(text, context.said))
        inbox, endless = Inbox(job.directory, job.disk), settings.recrawl.enabled
        discovery = Discovery(job, settings, context.reading)
        self._line = RunOutage(context.line, job, settings, self.wake)
        if "warc" in settings.output.keep:
            job.files.outputs.begin_with(WARC, head_of_files(settings, context.clock))
        robots = RobotsVisits(job, discovery, self._line, settings, context)
        robots.redirect.member = member
        if context.code.judge is not None and context.code.judge.scores:
            job.frontier.keep_places(job.store)
        self.visitor = Visitor(job, discovery, robots, settings, context)
        self.incoming = Injector(job, discovery, inbox, context.wake, context.turns, context.clock)
        self._ending = Ending(job, self.incoming.waiting, finite=finite, endless=endless, member=member)
        self.keeper = DurabilityLoop(job, settings.durability, context, settings.output.keep)
        self.gauges = Gauges(job, Sites(settings), settings.seen, context, lambda: self.serving, proxies)
        self._visits: dict[asyncio.Task[None], Lease] = {}
        self._beside = _Beside(partial(self._read_seeds, seeds))

    # -- calls of the worker, in this order --------------------------------------------------------------------

    def begin(self, group: asyncio.TaskGroup, wake: Callable[[bool], None]) -> None:
        """Start the background tasks. ``wake`` is called when something has changed in this run, with True if visits
        that wait for the rate limit must check whether to continue."""
        job, self._wake = self.job, wake
        self._line.join()
        beside = [
            self._beside.first(),
            self.keeper.watch(),
            *self.gauges.watches(self._runs),
            compact_beside(job.compact),
            self.keeper.compress(),
            self.keeper.derive(),
            self.incoming.watch(self._context.clock),
        ]
        if job.ledger is not None:
            beside.append(resolve_beside(self._decide, lambda: job.doubted, self._has_no_work))
        beside += self._returns()
        if self._ending.endless:
            beside.append(revisit_beside(self._revisit))
        self._beside.group = group
        self._beside.begin(beside)

    def is_over(self, now: float) -> bool:
        """Return whether the worker may drop the run. Stops the run if a limit is reached."""
        life = self.life
        if life.is_over:
            return True
        if life.reason is None:
            # In a partitioned crawl, pages are counted elsewhere.
            limit = life.limit_reached(now, self.job.counters.pages_fetched if self._member is None else 0)
            if limit is Stop.MAX_TIME:
                self.stop(limit)
            elif not self._visits and self._ending.ends_crawl():
                self._end(Stop.FINISHED)
                if (host := self.visitor.elsewhere) is not None:
                    log.warning("%s %s: %s", ELSEWHERE, host, WIDER)
            elif limit is not None and self._ending.may_stop_early():
                self.stop(limit)
        if life.reason is not None and not self._visits and not life.is_over:
            # If the limit was reached with the very last URL, the crawl is finished, not stopped.
            finished = life.reason is not Stop.INTERRUPTED and self._ending.ends_crawl()
            self._end(Stop.FINISHED if finished else life.reason)
        return life.is_over

    def take(self, now: float) -> Lease | None:
        """Return the next lease; None if no host is ready or the run hands out no URLs."""
        lease = self.job.frontier.take(now) if self._may_take() else None
        if lease is not None:
            self._line.detector.taken(lease)
        return lease

    def refuse(self, lease: Lease) -> bool:
        """Finish a URL without a request if it may not be fetched. Returns whether the URL was finished."""
        return self.visitor.refuse(lease)

    def still_wants(self, lease: Lease) -> bool:
        """Return whether a lease that had to wait may still be visited."""
        politeness = lease.host.politeness
        serving = self.life.serves and not self.life.held and self.job.blocked is None
        return serving and not self._line.detector.bars(lease) and not (politeness.paused or politeness.blocked)

    def release(self, lease: Lease) -> None:
        """Take back a lease that will not be visited."""
        self.job.frontier.release(lease)
        self.wake()

    def visit(self, lease: Lease, group: asyncio.TaskGroup) -> asyncio.Task[None]:
        """Start a visit, which ends the lease."""
        visit = group.create_task(self.visitor.visit(lease))
        self._visits[visit] = lease
        visit.add_done_callback(self._visits.pop)
        return visit

    def next_limit(self, now: float) -> float:
        """Return when the time limit is reached or hours start, in seconds since 1970; infinity: never."""
        life, opens = self.life, self.job.revisiting.timetable.opens(now)
        limit = inf if life.deadline is None or life.reason is not None else life.deadline
        return min(limit, opens) if opens > now else limit

    def next_lease(self) -> float:
        """Return when ``take`` will give a lease if nothing changes, in seconds since 1970; infinity: never."""
        ready = self.job.frontier.next_ready() if self._may_take() else None
        return inf if ready is None else ready

    def break_off(self) -> None:
        """Abort the run at once: the worker has failed, or another process now owns the job. URLs in flight stay
        pending; the caller must cancel their tasks (``release_all``)."""
        self.life.end(None)
        self._leave()

    def release_all(self) -> None:
        """Cancel all visits: their URLs stay pending."""
        for visit in self._visits:
            visit.cancel()

    async def end_tasks(self) -> None:
        """Wait until the tasks of a run that is over have ended."""
        tasks = [*self._visits, *self._beside.tasks, *self._line.tasks]
        if tasks:
            await asyncio.wait(tasks)

    # -- calls of users -----------------------------------------------------------------------------------------

    def stop(self, reason: Stop = Stop.INTERRUPTED) -> None:
        """Stop handing out URLs. Requests in flight get a few seconds to finish; then they are released and stay
        pending."""
        if reason is Stop.INTERRUPTED:
            self.keeper.hurry()
        if self.life.stop(reason):
            self._wake(True)
            self._line.close()
            asyncio.get_running_loop().call_later(GRACE, self.release_all)
            if reason is Stop.MAX_PAGES:
                self._release_side_requests()

    def finish(self) -> None:
        """Finish the run: the crawl that this partition belongs to is over."""
        self.stop(Stop.FINISHED)

    @property
    def is_idle(self) -> bool:
        """True if nothing is left to do or to send, now or later, unless URLs arrive from outside. Only state that a
        restart would find as well counts."""
        return self._ending.is_reached()

    @property
    def is_spent(self) -> bool:
        """True if the run has fetched all pages of its allowance, and nothing is in flight. Other partitions may still
        raise the allowance."""
        most = None if self._member is None else self._member.allowance()
        spent = most is not None and self.job.counters.pages_fetched >= most
        return spent and not self._visits and self._ending.seeds_read and self.job.blocked is None

    def change(self, settings: Settings) -> None:
        """Apply changed settings; only those that can change during a crawl may differ. Raises OSError."""
        reconsidering = self.job.change(settings)
        self.visitor.change(settings)
        self.life.change(settings.crawl)
        self.gauges.states.sites = Sites(settings)
        if not self.life.is_over:
            self._beside.begin([self._reconsider(reconsidering), *self._returns()])
        self._wake(True)  # the rate may have changed

    def hold(self) -> None:
        """Pause: hand out no URLs until ``go_on``. Requests in flight finish. The pause ends with the run."""
        self.life.held = True

    def go_on(self) -> None:
        self.life.held = False
        self.wake()

    def note_failure(self, text: str) -> None:
        """Add a failure to the events."""
        self.job.events.add(self._context.clock(), Kind.ERROR, text)

    def wake(self) -> None:
        """Make the worker look for a ready host again, because something has changed."""
        self._wake(False)

    @property
    def paused(self) -> Pause | None:
        """Why the run hands out no URLs although it is not over; None if it hands out URLs."""
        if self.job.blocked is not None:
            return Pause(PausedBy.DISK, self.job.blocked)
        if self.life.held:
            return Pause(PausedBy.USER)
        if self._line.outage is not None:
            return Pause(PausedBy.OUTAGE, self._line.outage)
        now, timetable = self._context.clock(), self.job.revisiting.timetable
        if (opens := timetable.opens(now)) > now:
            return Pause(PausedBy.SCHEDULE, timetable.shown(opens))
        if timetable.has_rounds and self._waits_for_a_round(now):
            due = self.job.revisiting.next_due()
            return Pause(PausedBy.ROUND, timetable.shown(timetable.next_round(now) if due is None else due))
        opening = None if self._visits or self.life.reason is not None else self.job.frontier.opening()
        if opening is None or opening <= now:
            return None
        return Pause(PausedBy.HOURS, datetime.fromtimestamp(opening, UTC).strftime("%Y-%m-%d %H:%M:%SZ"))

    def stats(self) -> dict[str, Any]:
        """Return the statistics that every view of the crawl shows."""
        job, life, gauges, pause, now = self.job, self.life, self.gauges, self.paused, self._context.clock()
        state = State.PAUSED if pause is not None and life.state is State.RUNNING else life.state
        ledger = None if job.ledger is None else job.ledger.counts
        reason, is_running = life.reason, state is State.RUNNING
        is_cut = reason not in (None, Stop.FINISHED)
        shown = {
            "elapsed_seconds": now - life.started_at,
            "seeds_rejected": self.incoming.seeds_rejected,
            "paused": None if pause is None else pause_text(pause),
            "paused_by": None if pause is None else pause.by,
            "stopped": stop_text(life) if is_cut else None,
            "stopped_by": reason if is_cut else None,
            "memory_bytes": resident_memory(),
            "loop_stall_seconds": self._context.lag.figures(),
            "loop_stalls": self._context.lag.stall_figures(),
            "commits": job.writer.commits,
            "outage": self._line.figures(now),
            "slots": asdict(self.slots),
            "proxies": gauges.proxies.figures(),
            "text_failed": self._context.texts.failed,
            "hooks": {name: each.as_json() for name, each in self._context.code.figures.items()},
            "pages_parsed": self.visitor.parsed,
            "pages_per_second": gauges.observed.pages_per_second if is_running else None,
        }
        if self._member is not None:
            shown["messages_waiting"] = dict(zip(("count", "seconds"), self._member.lag(), strict=True))
        in_flight, pace = job.counters.pending - job.frontier.queued, gauges.observed.pace if is_running else None
        figures = RunFigures(shown, in_flight, pace, self.visitor.harvest)
        kept = len(job.checkpointer.generations.numbers())
        stored = JobFigures(
            job.counters,
            job.seen.statistics(),
            job.checkpointer.manifest,
            ledger,
            kept,
            gauges.disk_free,
            job.files.outputs.sizes() | markdown_size(job.directory),
            job.revisiting.enabled,
        )
        return assemble(stored, gauges.hosts, figures, state=state, now=now, ahead=gauges.ahead)

    def _runs(self) -> bool:
        """Return whether the run hands out URLs."""
        return self.paused is None and self.life.state is State.RUNNING

    @property
    def slots(self) -> SlotFigures:
        """The use of the slots, and why hosts that are due wait."""
        capacity, serving, (quick, new, slow) = self._context.capacity(), self.serving, self.job.frontier.slots_held
        words = ("", "new", "slow", "quick")
        return SlotFigures(
            capacity.slots,
            capacity.free,
            quick,
            new,
            slow,
            serving.bar,
            self._reason() if serving.bar is Bar.CRAWL else None,
            [word for word, may in zip(words, serving.kinds, strict=True) if not may],
            serving.slow_from,
            capacity.rate,
            capacity.waiting,
        )

    @property
    def serving(self) -> Serving:
        """The service that a due host gets from the run now."""
        capacity, frontier, bar = self._context.capacity(), self.job.frontier, None
        if not self.life.is_over and not self._may_take():
            bar = Bar.CRAWL
        elif capacity.waiting:
            bar = Bar.RATE
        elif not capacity.free:
            bar = Bar.SLOT
        return frontier.serving(bar)

    def _reason(self) -> str:
        """Return why the run hands out no URLs."""
        if (pause := self.paused) is not None:
            return pause_text(pause)
        if self.life.reason is not None:
            return "it is stopping"
        if self._line.detector.holds:
            return "many hosts failed at the same time, so hosts that answered before are being checked"
        if self._member is not None and not self._member.may_request():
            return "another process may own its partition now"
        return "crawl.max_pages is reached"

    # -- internals ----------------------------------------------------------------------------------------------

    async def _read_seeds(self, seeds: AsyncIterator[list[str]]) -> None:
        noted = self._member is not None and self._member.has_seeds
        if noted:
            await note_seeds(self.job, read=False)
        await self.incoming.admit_seeds(seeds)
        if noted:
            await note_seeds(self.job, read=True)
        self._ending.seeds_read = True
        self._context.wake()

    def _returns(self) -> list[Coroutine[Any, Any, None]]:
        """Return the coroutines that requeue URLs that a rule or a limit left out and that this run now admits."""
        job = self.job
        return [return_beside(job.sync, job.room, self._return)] if job.left_out.left else []

    async def _reconsider(self, steps: Iterator[None]) -> None:
        for _ in steps:
            self._context.wake()
            await asyncio.sleep(0)
        self._context.wake()

    def _may_take(self) -> bool:
        life, member = self.life, self._member
        if not life.serves or life.held or self._line.detector.holds or self.job.blocked is not None:
            return False
        if member is not None and not member.may_request():
            return False
        now = self._context.clock()
        if self.job.revisiting.timetable.opens(now) > now:
            return False
        most = life.max_pages if member is None else member.allowance()
        if most is None:
            return True
        left = most - self.job.counters.pages_fetched
        return left > len(self._visits) or left > self._pages_to_come()

    def _pages_to_come(self) -> int:
        """Return how many visits may still become pages: requests for robots.txt, address lookups and failed requests
        do not count. A host that does not answer must not block the last places under ``max_pages``."""
        return sum(lease.entry is not None for lease in self._visits.values()) - self._line.urls_in_doubt

    def _waits_for_a_round(self, now: float) -> bool:
        """Return whether nothing is left to do until pages are due again."""
        pending = self.job.counters.pending or not self._ending.seeds_read or self.life.reason is not None
        return not pending and not self.job.revisiting.is_due(now)

    def _has_no_work(self) -> bool:
        return not self.job.frontier.queued and not self._visits

    def _decide(self, limit: int) -> int:
        decided = self.job.decide(limit, self._context.clock()).looked_up
        self._context.wake()
        return decided

    def _revisit(self) -> bool:
        more = self.life.reason is None and self.job.revisit(self._context.clock())
        if more:
            self._context.wake()
        return more

    def _return(self) -> bool:
        more = self.job.change_hosts(self.job.left_out.step)
        self._context.wake()
        return more

    def _release_side_requests(self) -> None:
        """Cancel robots.txt requests and address lookups: no more pages follow from them, and they may take a long
        time."""
        for visit, lease in self._visits.items():
            if lease.entry is None:
                visit.cancel()

    def _end(self, reason: Stop) -> None:
        self.life.end(reason)
        self._leave()
        self.gauges.settle()

    def _leave(self) -> None:
        self._beside.end()
        self._line.leave()
        self.keeper.close()
        self.visitor.close()


class _Beside:
    """The background tasks of a run."""

    def __init__(self, first: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self.first = first
        self.group: asyncio.TaskGroup | None = None  # the task group of the worker
        self.tasks: list[asyncio.Task[None]] = []

    def begin(self, coroutines: Iterable[Coroutine[Any, Any, None]]) -> None:
        assert self.group is not None, "the run has not started"
        self.tasks = [task for task in self.tasks if not task.done()]
        self.tasks += [self.group.create_task(each) for each in coroutines]

    def end(self) -> None:
        for task in self.tasks:
            task.cancel()


def _fenced(proxies: ProxyWatch, member: Membership | None, job: Job, context: Context) -> Fetches:
    clock, frontier = context.clock, job.frontier

    def wait(href: str) -> float:
        now = clock()
        return frontier.send(href, now) - now

    return FencedNetwork(context.fetcher, wait, None if member is None else member.may_request, proxies.note)


def stop_text(life: Lifecycle) -> str | None:
    """Return the message for the limit that stopped a run, and how to continue; None if no limit did."""
    match life.reason:
        case Stop.MAX_PAGES:
            limit = "" if life.max_pages is None else f" of {counted(life.max_pages, 'page')}"
            return f"the limit{limit} was reached; raise --max-pages to continue"
        case Stop.MAX_TIME:
            limit = "" if life.deadline is None else f" of {duration(life.deadline - life.started_at)}"
            return f"--max-time{limit} was reached; run the same command to continue"
        case Stop.MIN_FREE:
            return "less disk space is free than --min-free; free some, or lower the limit"
        case Stop.READER_LEFT:
            return "standard output was closed; run the same command to resume"
        case _:
            return None  # user functions state the reason themselves


def pause_text(pause: Pause) -> str:
    """Return the message for a pause in ``stats``."""
    match pause.by:
        case PausedBy.USER:
            return "paused by user"
        case PausedBy.DISK:
            return f"disk full: {pause.detail}"
        case PausedBy.OUTAGE:
            return f"outage: {pause.detail}"
        case PausedBy.SCHEDULE:
            return f"outside the hours of its schedule, until {pause.detail}"
        case PausedBy.ROUND:
            return f"everything is done; the next round starts at {pause.detail}"
        case PausedBy.HOURS:
            return f"outside the hours of all waiting hosts, until {pause.detail}"
