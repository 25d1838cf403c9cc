"""What is told to the service manager that started the program: sd_notify(3), as systemd and others understand it.

``NOTIFY_SOCKET`` in the environment names a datagram socket; without it nothing is sent. ``READY=1`` says that
the crawl has begun, ``WATCHDOG=1`` that its event loop turns, ``STATUS=`` how it is getting on, ``STOPPING=1`` that it
comes to its end.
"""

from __future__ import annotations

import errno
import socket
from collections.abc import Mapping

# Gone, or too busy: the next message follows in a second, and a crawl does not stop for want of a listener.
_UNHEARD = frozenset({errno.ENOENT, errno.ECONNREFUSED, errno.EAGAIN, errno.ENOBUFS})


class Supervisor:
    """Tells it each thing when it is time. ``environment`` is the process's. Methods raise OSError."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        address = environment.get("NOTIFY_SOCKET", "")
        # A name that begins with @ is in Linux's abstract namespace, where it begins with a zero byte.
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        self._socket: socket.socket | None = None
        if address:
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            self._socket.setblocking(False)
        self._ready = False
        self._stopping = False

    def alive(self, status: str, *, stopping: bool) -> None:
        """The event loop turns. ``status`` is one line."""
        words = ["WATCHDOG=1", f"STATUS={status}"]
        if not self._ready:
            words.insert(0, "READY=1")
        if stopping and not self._stopping:
            words.append("STOPPING=1")
        self._ready, self._stopping = True, stopping
        self._tell("\n".join(words))

    def close(self) -> None:
        """Nothing more is told."""
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
