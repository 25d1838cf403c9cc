"""The world of a program that crawls hostile hosts: names that exist nowhere else, no address but loopback, and a look
at how long its event loop stands still.

``enter`` changes the process that calls it for good. The starter calls it in the fork that becomes the program, which
then runs as it is installed.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import mmap
import os
import socket
import struct
import sys
import time
from collections.abc import Iterator, Mapping
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import aiohttp.connector
from aiohttp.abc import AbstractResolver, ResolveResult

STALL = struct.Struct("d")  # the longest stall, in seconds of processor time
_TICK = 0.005  # seconds between two looks at the clock


def enter(names: Mapping[str, str], stall: str) -> None:
    """Let this process know only ``names`` (host or ``*.domain``: address), and write its longest stall to a file."""
    gate = _Loopback()
    sys.addaudithook(gate)
    # What aiohttp uses unless it is given another.
    aiohttp.connector.DefaultResolver = partial(Names, names)  # type: ignore[misc]
    asyncio.set_event_loop_policy(_Watched(stall, gate))


class Names(AbstractResolver):
    """Knows the names that it is given. ``*.wild.test`` stands for all names below, as in a zone with a wildcard."""

    def __init__(self, names: Mapping[str, str], **_: object) -> None:
        self._names = names

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        address = next((self._names[name] for name in _candidates(host) if name in self._names), None)
        if address is None:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        kind = socket.AF_INET6 if ":" in address else socket.AF_INET
        flags = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
        return [ResolveResult(hostname=host, host=address, port=port, family=kind, proto=0, flags=flags)]

    async def close(self) -> None:
        """There is nothing to close."""


def _candidates(host: str) -> Iterator[str]:
    name = host.lower()
    yield name
    while "." in name:
        name = name.partition(".")[2]
        yield f"*.{name}"


class _Loopback:
    """An audit hook: whatever a page names, no packet leaves the machine and no name service is asked."""

    dialled = False  # a host has been asked, or is about to be

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event in ("socket.connect", "socket.sendto", "socket.sendmsg"):
            address = arguments[1]
            if isinstance(address, tuple):
                if not _is_loopback(address[0]):
                    raise OSError(errno.ENETUNREACH, f"Network is unreachable: {address[0]}")
                self.dialled = True
        elif event == "socket.getaddrinfo" and not _is_loopback(arguments[0]):
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")


def _is_loopback(host: str | bytes | None) -> bool:
    text = host.decode("latin-1") if isinstance(host, bytes) else host
    if text in (None, "", "localhost"):
        return True
    with contextlib.suppress(ValueError):
        return ip_address(text).is_loopback
    return False


class _Watched(asyncio.DefaultEventLoopPolicy):
    """Makes loops that are watched."""

    def __init__(self, stall: str, gate: _Loopback) -> None:
        super().__init__()
        self._stall, self._gate = stall, gate

    def new_event_loop(self) -> asyncio.AbstractEventLoop:
        loop = super().new_event_loop()
        _Watch(loop, self._stall, self._gate).look()
        return loop


class _Watch:
    """A timer of a loop that fires every ``_TICK`` seconds, or after the turn of the loop that keeps it from firing.

    A stall is the processor time of the loop's own thread between two looks. The clock on the wall would also count the
    time in which a busy machine runs something else, and the time of the process what other threads compute beside the
    loop. Before the first connection nobody waits for the loop: a job may be opened in one go.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, path: str, gate: _Loopback) -> None:
        handle = os.open(path, os.O_RDWR)
        self._longest = mmap.mmap(handle, STALL.size)  # what is stored here outlives a SIGKILL
        os.close(handle)
        self._loop, self._gate = loop, gate
        self._used = time.thread_time()

    def look(self) -> None:
        used = time.thread_time()
        if self._gate.dialled:
            self._longest[:] = STALL.pack(max(*STALL.unpack(self._longest[:]), used - self._used))
        self._used = used
        self._loop.call_later(_TICK, self.look)


def stall_file(path: Path) -> Path:
    """A file for ``enter``, with no stall in it."""
    path.write_bytes(STALL.pack(0.0))
    return path


def read_stall(path: Path) -> float:
    """The longest stall that a program wrote there, in seconds of processor time."""
    (stall,) = STALL.unpack(path.read_bytes())
    return float(stall)
