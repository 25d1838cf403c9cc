"""Runs of the program: to the end, or held while a test goes on."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from tests.chance import CHANCE

ROOT = Path(__file__).resolve().parent.parent
PATIENCE = 100.0  # seconds: only what hangs takes as long, and less than the time limit of a test
_DROP_CAPABILITY = 24  # prctl(2): PR_CAPBSET_DROP
_DAC_OVERRIDE = 1  # capabilities(7): what lets root write where nobody may
# What is read when the interpreter or a library is loaded, and not by the crawler.
_READ_ON_LOADING = ("PYTHON", "LANG", "LC_", "LD_", "OPENBLAS")


@dataclass
class Ran:
    """A finished run of the program."""

    code: int
    out: str
    err: str


class Started:
    """A run that a process forked that had the crawler loaded: what tests use of ``subprocess.Popen``.

    See ``tests/starter.py``.
    """

    def __init__(
        self,
        words: list[str],
        environment: Mapping[str, str],
        stdin: int,
        directory: Path = ROOT,
        limits: Mapping[str, int] | None = None,
        world: Mapping[str, Any] | None = None,
        module: str = "crawler",
    ) -> None:
        """``limits`` of the process have their names from ``resource``, as NOFILE. ``world``: what it is to enter, see
        ``tests/hostile/world.py``."""
        self.args, self.returncode = words, None
        self.peak_of_each = 0  # bytes, once it has ended: of itself or of the greatest of its children
        self._run, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        given = [theirs.fileno()]
        self.stdin: IO[bytes] | None = None
        if stdin == subprocess.PIPE:
            end, ours = os.pipe()
            self.stdin = open(ours, "wb")  # noqa: SIM115
        else:
            end = os.open(os.devnull, os.O_RDONLY) if stdin == subprocess.DEVNULL else os.dup(stdin)
        given.append(end)
        streams: list[IO[bytes]] = []
        for _ in range(2):
            ours, end = os.pipe()
            streams.append(open(ours, "rb"))  # noqa: SIM115
            given.append(end)
        self.stdout, self.stderr = streams
        asked = {"words": words, "environment": dict(environment), "directory": str(directory)}
        asked |= {"module": module, "limits": dict(limits or {}), "world": None if world is None else dict(world)}
        asked |= {"secrets": CHANCE.name_of_a_program()}
        request = json.dumps(asked).encode()
        socket.send_fds(_starter(), [request], given)
        theirs.close()
        for end in given[1:]:
            os.close(end)
        (self.pid,) = self._told()

    def _told(self) -> list[int]:
        numbers = self._run.recv(64)
        assert numbers, "the starter has ended: what it said stands on standard error"
        return [int(number) for number in numbers.split()]

    def poll(self) -> int | None:
        if self.returncode is None and select.select([self._run], [], [], 0)[0]:
            self.returncode, kilobytes = self._told()
            self.peak_of_each = kilobytes * 1024
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None and not select.select([self._run], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
        code = self.poll()
        assert code is not None
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # it has ended, and the starter is about to say so
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def communicate(self, data: bytes | None = None, timeout: float | None = None) -> tuple[bytes, bytes]:
        """Write and read all, and wait for the end."""
        told: dict[IO[bytes], bytes] = {}
        talks = [threading.Thread(target=self._feed, args=(data or b"",), daemon=True)]
        talks += [
            threading.Thread(target=_read, args=(stream, told), daemon=True) for stream in (self.stdout, self.stderr)
        ]
        end = time.monotonic() + (threading.TIMEOUT_MAX if timeout is None else timeout)
        for talk in talks:
            talk.start()
        for talk in talks:
            talk.join(max(0.0, end - time.monotonic()))
            if talk.is_alive():
                raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
        self.wait(None if timeout is None else max(0.0, end - time.monotonic()))
        return told[self.stdout], told[self.stderr]

    def _feed(self, data: bytes) -> None:
        if self.stdin is not None:
            with contextlib.suppress(BrokenPipeError), self.stdin:
                self.stdin.write(data)

    def close(self) -> None:
        """End it, if it still runs, and close its streams."""
        self.kill()
        self.wait()
        self._run.close()
        for stream in (self.stdin, self.stdout, self.stderr):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()


def _read(stream: IO[bytes], into: dict[IO[bytes], bytes]) -> None:
    os.set_blocking(stream.fileno(), True)
    into[stream] = stream.read()


@functools.cache
def _starter() -> socket.socket:
    """The socket of a starter of this process, which ends with it."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    words = [sys.executable, "-m", "tests.starter", str(theirs.fileno())]
    process = subprocess.Popen(words, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, cwd=ROOT)
    theirs.close()

    @atexit.register
    def end() -> None:
        ours.close()
        process.wait()

    return ours


def stand_in() -> tuple[str, tuple[int, ...]]:
    """What stands for ``python -m crawler`` in a shell's command, and the descriptors that the shell is to pass on."""
    starter = _starter().fileno()
    return f'"{sys.executable}" -I -S "{ROOT / "tests" / "asker.py"}" {starter} crawler', (starter,)


def crawler(
    *words: str | Path,
    stdin: str | bytes = "",
    timeout: float = PATIENCE,
    env: Mapping[str, str] | None = None,
    directory: Path = ROOT,
) -> Ran:
    """Run ``python -m crawler`` in a directory to its end."""
    data = stdin.encode() if isinstance(stdin, str) else stdin
    environment = {**os.environ, **(env or {})}
    with running(*words, stdin=subprocess.PIPE, env=environment, directory=directory) as process:
        out, err = process.communicate(data, timeout)
    return Ran(process.returncode, out.decode("utf-8", "replace"), err.decode("utf-8", "replace"))


@contextmanager
def running(
    *words: str | Path,
    stdin: int = subprocess.DEVNULL,
    env: Mapping[str, str] | None = None,
    preexec_fn: Callable[[], None] | None = None,
    directory: Path = ROOT,
    limits: Mapping[str, int] | None = None,
) -> Iterator[Any]:
    """``python -m crawler``, running in a ``directory``; killed at the end if it still is."""
    environment = dict(os.environ if env is None else env)
    differs = {name for name, _ in environment.items() ^ dict(os.environ).items()}
    if preexec_fn is not None or any(name.startswith(_READ_ON_LOADING) for name in differs):
        assert directory == ROOT, "an interpreter of its own finds the crawler there"
        with _loading(words, stdin, environment, preexec_fn) as process:
            yield process
        return
    process = Started([str(word) for word in words], environment, stdin, directory, limits)
    try:
        yield process
    finally:
        process.close()


@contextmanager
def _loading(
    words: tuple[str | Path, ...],
    stdin: int,
    environment: Mapping[str, str],
    preexec_fn: Callable[[], None] | None,
) -> Iterator[subprocess.Popen[bytes]]:
    """The same by an interpreter of its own."""
    process = subprocess.Popen(
        [sys.executable, "-m", "crawler", *map(str, words)],
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=ROOT,
        env=environment,
        preexec_fn=preexec_fn,  # noqa: PLW1509 (of one call that takes no lock)
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def as_anybody() -> None:
    """Also root is held to the permissions of files, from the next program on."""
    if os.geteuid() == 0:
        ctypes.CDLL(None).prctl(_DROP_CAPABILITY, _DAC_OVERRIDE, 0, 0, 0)


def wait_until(true: Callable[[], bool], what: str, seconds: float = PATIENCE) -> None:
    """Poll until something outside this process has happened."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, f"never happened: {what}"
        time.sleep(0.005)
