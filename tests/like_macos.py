"""Makes Linux look like macOS to a Python program, as far as the program asks.

As ``sitecustomize`` of an interpreter it takes away what Python has on Linux alone, and refuses what only the kernel
and the C library of Linux do. It does not bring what only macOS has: its file system, its limits, its sockets.
"""

from __future__ import annotations

import errno
import os
import select
import socket
import sys
import time
import types
from typing import Any

ONLY_LINUX: dict[Any, tuple[str, ...]] = {
    errno: ("EKEYEXPIRED",),
    os: (
        *("O_DIRECT", "O_PATH", "O_TMPFILE", "copy_file_range", "eventfd", "memfd_create", "pidfd_open", "pipe2"),
        *("posix_fadvise", "posix_fallocate", "sched_getaffinity", "splice"),
    ),
    select: ("epoll",),
    socket: ("MSG_CMSG_CLOEXEC", "SOCK_CLOEXEC", "SOCK_NONBLOCK", "SO_PEERCRED"),
    time: ("CLOCK_BOOTTIME",),
}
C_LIBRARY = ("mallopt", "malloc_trim", "prctl", "syncfs", "unshare")


def _refuse(event: str, arguments: tuple[Any, ...]) -> None:
    if event in ("open", "os.listdir", "os.scandir") and str(arguments[0]).startswith(("/proc", "/sys")):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), arguments[0])
    if event == "ctypes.dlsym" and arguments[1] in C_LIBRARY:
        raise AttributeError(arguments[1])
    if event in ("socket.bind", "socket.connect") and str(arguments[1]).startswith("\0"):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    if event == "socket.__new__" and arguments[1] == socket.AF_UNIX and arguments[2] == socket.SOCK_SEQPACKET:
        raise OSError(errno.EPROTONOSUPPORT, os.strerror(errno.EPROTONOSUPPORT))


def pretend() -> None:
    """Pretend from now on, in this process."""
    for module, names in ONLY_LINUX.items():
        for name in names:
            vars(module).pop(name, None)
    vars(os)["process_cpu_count"] = os.cpu_count  # from Python 3.13 on, where the system has no sched_getaffinity
    sys.platform = "darwin"
    proxies = types.ModuleType("_scproxy")  # of macOS: urllib asks it for the system's proxies
    vars(proxies).update(_get_proxy_settings=dict, _get_proxies=dict)
    sys.modules["_scproxy"] = proxies
    sys.addaudithook(_refuse)


if __name__ == "sitecustomize":
    pretend()
