"""The shards of a set on Redis 7 or later, or Valkey: one server, or a cluster.

The keys of a shard have one hash tag. A request whose answer is lost is repeated for up to ``PATIENCE`` seconds:
requests are numbered, so that none is executed twice.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any

from crawler.base.carrier.redis_servers import Command, RedisServers
from crawler.base.carrier.verbs import CarrierError, CarrierRefusedError
from crawler.seen.shared.shard_geometry import unpack_all
from crawler.seen.shared.shard_requests import (
    NEVER,
    Add,
    Answer,
    Begin,
    End,
    Figures,
    Fill,
    Open,
    Read,
    Request,
    SharedSetError,
    SharedSetRefusedError,
    SliceFigures,
    Status,
)
from crawler.seen.shared.shard_scripts import ADD, BEGIN, END, FIGURES, HASHES, OPEN

PATIENCE = 60.0  # seconds, for a server that restarts or is replaced
_PAUSES = (0.05, 0.1, 0.2, 0.5, 1.0)


class PatientServers:
    """Redis servers for a program without an event loop. Retries while they are unreachable."""

    def __init__(self, servers: RedisServers, patience: float = PATIENCE) -> None:
        self.text = servers.text
        self._servers = servers
        self._patience = patience
        self._loop = asyncio.new_event_loop()

    def ask(self, commands: Sequence[Command], *, again: bool = True) -> list[Any]:
        """Return the answers to the commands. Raises SharedSetError and SharedSetRefusedError. With ``again``, a
        command may be repeated if its answer was lost."""
        begun, tries = time.monotonic(), 0
        while True:
            try:
                return self._loop.run_until_complete(self._servers.ask(commands))
            except CarrierRefusedError as error:
                raise SharedSetRefusedError(str(error)) from error
            except CarrierError as error:
                if not again or time.monotonic() - begun > self._patience:
                    raise SharedSetError(str(error)) from error
            time.sleep(_PAUSES[min(tries, len(_PAUSES) - 1)])
            tries += 1

    def close(self) -> None:
        """Close the connections."""
        if not self._loop.is_closed():
            self._loop.run_until_complete(self._end())
            self._loop.close()

    async def _end(self) -> None:
        await self._servers.close()
        # The loop does not run between calls: cancel the tasks left by a timed-out call, so that their sockets close.
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        await asyncio.sleep(0)


class RedisShards:
    """``Shards`` on Redis servers."""

    def __init__(self, servers: PatientServers, name: str) -> None:
        self._servers = servers
        self._name = name

    def ask(self, requests: Sequence[Request]) -> list[Answer]:
        """See ``Shards``."""
        commands = [self._command(request) for request in requests]
        answers = self._servers.ask(commands)
        counts = [self._count_set(request) for request in requests if isinstance(request, Fill)]
        if counts:
            self._servers.ask(counts)
        return [_read(request, answer) for request, answer in zip(requests, answers, strict=True)]

    def close(self) -> None:
        """See ``Shards``."""
        self._servers.close()

    def _key(self, shard: int, what: str) -> str:
        return f"crawler:seen:{{{self._name}:{shard}}}:{what}"

    def _slices(self, shard: int, slices: int) -> list[str]:
        return [self._key(shard, f"slice:{number}") for number in range(1, slices + 1)]

    def _command(self, request: Request) -> Command:
        shard = request.shard
        state, watched = self._key(shard, "state"), self._key(shard, "watched")
        match request:
            case Open(_, set_, number, geometry, most):
                keys = [state, watched, self._key(shard, f"slice:{number + 1}")]
                return _script(OPEN, keys, (set_, number, geometry.pack(), geometry.size, most))
            case Begin(_, who):
                return _script(BEGIN, [state], (who.set, who.producer, who.session))
            case Add(_, who, slices, number, records):
                keys = [state, watched, *self._slices(shard, slices)]
                kept = "1" if who.keeps else "0"
                return _script(ADD, keys, (who.set, who.producer, who.session, number, records, kept))
            case End(_, who):
                named = "1" if who.keeps else "0"
                return _script(END, [state], (who.set, who.producer, who.session, named))
            case Figures(_, set_, slices, sample, where):
                return _script(FIGURES, [state, watched, *self._slices(shard, slices)], (set_, sample, where))
            case Read(_, number, start, end):
                key = self._key(shard, f"slice:{number + 1}")
                return Command(key, ("GETRANGE", key, start, end - 1))
            case Fill(_, number, start, data, _):
                key = self._key(shard, f"slice:{number + 1}")
                return Command(key, ("SETRANGE", key, start, data))

    def _count_set(self, request: Fill) -> Command:
        state = self._key(request.shard, "state")
        return Command(state, ("HSET", state, f"n:{request.number + 1}", request.held))


def _script(script: str, keys: list[str], arguments: tuple[str | bytes | int, ...]) -> Command:
    return Command(keys[0], ("EVALSHA", HASHES[script], len(keys), *keys, *arguments), script)


def _read(request: Request, answer: Any) -> Answer:
    match request:
        case Read():
            return Answer(Status.DONE, data=answer)
        case Fill():
            return Answer(Status.DONE)
    status = Status(answer[0])
    slices = answer[1] if len(answer) > 1 else 0
    if status is not Status.DONE:
        return Answer(status, slices)
    match request:
        case Begin():
            return Answer(status, slices, claims=answer[2])
        case Add():
            return Answer(status, slices, answer[2], answer[3])
        case Figures():
            parts = tuple(SliceFigures(unpack_all(packed)[0], *rest) for packed, *rest in answer[2])
            return Answer(status, slices, NEVER, parts=parts, watched=answer[3], wrong=answer[4])
        case _:
            return Answer(status, slices)
