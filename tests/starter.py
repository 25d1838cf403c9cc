"""A process that has loaded the whole crawler once and forks for every run: ``python -m tests.starter FD``.

Loading takes most of the time of a short run, and the tests start the program some hundred times. A fork of a process
that has loaded it is otherwise what ``python -m crawler`` is: a process of its own, with its own arguments,
environment and streams, that goes through ``crawler/__main__.py``. Only its secrets are given: see ``tests/chance.py``.
It ends as the interpreter ends, but for the last step: what was loaded is not taken apart, object by object, which
would take longer than most runs.

Each request comes as one packet over the socket FD: the module and its words in JSON, with four descriptors: a socket
for this run, and its standard input, output and error. The run's socket is answered with the process's number, and at
its end with its exit code and the peak memory, in KiB, of itself or of the greatest of its children. Where the other
side closes that socket first, the process is killed.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import io
import json
import os
import pkgutil
import resource
import runpy
import selectors
import signal
import socket
import sys
import time
from typing import Any

import crawler
from crawler.base import disk
from crawler.base.settings.parts import SeenSettings
from crawler.seen.filters import DIGEST_BYTES, make_seen
from tests.chance import CHANCE
from tests.hostile import world

MOST = 2**17  # bytes of a request: the words, the environment and the directory


def load() -> None:
    """Import every module of the crawler but the one that starts it, and the one in C, which may be switched off."""
    for module in pkgutil.walk_packages(crawler.__path__, "crawler."):
        if not module.name.endswith(("__main__", "native")):
            importlib.import_module(module.name)
    _compute_once()
    # What is loaded stays: no fork need look through it again, nor copy its pages by doing so.
    gc.collect()
    gc.freeze()


def _compute_once() -> None:
    """What a process computes of its first filter and keeps: which layout is best, the curves of its slices."""
    for settings in (SeenSettings(), SeenSettings(fpp=1e-9, capacity=16)):
        seen = make_seen(settings)
        seen.add_digests(os.urandom(100 * DIGEST_BYTES))
        seen.statistics()


def serve(control: socket.socket) -> None:
    """Fork for each request until the other side is gone; return in each of the forks, made ready to run."""
    runs: dict[int, tuple[int, socket.socket]] = {}  # by the descriptor of the process: its number, its socket
    with selectors.DefaultSelector() as ready:
        ready.register(control, selectors.EVENT_READ)
        while True:
            for key, _ in ready.select():
                if key.fileobj is control:
                    request, given, *_ = socket.recv_fds(control, MOST, 4)
                    if not request:
                        os._exit(0)
                    pid = os.fork()
                    if pid == 0:
                        for _, other in runs.values():
                            other.close()
                        control.close()
                        return _become(json.loads(request), given)
                    for stream in given[1:]:
                        os.close(stream)
                    run, process = socket.socket(fileno=given[0]), os.pidfd_open(pid)
                    runs[process] = pid, run
                    run.send(str(pid).encode())
                    ready.register(process, selectors.EVENT_READ)
                    ready.register(run, selectors.EVENT_READ, pid)
                elif key.data is not None:  # the other side of a run's socket was closed
                    os.kill(key.data, signal.SIGKILL)
                    ready.unregister(key.fileobj)
                else:  # a process has ended
                    process = key.fd
                    pid, run = runs.pop(process)
                    _, status, used = os.wait4(pid, 0)
                    ready.unregister(process)
                    os.close(process)
                    if run in ready.get_map():
                        ready.unregister(run)
                        run.send(f"{os.waitstatus_to_exitcode(status)} {used.ru_maxrss}".encode())
                    run.close()


def _become(request: dict[str, Any], given: list[int]) -> None:
    """Take on the words, the environment and the streams of a run."""
    os.close(given[0])
    for number, stream in enumerate(given[1:]):
        os.dup2(stream, number)
        os.close(stream)
    for name, number, mode in (("stdin", 0, "r"), ("stdout", 1, "w"), ("stderr", 2, "w")):
        setattr(sys, name, _opened(getattr(sys, f"__{name}__"), number, mode))
    for name, most in request["limits"].items():
        resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (most, most))
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["directory"])
    if request["world"] is not None:
        world.enter(**request["world"])
    if request["secrets"] is None:
        CHANCE.end()
    else:
        CHANCE.begin(request["secrets"])
    disk.plan_crash()
    time.tzset()
    sys.argv = [request["module"], *request["words"]]


class Ending:
    """Ends a process that came to its end through ``sys.exit`` with a number, after everything that is to be done at
    the end: threads joined, the functions of ``atexit`` called, streams flushed. Anything else is the interpreter's."""

    code: int | None = None

    def __call__(self) -> None:
        if self.code is None:
            return
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        except (OSError, ValueError):
            return  # the interpreter tries once more, and says so
        os._exit(self.code & 0xFF)


def _opened(like: io.TextIOWrapper, number: int, mode: str) -> io.TextIOWrapper:
    """A standard stream as the interpreter opens it."""
    return io.TextIOWrapper(
        open(number, f"{mode}b", closefd=False),
        like.encoding,
        like.errors,
        line_buffering=number == 2 or os.isatty(number),
        write_through=like.write_through,
    )


if __name__ == "__main__":
    ending = Ending()
    atexit.register(ending)  # before anything else is: the last to be called
    load()
    with socket.socket(fileno=int(sys.argv[1])) as control:
        serve(control)
    try:
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    except SystemExit as end:
        if isinstance(end.code, int):
            ending.code = end.code
        raise
