"""Follows a robots.txt redirect to a host in another partition. The owner of that partition fetches the target when it
is the host's turn, respecting the host's gap, and sends back the result. If this process fetched it, two processes
could send requests to one host at once.

Notes may be lost, so the question is repeated until it is answered, or until the redirecting host is due to be tried
again. While the owner works on a question, it ignores repetitions of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Awaitable, Callable, Mapping

from msgspec.structs import astuple, replace

from crawler.base.carrier.verbs import CarrierError
from crawler.cluster.open_partition import OpenPartition
from crawler.job.partition.link_batch_codec import Note
from crawler.job.partition.notes import BODY_MOST, Exchange, RobotsAnswer, RobotsQuestion, encode_note
from crawler.job.partition.placement import Placement
from crawler.web.fetch import Failure, FailureKind, Followed, NotNow, Response
from crawler.web.fetch.fence import FencedOffError
from crawler.web.fetch.outcome import RawExchange, Truncation

AGAIN = 5.0  # seconds after which a question is repeated
PATIENCE = 90.0  # seconds to wait for an answer: the owner waits up to a minute for the host's turn
LATER = 5.0  # seconds until the redirecting host is tried again, if there was no answer

Tell = Callable[[OpenPartition, int, bytes], Awaitable[None]]


class RobotsCoordinator:
    """The questions that the partitions of one process ask, and those that other partitions ask them."""

    def __init__(self, placement: Placement, opened: Mapping[int, OpenPartition], tell: Tell) -> None:
        self._placement = placement
        self._opened = opened
        self._tell = tell
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[RobotsAnswer]] = {}
        self._working: dict[tuple[int, int, int], asyncio.Task[None]] = {}

    def is_elsewhere(self, number: int, address: str) -> bool:
        """Return True if the URL belongs to a partition other than ``number``."""
        return self._placement.of(address) != number

    async def ask(self, number: int, address: str) -> Followed | NotNow:
        """Ask the owner of the URL to fetch it for partition ``number``."""
        loop, question = asyncio.get_running_loop(), RobotsQuestion(next(self._numbers), address)
        answer = self._waiting[question.number] = loop.create_future()
        until = loop.time() + PATIENCE
        try:
            while loop.time() < until:
                partition = self._opened.get(number)
                if partition is None or partition.is_closing:
                    break
                with contextlib.suppress(CarrierError):
                    await self._tell(partition, self._placement.of(address), encode_note(question))
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(AGAIN):
                        return _followed(await asyncio.shield(answer))
        finally:
            del self._waiting[question.number]
            answer.cancel()
        return NotNow(LATER)

    def heard(self, partition: OpenPartition, note: Note, said: RobotsQuestion | RobotsAnswer) -> None:
        """Process a note that the partition received."""
        if isinstance(said, RobotsAnswer):
            waiting = self._waiting.get(said.number)
            if waiting is not None and not waiting.done():
                waiting.set_result(said)
            return
        key = (partition.number, note.sender, said.number)
        if key not in self._working and not self.is_elsewhere(partition.number, said.address):
            work = asyncio.get_running_loop().create_task(self._answer(partition, note.sender, said))
            self._working[key] = work
            work.add_done_callback(lambda _: self._working.pop(key, None))

    async def close(self) -> None:
        """Cancel work on the questions of other partitions."""
        for work in list(self._working.values()):
            work.cancel()
        if self._working:
            await asyncio.wait(list(self._working.values()))

    async def _answer(self, partition: OpenPartition, sender: int, question: RobotsQuestion) -> None:
        try:
            found = await partition.run.visitor.robots.redirect.for_another(question.address)
        except FencedOffError:  # another process may own the partition now; the question will be repeated to that one
            return
        answer = _told(question.number, found)
        with contextlib.suppress(CarrierError):
            await self._tell(partition, sender, encode_note(answer))


def _told(number: int, found: Followed | NotNow) -> RobotsAnswer:
    if isinstance(found, NotNow):
        return RobotsAnswer(number, wait=found.wait)
    answer = found.answer
    if isinstance(answer, Failure):
        return RobotsAnswer(number, failure=answer.kind.value, message=answer.message, age=found.age)
    body = (answer.body or b"")[:BODY_MOST]
    raw = None if answer.raw is None else Exchange(*astuple(answer.raw))
    if raw is not None and len(raw.request) + len(raw.head) + len(raw.body) > BODY_MOST:
        raw = None
    told = RobotsAnswer(number, status=answer.status, location=answer.location, body=body, age=found.age)
    return replace(told, seconds=answer.seconds, raw=raw)


def _followed(told: RobotsAnswer) -> Followed | NotNow:
    if told.wait is not None:
        return NotNow(told.wait)
    if told.status is not None:
        received = len(told.body)
        answer = Response(told.status, {}, None, None, told.body, told.location, None, told.seconds, received)
        if told.raw is not None:
            truncated = None if told.raw.truncated is None else Truncation(told.raw.truncated)
            answer = replace(answer, raw=replace(RawExchange(*astuple(told.raw)), truncated=truncated))
        return Followed(answer, elsewhere=True, age=told.age)
    kind = next((each for each in FailureKind if each.value == told.failure), FailureKind.UNREACHABLE)
    return Followed(Failure(kind, told.message, 0.0), elsewhere=True, age=told.age)
