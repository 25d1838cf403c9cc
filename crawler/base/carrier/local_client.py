"""The client of a carrier that another process on this machine serves (see ``local_server``)."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import msgspec

from crawler.base.carrier.local_frames import (
    PATIENCE,
    VERSION,
    Append,
    Cancel,
    Claim,
    Done,
    Failed,
    Get,
    Last,
    NonsenseError,
    Put,
    Read,
    Renew,
    Trim,
    Verb,
    decode_answer,
    framed,
    greet,
    read_frame,
    short_address,
)
from crawler.base.carrier.memory_carrier import check_values
from crawler.base.carrier.verbs import (
    CarrierError,
    CarrierFullError,
    CarrierRefusedError,
    Entry,
    Order,
    Position,
    StaleEpochError,
)

T = TypeVar("T")


class LocalCarrier:
    """A ``Carrier`` on a Unix socket.

    It connects on the first call. When the server ends, waiting calls fail, and the next call connects again.
    """

    def __init__(self, path: Path, patience: float = PATIENCE) -> None:
        """``patience`` is the time to wait for an answer, in seconds."""
        self._path = path
        self._patience = patience
        self._calls = itertools.count(1)
        self._connecting = asyncio.Lock()
        self._connection: _Connection | None = None

    async def append(self, stream: str, writer: str, epoch: int, entries: Sequence[bytes]) -> Position:
        """See ``Carrier``."""
        return await self._ask(Append(next(self._calls), stream, writer, epoch, entries), str)

    async def read(self, after: Mapping[str, Position], most: int, wait: float) -> dict[str, list[Entry]]:
        """See ``Carrier``."""
        return await self._ask(Read(next(self._calls), after, most, wait), dict[str, list[Entry]], wait)

    async def trim(self, stream: str, upto: Position) -> None:
        """See ``Carrier``."""
        await self._ask(Trim(next(self._calls), stream, upto), type(None))

    async def last(self, streams: Sequence[str]) -> list[Position]:
        """See ``Carrier``."""
        return await self._ask(Last(next(self._calls), streams), list[str])

    async def claim(self, name: str, holder: str, floor: int, seconds: float) -> int | None:
        """See ``Carrier``."""
        epoch = await self._ask(Claim(next(self._calls), name, holder, floor, seconds), object)
        return epoch if isinstance(epoch, int) else None

    async def renew(self, name: str, holder: str, epoch: int, seconds: float) -> bool:
        """See ``Carrier``."""
        return await self._ask(Renew(next(self._calls), name, holder, epoch, seconds), bool)

    async def put(self, name: str, values: Mapping[str, bytes], order: Order | None = None) -> bool:
        """See ``Carrier``."""
        check_values(values)
        return await self._ask(Put(next(self._calls), name, values, order), bool)

    async def get(self, names: Sequence[str], key: str) -> list[bytes | None]:
        """See ``Carrier``."""
        return await self._ask(Get(next(self._calls), names, key), list[bytes | None])

    async def close(self) -> None:
        """Close the connection. Any later call connects again."""
        if self._connection is not None:
            await self._connection.close()
            self._connection = None

    async def _ask(self, request: Verb, result: type[T], wait: float = 0) -> T:
        try:
            async with asyncio.timeout(self._patience + wait):
                connection = await self._connected()
                answer = await connection.ask(request)
        except TimeoutError as error:
            # The connection is dropped, because its unsent data would otherwise grow with each try.
            await self.close()
            raise CarrierError(f"no answer from {self._path} within {self._patience:g} seconds") from error
        if isinstance(answer, Failed):
            if answer.stale:
                raise StaleEpochError(answer.text)
            raise (CarrierFullError if answer.full else CarrierError)(answer.text)
        try:
            return msgspec.msgpack.decode(answer.result, type=result)
        except (msgspec.MsgspecError, ValueError) as error:
            await connection.close()
            raise CarrierError(f"{self._path}: the answer does not match the request") from error

    async def _connected(self) -> _Connection:
        async with self._connecting:
            if self._connection is None or self._connection.gone:
                if self._connection is not None:
                    await self._connection.close()
                    self._connection = None
                self._connection = await _connect(self._path)
            return self._connection


class _Connection:
    """One connection, and the calls that wait for an answer over it."""

    def __init__(self, path: Path, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.gone = False
        self._path = path
        self._writer = writer
        self._waiting: dict[int, asyncio.Future[Done | Failed]] = {}
        self._listening = asyncio.create_task(self._listen(reader))

    async def ask(self, request: Verb) -> Done | Failed:
        """Send a request and return its answer. Raises CarrierError."""
        if self.gone:
            raise CarrierError(f"the carrier at {self._path} has gone")
        answer: asyncio.Future[Done | Failed] = asyncio.get_running_loop().create_future()
        self._waiting[request.call] = answer
        try:
            self._writer.write(framed(request))
            await self._drain()
            return await answer
        except asyncio.CancelledError:
            if isinstance(request, Read) and not self.gone:
                self._writer.write(framed(Cancel(request.call)))
            raise
        finally:
            del self._waiting[request.call]

    async def close(self) -> None:
        self._end("was closed")
        self._listening.cancel()
        await asyncio.wait([self._listening])
        with suppress(OSError):
            await self._writer.wait_closed()

    async def _drain(self) -> None:
        try:
            await self._writer.drain()
        except OSError as error:
            raise CarrierError(f"the carrier at {self._path} has gone: {error.strerror or error}") from error

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        try:
            while True:
                answer = decode_answer(await read_frame(reader))
                waiting = self._waiting.get(answer.call)
                if waiting is not None and not waiting.done():
                    waiting.set_result(answer)
        except (NonsenseError, EOFError, OSError) as error:
            self._end("sent an unexpected answer" if isinstance(error, NonsenseError) else "has gone")

    def _end(self, why: str) -> None:
        self.gone = True
        self._writer.transport.abort()
        for call, answer in self._waiting.items():
            if not answer.done():
                answer.set_result(Failed(call, stale=False, text=f"the carrier at {self._path} {why}"))


async def _connect(path: Path) -> _Connection:
    """Connect and exchange versions. The caller must limit the time that this takes. Raises CarrierError and
    CarrierRefusedError."""
    try:
        with short_address(path) as address:
            reader, writer = await asyncio.open_unix_connection(address)
    except PermissionError as error:
        raise CarrierRefusedError(f"no permission for {path}: run as the user who started the crawl") from error
    except OSError as error:
        raise CarrierError(f"no carrier at {path}: {error.strerror or error}") from error
    try:
        version = await greet(reader, writer)
    except NonsenseError as error:
        writer.transport.abort()
        raise CarrierRefusedError(f"{path} is not the socket of a crawl's carrier: name that socket") from error
    except (EOFError, OSError) as error:  # includes TimeoutError
        writer.transport.abort()
        raise CarrierError(f"no carrier at {path}: it sends no greeting") from error
    except BaseException:
        writer.transport.abort()
        raise
    if version != VERSION:
        writer.transport.abort()
        raise CarrierRefusedError(
            f"the carrier at {path} uses version {version}, this program {VERSION}: run the same version everywhere"
        )
    return _Connection(path, reader, writer)
