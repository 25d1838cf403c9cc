"""Keeps a fixed number of a crawl's worker processes running on this machine, and replaces each one that dies.

A worker may be killed by a signal, for example when the machine runs out of memory, or end with an error. Either way
nothing is lost, and a replacement starts after a pause that doubles. If workers keep dying without a page fetched in
between, the crawl stops, and the last error is reported.

When the directory is drained, its workers hand over their partitions, and none is replaced.

All workers end when this process ends, for whatever reason: the kernel kills them, and they also end when their
channels close.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence

from msgspec import Struct

from crawler.cluster.worker_channel import (
    Channel,
    Ended,
    Failed,
    Halt,
    Instructions,
    Message,
    Refusal,
    Reread,
    Said,
)
from crawler.engine.lifecycle import Stop

DESCRIPTOR = "--channel"  # the flag that passes the inherited socket's descriptor
FIRST_PAUSE = 0.1  # seconds before a worker that died at once is replaced; doubles ...
MOST_PAUSE = 2.0  # ... up to this
LAST_BREATH = 5.0  # seconds for which a worker may keep running after its channel has closed
MOST_ERRORS = 4  # the crawl stops after this many worker errors without a page fetched in between
MOST_DEATHS = 25  # ... or this many deaths for any reason


class Plan(Struct, frozen=True):
    """``words``: the command that starts a worker, without its descriptor. ``environment``: the workers' environment.
    ``instructions`` returns the instructions for a worker, by its number; ``reread`` reads the configuration again, and
    then returns the instructions for a worker. ``pages`` returns the number of pages that the crawl is known to have
    fetched. ``drains`` returns True if the workers are asked to leave for good."""

    words: Sequence[str]
    environment: dict[str, str]
    processes: int
    instructions: Callable[[int], Instructions]
    reread: Callable[[int], Awaitable[Instructions | Refusal]]
    pages: Callable[[], int]
    drains: Callable[[], bool] = lambda: False


class Outcome(Struct, frozen=True):
    """How the workers ended. ``failed``: the error that ended the crawl, if any. ``drained``: they were asked to
    leave."""

    reason: Stop
    seeds_fetched: int
    last_seed_error: str | None
    failed: Failed | None
    drained: bool = False


class Supervisor:
    """Starts the workers and waits for them to end. ``say`` prints a line."""

    def __init__(self, plan: Plan, say: Callable[[str], None]) -> None:
        self._plan = plan
        self._say = say
        self._workers: dict[int, _Worker] = {}
        self._reason: Stop | None = None  # why workers are no longer replaced
        self._over = asyncio.Event()
        self._drained = False
        self._failed: Failed | None = None
        self._ended = list[Ended]()
        self._patience = _Patience(plan.pages)

    @property
    def pids(self) -> list[int]:
        """The pids of the running workers."""
        return [worker.process.pid for worker in self._workers.values()]

    async def run(self) -> Outcome:
        """Keep the workers running until the crawl is over or is stopped. Raises OSError if none can be started."""
        try:
            async with asyncio.TaskGroup() as group:
                for number in range(self._plan.processes):
                    group.create_task(self._keep(number))
        except* OSError as errors:
            raise errors.exceptions[0] from None
        errors_of_seeds = [each.last_seed_error for each in self._ended if each.last_seed_error is not None]
        return Outcome(
            self._reason or (Stop.INTERRUPTED if self._drained else Stop.FINISHED),
            sum(each.seeds_fetched for each in self._ended),
            errors_of_seeds[-1] if errors_of_seeds else None,
            self._failed,
            self._drained,
        )

    def stop(self, reason: Stop) -> None:
        """Ask all workers to shut down cleanly. If this is called repeatedly, the first ``reason`` is kept."""
        if self._reason is None:
            self._reason = reason
            self._over.set()
            for worker in self._workers.values():
                worker.channel.tell(Halt(reason))

    def kill(self) -> None:
        """Kill all workers at once; everything they have written is kept."""
        for worker in self._workers.values():
            worker.kill()

    async def _keep(self, number: int) -> None:
        """Keep one worker running."""
        while self._reason is None:
            worker = self._workers[number] = await _started(self._plan, number)
            if self._reason is not None:  # stopped while it was starting
                worker.channel.tell(Halt(self._reason))
            try:
                last = await self._listen(worker, number)
            finally:
                del self._workers[number]
            if isinstance(last, Ended):
                self._ended.append(last)
                if last.reason is not Stop.INTERRUPTED:
                    self._end(last.reason)
                    return
                if self._leaves():
                    return
            pause = self._judge(number, last, worker.process.returncode)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._over.wait(), pause)

    async def _listen(self, worker: _Worker, number: int) -> Message | None:
        """Forward the worker's messages until it ends, and return its last one; None if it died without one."""
        last: Message | None = None
        try:
            while (message := await worker.channel.heard()) is not None:
                if isinstance(message, Said):
                    self._say(message.text)
                elif isinstance(message, Reread):
                    worker.channel.tell(await self._plan.reread(number))
                else:
                    last = message
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LAST_BREATH):
                    await worker.process.wait()
        finally:
            worker.kill()
            await worker.channel.close()
            await worker.process.wait()
        return last

    def _end(self, reason: Stop) -> None:
        """Stop, because a worker reports that the crawl is over. Other workers detect the end of a crawl themselves,
        but not a reached limit."""
        if reason is not Stop.FINISHED:
            self.stop(reason)
        elif self._reason is None:
            self._reason = reason
            self._over.set()

    def _leaves(self) -> bool:
        """Return True if an interrupted worker was asked to leave for good, as a drain asks all workers."""
        if not self._drained and self._reason is None and self._plan.drains():
            self._drained = True
            self._say("this directory is drained: no more workers are started here")
        return self._drained

    def _judge(self, number: int, last: Message | None, code: int | None) -> float:
        """Return how long to wait before the worker is replaced; end the crawl if workers have died too often."""
        if self._reason is not None:
            return 0.0
        failed = last if isinstance(last, Failed) else None
        hopeless = self._patience.is_over(number, failed)
        if hopeless or (failed is not None and (failed.final or failed.damaged)):
            self._failed = failed or Failed(f"the worker processes keep dying: {_words(code)}", final=False)
            self.stop(Stop.INTERRUPTED)
            return 0.0
        if failed is not None and self._patience.is_new(failed):
            self._say(f"worker {number} stopped: {failed.text}; starting a replacement")
        elif failed is None and not isinstance(last, Ended):
            self._say(f"worker {number} died: {_words(code)}; starting a replacement")
        return self._patience.pause(number)


class _Worker(Struct):
    process: asyncio.subprocess.Process
    channel: Channel

    def kill(self) -> None:
        """Kill the process, if it still runs. This avoids its ``send_signal``, which may consume the exit code that
        another task waits for."""
        if self.process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.process.pid, signal.SIGKILL)


class _Patience:
    """Counts worker deaths since the last page."""

    def __init__(self, pages: Callable[[], int]) -> None:
        self._pages = pages
        self._known = 0
        self._deaths = Counter[int]()
        self._errors = 0
        self._told = set[str]()

    def pause(self, number: int) -> float:
        """Return how long to wait before replacing that worker."""
        return float(min(MOST_PAUSE, FIRST_PAUSE * 2 ** max(0, self._deaths[number] - 1)))

    def is_over(self, number: int, failed: Failed | None) -> bool:
        """Record that the worker died; return True if workers have now died too often."""
        pages = self._pages()
        if pages > self._known:
            self._known, self._errors = pages, 0
            self._deaths.clear()
        self._deaths[number] += 1
        self._errors += failed is not None
        return self._errors >= MOST_ERRORS or self._deaths.total() >= MOST_DEATHS

    def is_new(self, failed: Failed) -> bool:
        """Return True if this error has not been reported to the user yet."""
        new = failed.text not in self._told
        self._told.add(failed.text)
        return new


def _words(code: int | None) -> str:
    if code is not None and code < 0:
        with contextlib.suppress(ValueError):
            return f"by {signal.Signals(-code).name}"
    return f"exit code {code}"


async def _started(plan: Plan, number: int) -> _Worker:
    """Start a worker and give it its instructions. Raises OSError."""
    ours, theirs = socket.socketpair()
    with theirs:
        try:
            process = await asyncio.create_subprocess_exec(
                *plan.words,
                f"{DESCRIPTOR}={theirs.fileno()}",
                stdin=subprocess.DEVNULL,
                env=plan.environment,
                pass_fds=(theirs.fileno(),),
                process_group=0,  # Ctrl-C goes to the first process, which stops the others
            )
        except OSError:
            ours.close()
            raise
    channel = await Channel.over(ours)
    channel.tell(plan.instructions(number))
    return _Worker(process, channel)
