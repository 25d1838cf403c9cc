"""Reports to the service manager that started the program, with sd_notify(3), as supported by systemd and others.

The environment variable ``NOTIFY_SOCKET`` names a datagram socket; without it nothing is sent. ``READY=1`` reports
that the crawl has started, ``WATCHDOG=1`` that its event loop runs, ``STATUS=`` its progress, ``STOPPING=1`` that it
is ending.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections.abc import Callable, Mapping

from crawler.base.disk import Expendable

# The receiver is gone or busy. The next message follows within a second, so the crawl ignores these errors.
_UNHEARD = frozenset({errno.ENOENT, errno.ECONNREFUSED, errno.EAGAIN, errno.ENOBUFS})
# Variables by which a service manager addresses exactly the process it started.
_OF_ONE_PROCESS = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES")


def environment_of_another() -> dict[str, str]:
    """Return the environment for a child process, without the service manager's variables."""
    return {name: value for name, value in os.environ.items() if name not in _OF_ONE_PROCESS}


async def keep_reporting(look: Callable[[], tuple[str, bool]], every: float = 1.0) -> None:
    """Report every few seconds the result of ``look``: the status, and whether the program is ending."""
    manager, expendable = Supervisor(os.environ), Expendable("the service manager")
    try:
        while True:
            status, stopping = look()
            with expendable:
                manager.alive(status, stopping=stopping)
            await asyncio.sleep(every)
    finally:
        with expendable:
            manager.close()


class Supervisor:
    """Sends each message when it is due. ``environment`` is the process's environment. Methods raise OSError."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        address = environment.get("NOTIFY_SOCKET", "")
        # A name starting with @ means Linux's abstract namespace, whose addresses start with a zero byte.
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        self._socket: socket.socket | None = None
        if address:
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            self._socket.setblocking(False)
        self._ready = False
        self._stopping = False

    def alive(self, status: str, *, stopping: bool) -> None:
        """Report that the event loop runs. ``status`` is one line."""
        words = ["WATCHDOG=1", f"STATUS={status}"]
        if not self._ready:
            words.insert(0, "READY=1")
        if stopping and not self._stopping:
            words.append("STOPPING=1")
        self._ready, self._stopping = True, stopping
        self._tell("\n".join(words))

    def close(self) -> None:
        """Report that the program is ending, and close the socket."""
        if not self._stopping:
            self._tell("STOPPING=1")
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _tell(self, text: str) -> None:
        if self._socket is None:
            return
        try:
            self._socket.sendto(text.encode(), self._address)
        except OSError as error:
            if error.errno not in _UNHEARD:
                raise
