"""The code in the processes: a parent that forks, and the children that it forks.

The *parent* is a fresh interpreter with one thread, so it may fork. A new child takes milliseconds, whereas starting an
interpreter takes a tenth of a second, and importing a library a second. The crawler sends it orders over a socket:

    order    number of a child (4), bytes of memory that it may use (8; 0: unlimited); with the socket for a new child,
             or without one: kill that child and all its descendants
    reply    how the killed child ended: its exit code, or the negative number of a signal (4)

A child that has ended stays a zombie until the crawler orders the parent to kill it, which then has no other effect.
The crawler therefore sends this order once the child's socket has closed. All processes end with the crawler, however
it ends: their sockets close, and the kernel notifies them.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import socket
import struct
import traceback
from collections.abc import Callable
from functools import partial
from importlib import import_module

from crawler.base.memory import KEPT_BYTES, return_blocks
from crawler.base.parent_death import end_with_parent
from crawler.base.processes.frames import REQUEST, Report, answer

ORDER = struct.Struct("<IQ")
ENDED = struct.Struct("<i")
PID = struct.Struct("<I")
KILLED = -int(signal.SIGKILL)  # sent by another program or on the crawler's order; no limit of a child uses it
LAST_BYTES = 2 * 2**20  # bytes; a child ends after a larger body, as its heap may not shrink again

# Takes the request, the body, and a function that sends a part of the answer; returns the rest of the answer.
Read = Callable[[bytes, bytes, Callable[[bytes], None]], bytes]

_IGNORED = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGTTOU,  # for the output of user code: a terminal may stop background processes that write
)  # signals that are sent to the whole group; the crawler decides how to react


def parent(control_fd: int, nice: int, program: str, *arguments: str) -> None:
    """Fork children that handle requests with a program, until the crawler is gone."""
    end_with_parent()
    os.nice(nice)
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    module, _, name = program.partition(":")
    read: Read
    try:
        read = getattr(import_module(module), name)(*arguments)
    except Exception as error:  # noqa: BLE001 -- reported to each request
        read = partial(_raise, error)
    own, pids = os.getpid(), dict[int, int]()
    with contextlib.suppress(ConnectionError), socket.socket(fileno=control_fd) as control:
        while True:
            order, descriptors, _, _ = socket.recv_fds(control, ORDER.size, 1)
            if not order:
                return
            child, memory = ORDER.unpack(order)
            if not descriptors:
                control.sendall(ENDED.pack(_end(pids.pop(child, None))))
                continue
            with contextlib.suppress(OSError):  # there are too many processes: the socket closes at once
                pids[child] = os.fork()
                if pids[child] == 0:
                    control.close()
                    _run_child(descriptors[0], memory, own, read)
                os.setpgid(pids[child], 0)
            os.close(descriptors[0])


def _raise(error: Exception, *_: object) -> bytes:
    raise error


def _end(pid: int | None) -> int:
    """Kill a child and its descendants, if the child is still running, and return how it ended."""
    if pid is None:
        return KILLED
    os.kill(pid, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError):  # the child has left its process group
        os.killpg(pid, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _run_child(descriptor: int, memory: int, parent_pid: int, read: Read) -> None:
    """Run a forked child. This function never returns."""
    code = 1
    try:
        os.setpgid(0, 0)
        end_with_parent()
        return_blocks(KEPT_BYTES)
        if os.getppid() == parent_pid:
            _limit_memory(memory)
            channel = socket.socket(fileno=descriptor)
            channel.set_inheritable(False)
            os.register_at_fork(after_in_child=channel.close)  # a forked copy must not answer, or keep the socket open
            with contextlib.suppress(OSError):  # the crawler is gone, or this is a forked copy
                _serve(channel, memory, read)
        code = 0
    finally:
        os._exit(code)


def _limit_memory(memory: int) -> None:
    """Limit this process to ``memory`` bytes. If the machine runs out of memory, the kernel kills this process before
    others."""
    if memory:
        resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
        with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w", encoding="ascii") as score:
            score.write("1000")


def _serve(channel: socket.socket, memory: int, read: Read) -> None:
    def part(payload: bytes) -> None:
        channel.sendall(answer(Report.PART, payload))

    channel.sendall(answer(Report.READY, PID.pack(os.getpid())))
    while len(head := channel.recv(REQUEST.size, socket.MSG_WAITALL)) == REQUEST.size:
        seconds, asked, size = REQUEST.unpack(head)
        told, payload = _limited(channel, seconds, asked, size, lambda stated, body: read(stated, body, part))
        ends = told is not Report.DONE or (memory > 0 and size > LAST_BYTES)
        channel.sendall(answer(told, payload, ends=ends))
        if ends:
            return


def _limited(
    channel: socket.socket, seconds: float, asked: int, size: int, read: Callable[[bytes, bytes], bytes]
) -> tuple[Report, bytes]:
    """Run ``read`` with a limit of CPU seconds, and return its result or its exception."""
    signal.setitimer(signal.ITIMER_PROF, seconds)  # the signal ends the process
    try:
        stated = channel.recv(asked, socket.MSG_WAITALL) if asked else b""
        body = channel.recv(size, socket.MSG_WAITALL) if size else b""
        return Report.DONE, read(stated, body)
    except MemoryError:
        return Report.MEMORY, b""
    except Exception as error:  # noqa: BLE001 -- any exception is reported as the outcome of the page
        text = f"{type(error).__name__}: {error}".replace("\n", " ")
        return Report.RAISED, f"{text}\n{traceback.format_exc()}".encode("utf-8", "replace")
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
