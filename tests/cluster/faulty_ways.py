"""The ways of one simulated process: to the carrier, which may be slow, lose calls, lose answers, do a call twice or
long after its caller has given up; and to the web, which may be cut in one direction or both."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import Context
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeVar

from crawler.base.carrier.memory_carrier import MemoryCarrier
from crawler.base.carrier.verbs import START, CarrierError, Entry, Order, Position, StaleEpochError
from crawler.web.fetch import Failure, FailureKind, Response, fence
from tests.cluster.members import Line
from tests.cluster.witness import Fate, Request, Witness
from tests.simulated_web import SimulatedWeb

T = TypeVar("T")
Said = tuple[str, Mapping[str, bytes]]  # of a name

GIVEN_UP = 20.0  # seconds, of a client without patience of its own
LATE = (4.0, 30.0)  # seconds that a call takes on its way which arrives when nobody waits for it
CONNECTED = (0.0, 0.0, 0.0, 0.05, 0.5)  # seconds until a connection to a server is there


@dataclass(frozen=True)
class Trouble:
    """How bad the carrier is. ``share``: of the calls that go wrong. ``latency``: seconds at most of each way, usually;
    ``slow``: the share of ways that take up to ten times as long, and some seconds."""

    share: float = 0.0
    latency: float = 0.0
    slow: float = 0.0


class Wrong(Enum):
    """What goes wrong with a call."""

    LOST = "lost"  # it never arrives
    UNHEARD = "unheard"  # it is done, and no answer comes
    REFUSED = "refused"  # it is done, and the answer is an error
    TWICE = "twice"  # it arrives once more later
    LATE = "late"  # it is done long after its caller has given up
    AGAIN = "again"  # what was read before is read again


class Way(Enum):
    """What of a way works."""

    UP = "up"
    MUTE = "mute"  # nothing gets out
    DEAF = "deaf"  # nothing comes in


class FaultyLine(Line):
    """The carrier as one process reaches it."""

    def __init__(self, carrier: MemoryCarrier, number: int, seed: int, witness: Witness) -> None:
        super().__init__(carrier)
        self.number = number
        self.chance = random.Random(seed)
        self.trouble = Trouble()
        self.way = Way.UP
        self.web = Way.UP
        self.dies_after: int | None = None  # so many more writes
        self.died = asyncio.Event()  # ... when it does
        self.witness = witness
        self._calls: set[asyncio.Task[None]] = set()  # that are on their way
        self.puts: list[Said] = []  # what is to be put, of these

    def heal(self) -> None:
        """Nothing goes wrong any more."""
        self.is_cut, self.way, self.web, self.trouble = False, Way.UP, Way.UP, Trouble()

    def die(self) -> None:
        """End in the middle of a step."""
        self.is_cut = self.is_dead = True
        self.died.set()

    async def append(self, stream: str, writer: str, epoch: int, entries: Sequence[bytes]) -> Position:
        return await self._call("append", lambda: self._carrier.append(stream, writer, epoch, entries))

    async def read(self, after: Mapping[str, Position], most: int, wait: float) -> dict[str, list[Entry]]:
        if self.chance.random() < self.trouble.share / 5:
            self._count(Wrong.AGAIN, "read")
            after = {name: START if self.chance.random() < 0.5 else position for name, position in after.items()}
        return await self._call("read", lambda: self._carrier.read(after, most, wait))

    async def trim(self, stream: str, upto: Position) -> None:
        return await self._call("trim", lambda: self._carrier.trim(stream, upto))

    async def last(self, streams: Sequence[str]) -> list[Position]:
        return await self._call("last", lambda: self._carrier.last(streams))

    async def claim(self, name: str, holder: str, floor: int, seconds: float) -> int | None:
        began = asyncio.get_running_loop().time()
        epoch = await self._call("claim", lambda: self._carrier.claim(name, holder, floor, seconds))
        if epoch is not None:
            self.witness.claimed(self, name, epoch, began)
        return epoch

    async def renew(self, name: str, holder: str, epoch: int, seconds: float) -> bool:
        began = asyncio.get_running_loop().time()
        if not seconds:
            self.witness.not_claimed(self, name, epoch)  # it is given up, whatever becomes of the call
        renewed = await self._call("renew", lambda: self._carrier.renew(name, holder, epoch, seconds))
        if renewed and seconds > 0:
            self.witness.claimed(self, name, epoch, began)
        else:
            self.witness.not_claimed(self, name, epoch)
        return renewed

    async def put(self, name: str, values: Mapping[str, bytes], order: Order | None = None) -> bool:
        return await self._call("put", lambda: self._carrier.put(name, values, order), (name, values))

    async def get(self, names: Sequence[str], key: str) -> list[bytes | None]:
        return await self._call("get", lambda: self._carrier.get(names, key))

    # -- a call ------------------------------------------------------------------------------------------------

    async def _call(self, verb: str, do: Callable[[], Awaitable[T]], said: Said | None = None) -> T:
        if self.is_cut:
            raise CarrierError("the line is cut")
        wrong = self._fate(verb)
        if wrong is Wrong.LOST or self.way is Way.MUTE:
            return await self._no_answer()
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        there = self.chance.uniform(*LATE) if wrong is Wrong.LATE else self._seconds()
        repeat = self.chance.uniform(0.0, 8.0) if wrong is Wrong.TWICE else None
        # Of a call that was repeated, either answer may be the one that is heard.
        swapped = repeat is not None and self.chance.random() < 0.3
        self._send(verb, do, there, None if swapped or wrong is Wrong.UNHEARD else answer, said)
        if repeat is not None:
            self._send(verb, do, there + repeat, answer if swapped else None, said)
        try:
            async with asyncio.timeout(GIVEN_UP):
                result: T = await answer
        except TimeoutError:
            raise CarrierError("no answer") from None
        if wrong is Wrong.REFUSED:
            raise CarrierError("the connection was reset")
        return result

    def _send(
        self,
        verb: str,
        do: Callable[[], Awaitable[Any]],
        there: float,
        answer: asyncio.Future[Any] | None,
        said: Said | None,
    ) -> None:
        """Let a call go its way, which it goes to its end whatever becomes of the caller."""
        if said is not None:
            self.puts.append(said)
        way = self._way(verb, self._arriving(do, said), there, answer)
        task = asyncio.get_running_loop().create_task(way, context=Context())
        self._calls.add(task)
        task.add_done_callback(self._calls.discard)

    def _arriving(self, do: Callable[[], Awaitable[T]], said: Said | None) -> Callable[[], Awaitable[T]]:
        """The call, which is not on its way any more when it is done."""

        async def arrive() -> T:
            if said is not None:
                self.puts.remove(said)
            return await do()

        return arrive

    async def _way(
        self, verb: str, do: Callable[[], Awaitable[Any]], there: float, answer: asyncio.Future[Any] | None
    ) -> None:
        result: Any = None
        error: Exception | None = None
        if there:
            await asyncio.sleep(there)
        try:
            result = await do()
        except (CarrierError, StaleEpochError) as raised:
            error = raised
        self.witness.note(verb, self.number, result, error)
        if answer is None:
            return
        back = self._seconds()
        if back:
            await asyncio.sleep(back)
        if answer.done() or self.is_cut or self.way is Way.DEAF:
            return
        if error is None:
            answer.set_result(result)
        else:
            answer.set_exception(error)

    async def _no_answer(self) -> Any:
        if self.chance.random() < 0.5:
            await asyncio.sleep(GIVEN_UP)
        raise CarrierError("the server does not answer")

    def _fate(self, verb: str) -> Wrong | None:
        if self.chance.random() >= self.trouble.share:
            return None
        fate = self.chance.choice([Wrong.LOST, Wrong.UNHEARD, Wrong.REFUSED, Wrong.TWICE, Wrong.LATE])
        self._count(fate, verb)
        return fate

    def _seconds(self) -> float:
        trouble, chance = self.trouble, self.chance
        if not trouble.latency:
            return 0.0
        if chance.random() < trouble.slow:
            self.witness.counts["slow calls"] += 1
            return chance.uniform(0.0, 10 * trouble.latency) + chance.choice([0.0, 0.0, 1.0, 3.0])
        return chance.uniform(0.0, trouble.latency)

    def _count(self, wrong: Wrong, verb: str) -> None:
        self.witness.counts[f"{verb}: {wrong.value}"] += 1


class FaultyWeb(SimulatedWeb):
    """The web as one process reaches it. A connection takes a while, and the request is sent after that."""

    def __init__(self, pages: Mapping[str, Any], line: FaultyLine, seconds: float, asked: list[Any]) -> None:
        super().__init__(pages)
        self._line = line
        self._seconds = seconds
        self._log = asked
        self.is_probing: Callable[[], bool] = lambda: False

    async def fetch(self, href: str, **wanted: Any) -> Response | Failure:
        """As ``Fetcher.fetch``."""
        line, chance = self._line, self._line.chance
        slow = line.trouble.share > 0 and chance.random() < 0.02
        await asyncio.sleep(chance.uniform(1.0, 8.0) if slow else chance.choice(CONNECTED))
        await fence.pass_fence()
        if line.is_dead:
            await asyncio.Event().wait()
        if line.web is Way.MUTE:
            return Failure(FailureKind.UNREACHABLE, "no route", 0.0, local=True)
        now = asyncio.get_running_loop().time
        request = Request(href, now(), now() + self._seconds, line)
        line.witness.asks(request, probes=self.is_probing())
        self._log.append(request)
        try:
            await asyncio.sleep(self._seconds)
            if line.web is Way.DEAF:
                await asyncio.sleep(3.0)
                request.fate = Fate.FAILED
                return Failure(FailureKind.HEADERS_TIMEOUT, "no answer", 3.0)
        except BaseException:
            request.end, request.fate = min(request.end, now()), Fate.GIVEN_UP
            raise
        request.fate = Fate.ANSWERED
        return self.answer(href, wanted.get("headers"))
