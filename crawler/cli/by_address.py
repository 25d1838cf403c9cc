"""Runs commands that are given the address of a store instead of a directory, or the directory of a worker that has
only some partitions of a crawl in a store.

A command that reads a job runs on a copy in a temporary directory, with only the files it needs; nothing in the store
changes. The command's output shows the address instead of the temporary directory.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, TextIO, cast

from crawler.base.faults import Failure, UserFault
from crawler.base.printable import PrintableStream, terminal
from crawler.base.say import say
from crawler.cli.exit_codes import FailedError, UsageError
from crawler.inspect.crawl_backup import bucket_at, restore_crawl
from crawler.job.bucket.address import is_address
from crawler.job.bucket.layout import is_at_work
from crawler.job.bucket.ownership import read_here
from crawler.job.bucket.restoration import every_file
from crawler.job.checkpoint.generations import is_segment
from crawler.job.crawl_file import holds_crawl, partition_directories, read_crawl_file
from crawler.job.directory import PAGES, SEEN, SEEN_FIGURES
from crawler.job.history_file import HISTORY
from crawler.job.job_lock import JobLock
from crawler.job.output.body_files import DIRECTORY as BODIES
from crawler.job.output.outputs import FORMS

_OUTPUTS = frozenset(form.name for form in FORMS.values())
# Each command that can read a job in a store -> the first path parts of files that it does not need.
_UNREAD: dict[str, frozenset[str]] = {
    "stats": _OUTPUTS | {PAGES, BODIES, SEEN},
    "hosts": _OUTPUTS | {PAGES, BODIES, SEEN},
    "dashboard": _OUTPUTS | {BODIES},
    "explain": _OUTPUTS | {BODIES},
    "tail": _OUTPUTS | {BODIES, SEEN},
    "report": _OUTPUTS | {BODIES},
    "audit": _OUTPUTS | {BODIES, SEEN},
    "export": frozenset({BODIES, SEEN}),
    "sql": frozenset({"warc", BODIES, SEEN}),
    "verify": frozenset(),
}
_NAMED = ("job", "dir", "jobs")  # arguments that name directories


def run(command: str, arguments: argparse.Namespace) -> int:
    """Run the command. It runs on a copy if the user gave an address, or if only the store has the whole crawl. Returns
    the exit code. Raises UsageError if the command cannot take an address, and the command's errors."""
    address = _address(arguments) or _store_of_whole(command, arguments)
    if address is None:
        return int(arguments.run(arguments))
    if command not in _UNREAD:
        otherwise = "`crawler restore FROM DIR`, or a crawl with --store, creates one from a store"
        if command == "top":
            otherwise = "with --engine and --crawl, it shows a crawl on several machines"
        raise UsageError(f"`crawler {command}` needs a directory on this machine, not {address}; {otherwise}")
    if len(getattr(arguments, "jobs", ())) > 1:
        raise UsageError(f"`crawler {command}` shows one store, without other jobs: give only {address}")
    if getattr(arguments, "follow", False):
        raise UsageError("--follow needs the directory of a job; for a store, repeat the command with --since CURSOR")
    with tempfile.TemporaryDirectory(prefix="crawler-look-") as made:
        # The report is named after the directory.
        name = re.sub(r"[^A-Za-z0-9._-]", "_", address.rstrip("/").rpartition("/")[2]).lstrip(".") or "job"
        arguments.job = Path(made, name)
        arguments.jobs = [arguments.job]
        with _named(arguments, address):
            if sys.stderr.isatty():
                say(sys.stderr, f"reading {address}")
            objects, began = bucket_at(address, reading=True), time.time()
            needed = partial(_is_read, command) if _UNREAD[command] else every_file
            try:
                restored = restore_crawl(address, arguments.job, needed, to_look=True)
            except OSError as error:
                raise Failure(f"cannot copy {address} to {made}: {error.strerror or error}") from error
            for each in restored:
                if each.steps:
                    # The restored history may come from the previous run; the output would then show why that run
                    # stopped.
                    (each.directory / HISTORY).unlink(missing_ok=True)
            with contextlib.ExitStack() as held:
                if command in ("stats", "dashboard"):
                    now = time.time()
                    at_work = [each for each in restored if is_at_work(objects, each.partition, now)]
                    for each in at_work if command == "stats" else ():
                        held.callback(JobLock(each.directory).release)  # the lock makes the copy appear as running
                    arguments.copied_at = began if at_work else None
                return int(arguments.run(arguments))


def _address(arguments: argparse.Namespace) -> str | None:
    """Return the address that the user gave instead of a directory, if any."""
    given = [getattr(arguments, name, None) for name in _NAMED]
    found = [each for one in given for each in (one if isinstance(one, list) else [one])]
    return next((str(each) for each in found if each is not None and is_address(str(each))), None)


def _store_of_whole(command: str, arguments: argparse.Namespace) -> str | None:
    """Return the store of the crawl if the command reads all partitions but the named directory has only some. Raises
    JobError, OSError."""
    directory = getattr(arguments, "job", None)
    if command not in _UNREAD or directory is None or getattr(arguments, "follow", False) or not holds_crawl(directory):
        return None
    here = read_here(directory)
    if here is None or len(partition_directories(directory)) == read_crawl_file(directory).partitions:
        return None
    return here.address


def _is_read(command: str, name: str) -> bool:
    if name == SEEN_FIGURES:
        return command == "stats"
    top, _, rest = name.partition("/")
    # The list of generations is always needed.
    return top not in _UNREAD[command] or (top == SEEN and not is_segment(rest))


@contextlib.contextmanager
def _named(arguments: argparse.Namespace, address: str) -> Iterator[None]:
    """A context in which output and errors name the job by its address."""
    copy = str(arguments.job)
    shown = json.dumps(address)[1:-1] if getattr(arguments, "json", False) else address
    out, err = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = _renamed(out, copy, shown), _renamed(err, copy, address)
    try:
        yield
    except BrokenPipeError:
        raise
    except (UserFault, FailedError, Failure) as error:
        kind = next(each for each in (UserFault, FailedError, Failure) if isinstance(error, each))
        raise kind(str(error).replace(copy, address)) from error
    except OSError as error:
        raise Failure(" ".join(str(error).replace(copy, address).split())) from error
    finally:
        sys.stdout, sys.stderr = out, err


def _renamed(stream: TextIO, name: str, shown: str) -> TextIO:
    return cast("TextIO", PrintableStream(cast("TextIO", _Renaming(terminal(stream), name, shown))))


class _Renaming:
    """A text stream that replaces one name with another name in everything written to it."""

    def __init__(self, stream: TextIO, name: str, shown: str) -> None:
        self._stream = stream
        self._name = name
        self._shown = shown

    def write(self, text: str) -> int:
        return self._stream.write(text.replace(self._name, self._shown))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
