"""Child processes that read what strangers wrote, each with limits of its own.

The *parent* is a fresh interpreter with one thread, so it may fork: a new child costs milliseconds, not the tenth of a
second of an interpreter, or the second of a library. The crawler sends it a socket; it forks a *child* that answers
requests on that socket, waits for its end, and reports how it ended. Both end with the crawler, however it ends: their
sockets do, and the kernel tells them.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import socket
import struct
import traceback
from collections.abc import Callable

from crawler.base.parent_death import end_with_parent
from crawler.web.parsing.wire import Told

ENDED = struct.Struct("<i")  # how a child ended: its exit code, or the negative number of a signal

Serve = Callable[[int, int], None]  # answers on the socket with that descriptor, in so many bytes of memory

_IGNORED = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGTTOU,  # for what code of the user prints, where a terminal stops what is in the background
)  # sent to the whole group; the crawler decides
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_KEPT_BYTES = 16 * 2**20


def parent(control_fd: int, memory: int, serve: Serve) -> None:
    """Fork a child that does ``serve`` for each socket that comes, one after the other, until the crawler is gone."""
    end_with_parent()
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    own = os.getpid()
    with socket.socket(fileno=control_fd) as control:
        while True:
            try:
                asked, descriptors, _, _ = socket.recv_fds(control, 1, 1)
                if not asked:
                    return
                pid = os.fork()
                if pid == 0:
                    control.close()
                    _run_child(descriptors[0], memory, own, serve)
                os.close(descriptors[0])
                control.sendall(ENDED.pack(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])))
            except ConnectionError:
                return


def _run_child(descriptor: int, memory: int, parent_pid: int, serve: Serve) -> None:
    """Never returns."""
    code = 1
    try:
        end_with_parent()
        with contextlib.suppress(AttributeError):
            libc = ctypes.CDLL(None)
            # What a tree has freed is kept for the next: to get it from the kernel anew costs as much as the tree.
            libc.mallopt(_M_MMAP_THRESHOLD, _KEPT_BYTES)
            libc.mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)
        if os.getppid() == parent_pid:
            serve(descriptor, memory)
        code = 0
    finally:
        os._exit(code)


def limit_memory(memory: int) -> None:
    """Let this process have so many bytes of memory at most. If the machine runs out of memory, the kernel takes it
    first."""
    resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w", encoding="ascii") as score:
        score.write("1000")


def limited(
    read: Callable[[], tuple[Told, bytes]], seconds: float, no_memory: tuple[type[Exception], ...] = (MemoryError,)
) -> tuple[Told, bytes]:
    """What ``read`` returns, in at most so many seconds of CPU time, or what it raised. ``no_memory`` are the
    exceptions that mean a lack of memory."""
    signal.setitimer(signal.ITIMER_PROF, seconds)  # the signal ends the process
    try:
        return read()
    except no_memory:
        return Told.MEMORY, b""
    except ConnectionError:
        raise
    except Exception as error:  # noqa: BLE001 -- whatever it is, it is told; the page gets it as its outcome
        text = f"{type(error).__name__}: {error}".replace("\n", " ")
        return Told.RAISED, f"{text}\n{traceback.format_exc()}".encode("utf-8", "replace")
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
