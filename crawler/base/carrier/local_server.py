"""The carrier of one machine: one process keeps it in memory and serves it to the other processes on a Unix socket.

Anyone who can open the socket has full access, so its file has mode 0600.
"""

from __future__ import annotations

import asyncio
import os
import socket
import stat
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import Raw
from msgspec.structs import astuple

from crawler.base.carrier.local_frames import (
    SOCKET_NAME,
    VERSION,
    Cancel,
    Done,
    Failed,
    NonsenseError,
    Read,
    Verb,
    decode_request,
    encode,
    framed,
    greet,
    read_frame,
    short_address,
)
from crawler.base.carrier.memory_carrier import MemoryCarrier
from crawler.base.carrier.verbs import CarrierError, CarrierFullError, CarrierRefusedError, StaleEpochError
from crawler.base.disk import PRIVATE_FILE

_BACKLOG = 128
_MOST_READS = 1_024  # maximum number of waiting reads per peer


class LocalServer:
    """Serves a carrier on a socket in a directory until it is closed."""

    def __init__(self, directory: Path, carrier: MemoryCarrier | None = None) -> None:
        self.path = directory / SOCKET_NAME
        self._carrier = MemoryCarrier() if carrier is None else carrier
        self._server: asyncio.Server | None = None
        self._file: tuple[int, int] | None = None
        self._peers: dict[asyncio.Task[None], _Peer] = {}

    async def start(self) -> None:
        """Start serving, replacing the socket of a process that has died.

        Raises CarrierRefusedError if another process serves there, or if serving is impossible.
        """
        try:
            listening = await asyncio.to_thread(self._listen)
        except OSError as error:
            raise CarrierRefusedError(f"cannot serve the carrier at {self.path}: {error.strerror or error}") from error
        self._server = await asyncio.start_unix_server(self._serve, sock=listening, backlog=_BACKLOG)

    async def until_left(self, patience: float) -> bool:
        """Wait until all peers have disconnected, for at most ``patience`` seconds. Returns True if all have
        disconnected."""
        try:
            async with asyncio.timeout(patience):
                while self._peers:
                    await asyncio.wait(list(self._peers))
        except TimeoutError:
            return False
        return True

    async def close(self) -> None:
        """Drop all peers and remove the socket."""
        if self._server is None:
            return
        self._server.close()
        self._server = None
        for peer in self._peers.values():
            peer.drop()
        if self._peers:
            await asyncio.wait(list(self._peers))
        with suppress(OSError):  # another process has removed the file
            if _identity(self.path) == self._file:
                self.path.unlink()

    def _listen(self) -> socket.socket:
        """Listen on the socket. The socket's file gets its name only once it has its final mode and the socket is
        listening."""
        self._make_room()
        made = self.path.with_name(f".{SOCKET_NAME}.{os.getpid()}")
        made.unlink(missing_ok=True)
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            with short_address(made) as address:
                listening.bind(address)
            made.chmod(PRIVATE_FILE)
            listening.listen(_BACKLOG)
            self._file = _identity(made)
            made.rename(self.path)
        except OSError:
            listening.close()
            made.unlink(missing_ok=True)
            raise
        return listening

    def _make_room(self) -> None:
        try:
            mode = self.path.lstat().st_mode
        except FileNotFoundError:
            return
        if not stat.S_ISSOCK(mode):
            raise CarrierRefusedError(f"{self.path} is not a socket: move it elsewhere")
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe, short_address(self.path) as address:
            try:
                probe.connect(address)
            except (ConnectionRefusedError, FileNotFoundError):
                return
        raise CarrierRefusedError(f"another process serves the carrier at {self.path}: stop it first")

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        peer = self._peers[task] = _Peer(self._carrier, reader, writer)
        try:
            await peer.converse()
        finally:
            del self._peers[task]
            peer.drop()


class _Peer:
    """One connection. Each waiting read runs as a task; all other requests are handled at once, in order."""

    def __init__(self, carrier: MemoryCarrier, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._carrier = carrier
        self._reader = reader
        self._writer = writer
        self._reads: dict[int, asyncio.Task[None]] = {}

    def drop(self) -> None:
        """End the connection and its waiting reads."""
        self._writer.transport.abort()
        for read in self._reads.values():
            read.cancel()

    async def converse(self) -> None:
        """Answer requests until the other side disconnects. A peer that does not follow the protocol is dropped, and
        gets no answer other than the version."""
        with suppress(NonsenseError, TimeoutError, EOFError, OSError):
            if await greet(self._reader, self._writer) == VERSION:
                while True:
                    await self._take(decode_request(await read_frame(self._reader)))

    async def _take(self, request: Verb | Cancel) -> None:
        if isinstance(request, Cancel):
            read = self._reads.get(request.call)
            if read is not None:
                read.cancel()
        elif isinstance(request, Read):
            if request.call in self._reads or len(self._reads) >= _MOST_READS:
                raise NonsenseError("too many waiting reads")
            task = asyncio.create_task(self._answer(request))
            self._reads[request.call] = task
            task.add_done_callback(lambda done: self._reads.pop(request.call, None))
        else:
            await self._answer(request)

    async def _answer(self, request: Verb) -> None:
        try:
            answer: Done | Failed = Done(request.call, Raw(encode(await self._do(request))))
        except (CarrierError, StaleEpochError) as error:
            stale, full = isinstance(error, StaleEpochError), isinstance(error, CarrierFullError)
            answer = Failed(request.call, stale=stale, text=str(error), full=full)
        if not self._writer.is_closing():
            self._writer.write(framed(answer))
            with suppress(OSError):  # the peer has disconnected; the code that reads detects this
                await self._writer.drain()

    async def _do(self, request: Verb) -> Any:
        """Call the carrier's method for this request, with the arguments in the request."""
        _, *arguments = astuple(request)
        return await getattr(self._carrier, str(request.__struct_config__.tag))(*arguments)


def _identity(path: Path) -> tuple[int, int]:
    found = path.lstat()
    return found.st_dev, found.st_ino
