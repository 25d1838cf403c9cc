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

STALLS = struct.Struct("dd")  # the longest stall, and the longest delay of the same timer, in seconds
_TICK = 0.005  # seconds between two looks at the clocks


def enter(names: Mapping[str, str], stalls: str) -> None:
    """Let this process know only ``names`` (host or ``*.domain``: address), and write its stalls to a file."""
    gate = _Loopback()
    sys.addaudithook(gate)
    # What aiohttp uses unless it is given another.
    aiohttp.connector.DefaultResolver = partial(Names, names)  # type: ignore[misc]
    asyncio.set_event_loop_policy(_Watched(stalls, gate))


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

    def __init__(self, stalls: str, gate: _Loopback) -> None:
        super().__init__()
        self._stalls, self._gate = stalls, gate

    def new_event_loop(self) -> asyncio.AbstractEventLoop:
        loop = super().new_event_loop()
        _Watch(loop, self._stalls, self._gate).look()
        return loop


class _Watch:
    """A timer of a loop that should fire every ``_TICK`` seconds.

    Its delay alone says little on a busy machine: the process may only have waited for a processor. A stall is a delay
    in which this process computed: the lesser of the delay and of the processor time of all its threads since the last
    look. Those of other threads count, because one that holds the interpreter's lock stops the loop as well. Before the
    first connection nobody waits for the loop: a job may be opened in one go.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, path: str, gate: _Loopback) -> None:
        handle = os.open(path, os.O_RDWR)
        self._longest = mmap.mmap(handle, STALLS.size)  # what is stored here outlives a SIGKILL
        os.close(handle)
        self._loop, self._gate = loop, gate
        self._stall, self._delay = STALLS.unpack(self._longest[:])
        self._due, self._used = loop.time(), time.process_time()

    def look(self) -> None:
        now, used = self._loop.time(), time.process_time()
        if self._gate.dialled:
            delay = now - self._due
            self._delay = max(self._delay, delay)
            self._stall = max(self._stall, min(delay, used - self._used))
            self._longest[:] = STALLS.pack(self._stall, self._delay)
        self._due, self._used = now + _TICK, used
        self._loop.call_later(_TICK, self.look)


def stalls_file(path: Path) -> Path:
    """A file for ``enter``, with no stall in it."""
    path.write_bytes(STALLS.pack(0.0, 0.0))
    return path


def read_stalls(path: Path) -> tuple[float, float]:
    """The longest stall that a program wrote there, and the longest delay, in seconds."""
    stall, delay = STALLS.unpack(path.read_bytes())
    return stall, delay
