"""Starts a crawl in a process of its own, which outlives the one that started it.

The process is the leader of a session of its own, reads nothing, and writes to ``DIR/crawl.log``. Whoever starts it
waits until it runs or has ended, so that a wrong setting is told at once, in the line that the crawl wrote.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from crawler.base.disk import private_opener
from crawler.base.same_program import words_of
from crawler.job.checkpoint import EnvelopeError
from crawler.job.directory import DEMO, LAUNCH_LOG
from crawler.job.job_lock import lock_holder
from crawler.job.last_command import LastCommand, read_command
from crawler.job.live_status import read_live

WAIT = 20.0  # seconds until a crawl that neither runs nor has ended is left alone
MOST_LOG = 2**20  # bytes from which the next start begins another log
_POLL = 0.1
_TAIL = 8 * 1024  # bytes at the end of the log in which the last line is looked for
_LIMIT = 3  # the exit code of a crawl that a limit has ended
# By these, systemd knows the dashboard that it has started: the crawl is another process.
_NOT_PASSED_ON = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES")


class LaunchError(Exception):
    """A crawl cannot be started. The text is one line; ``status`` is that of HTTP."""

    def __init__(self, text: str, status: int = 409) -> None:
        super().__init__(text)
        self.status = status


def command_of(directory: Path) -> LastCommand:
    """Return how the last run of a job was started, if it can be started again so. Raises LaunchError."""
    try:
        command = read_command(directory)
    except (EnvelopeError, OSError) as error:
        text = error.strerror if isinstance(error, OSError) else str(error)
        raise LaunchError(f"how it was started cannot be read: {text}; resume it on the command line once") from error
    if command is None and (directory / DEMO).exists():
        raise LaunchError("it is a demo, whose pages crawler demo serves: resume it with that command")
    if command is None:
        raise LaunchError("how it was started is not known: resume it on the command line once")
    if not Path(command.directory).is_dir():
        raise LaunchError("the directory in which it was started is gone: resume it on the command line")
    return command


class Launcher:
    """Starts crawls, one after the other, and takes leave of those that have ended."""

    def __init__(self) -> None:
        self._one = asyncio.Lock()
        self._started: list[subprocess.Popen[bytes]] = []

    async def launch(self, job: Path, words: Sequence[str], directory: Path) -> str:
        """Start ``crawler WORDS`` in a directory, for a job whose own directory exists. Returns what has become of it,
        in one line. Raises LaunchError, also if a crawl of the job runs: another one may just have been started."""
        async with self._one:
            self.reap()
            log = job / LAUNCH_LOG
            try:
                if lock_holder(job) is not None:
                    raise LaunchError("the crawl is running")
                process, began = await asyncio.to_thread(_start, words, directory, log)
            except OSError as error:
                raise LaunchError(f"the crawl cannot be started: {error.filename or ''} {error.strerror}") from error
            self._started.append(process)
            return await _outcome(process, job, log, began)

    def reap(self) -> None:
        """Let go of processes that have ended: until then, the system keeps their exit codes."""
        self._started = [each for each in self._started if each.poll() is None]


def _start(words: Sequence[str], directory: Path, log: Path) -> tuple[subprocess.Popen[bytes], int]:
    """Start the process; returns it, and where in the log its lines begin. Raises OSError."""
    with contextlib.suppress(FileNotFoundError):
        if log.stat().st_size > MOST_LOG:
            log.replace(log.with_name(f"{LAUNCH_LOG}.1"))
    environment = {name: value for name, value in os.environ.items() if name not in _NOT_PASSED_ON}
    with open(log, "ab", opener=private_opener) as stream:
        began = stream.tell()
        process = subprocess.Popen(
            [*words_of(), *words],
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
            cwd=directory,
            env=environment,
            start_new_session=True,
        )
    return process, began


async def _outcome(process: subprocess.Popen[bytes], job: Path, log: Path, began: int) -> str:
    deadline = asyncio.get_running_loop().time() + WAIT
    while asyncio.get_running_loop().time() < deadline:
        code = process.poll()
        if code in (0, _LIMIT):
            return "It has ended already." if code == 0 else "It has ended already: a limit was reached before."
        if code is not None:
            line = _last_line(log, began).replace(str(job), job.name)  # the page names a job, not where it is
            raise LaunchError(line or f"the crawl ended with code {code} and said nothing")
        with contextlib.suppress(OSError):
            if lock_holder(job) == process.pid and read_live(job) is not None:
                return "Started."
        await asyncio.sleep(_POLL)
    return f"It is still starting: {LAUNCH_LOG} in its directory says how far it is."


def _last_line(log: Path, began: int) -> str:
    """Return the last line that the crawl has written, without the name of the program."""
    with contextlib.suppress(OSError), open(log, "rb") as stream:
        end = stream.seek(0, os.SEEK_END)
        stream.seek(max(began, end - _TAIL))
        lines = stream.read().decode("utf-8", "replace").split("\n")
        last = next((line.strip() for line in reversed(lines) if line.strip()), "")
        return last.removeprefix("crawler: ").removeprefix("error: ")
    return ""
