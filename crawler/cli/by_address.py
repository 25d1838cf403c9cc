"""Commands that are given the address of a store instead of a directory, or the directory of a worker, which has some
partitions of a crawl in a store.

One that reads a job runs on a copy in a temporary directory, with the files that it reads; nothing in the store
changes. What it prints has the address in place of that directory.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, TextIO, cast

from crawler.base.faults import Failure, UserFault
from crawler.base.printable import PrintableStream, terminal
from crawler.base.say import say
from crawler.cli.exit_codes import FailedError, UsageError
from crawler.inspect.crawl_backup import restore_crawl
from crawler.job.bucket.address import is_address
from crawler.job.bucket.ownership import read_here
from crawler.job.bucket.restoration import every_file
from crawler.job.checkpoint.generations import is_segment
from crawler.job.crawl_file import holds_crawl, partition_directories, read_crawl_file
from crawler.job.directory import PAGES, SEEN, SEEN_FIGURES
from crawler.job.history_file import HISTORY
from crawler.job.output.body_files import DIRECTORY as BODIES
from crawler.job.output.outputs import FORMS

_OUTPUTS = frozenset(form.name for form in FORMS.values())
# What each command that can read a job in a store does not read there: first parts of paths.
_UNREAD: dict[str, frozenset[str]] = {
    "stats": _OUTPUTS | {PAGES, BODIES, SEEN},
    "hosts": _OUTPUTS | {PAGES, BODIES, SEEN},
    "explain": _OUTPUTS | {BODIES},
    "tail": _OUTPUTS | {BODIES, SEEN},
    "report": _OUTPUTS | {BODIES},
    "export": frozenset({BODIES, SEEN}),
    "sql": frozenset({"warc", BODIES, SEEN}),
    "verify": frozenset(),
}
_NAMED = ("job", "dir", "jobs")  # arguments that name directories


def run(command: str, arguments: argparse.Namespace) -> int:
    """Run the command, on a copy if it was given an address, or needs one to see the whole crawl. Returns the exit
    code. Raises UsageError if it cannot take an address, and what the command raises."""
    address = _address(arguments) or _store_of_whole(command, arguments)
    if address is None:
        return int(arguments.run(arguments))
    if command not in _UNREAD:
        raise UsageError(
            f"`crawler {command}` needs the directory of the crawl, on its machine; `crawler restore`, and a crawl "
            "with --store, make one of what is in a store"
        )
    if getattr(arguments, "follow", False):
        raise UsageError("--follow needs the directory of a job: of a store, ask again with --since CURSOR")
    with tempfile.TemporaryDirectory(prefix="crawler-look-") as made:
        # The report is named after the directory.
        name = re.sub(r"[^A-Za-z0-9._-]", "_", address.rstrip("/").rpartition("/")[2]).lstrip(".") or "job"
        arguments.job = Path(made, name)
        with _named(arguments, address):
            if sys.stderr.isatty():
                say(sys.stderr, f"reading {address}")
            needed = partial(_is_read, command) if _UNREAD[command] else every_file
            for each in restore_crawl(address, arguments.job, needed, to_look=True):
                if each.steps:
                    # It may be of the run before, and would tell what stopped that.
                    (each.directory / HISTORY).unlink(missing_ok=True)
            return int(arguments.run(arguments))


def _address(arguments: argparse.Namespace) -> str | None:
    """The address that was given for a directory, if one was."""
    given = [getattr(arguments, name, None) for name in _NAMED]
    found = [each for one in given for each in (one if isinstance(one, list) else [one])]
    return next((str(each) for each in found if each is not None and is_address(str(each))), None)


def _store_of_whole(command: str, arguments: argparse.Namespace) -> str | None:
    """The store of a crawl of which the named directory has only some partitions, if the command reads all of them.
    Raises JobError, OSError."""
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
    # Which generations there are is always known.
    return top not in _UNREAD[command] or (top == SEEN and not is_segment(rest))


@contextlib.contextmanager
def _named(arguments: argparse.Namespace, address: str) -> Iterator[None]:
    """A context in which the job is called by its address, also in errors."""
    copy = str(arguments.job)
    shown = json.dumps(address)[1:-1] if getattr(arguments, "json", False) else address
    out, err = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = _renamed(out, copy, shown), _renamed(err, copy, address)
    try:
        yield
    except BrokenPipeError:
        raise
    except (UserFault, FailedError, Failure) as error:
        kind = (
            UsageError if isinstance(error, UserFault) else FailedError if isinstance(error, FailedError) else Failure
        )
        raise kind(str(error).replace(copy, address)) from error
    except OSError as error:
        raise Failure(" ".join(str(error).replace(copy, address).split())) from error
    finally:
        sys.stdout, sys.stderr = out, err


def _renamed(stream: TextIO, name: str, shown: str) -> TextIO:
    return cast("TextIO", PrintableStream(cast("TextIO", _Renaming(terminal(stream), name, shown))))


class _Renaming:
    """A text stream in which one name stands for another."""

    def __init__(self, stream: TextIO, name: str, shown: str) -> None:
        self._stream = stream
        self._name = name
        self._shown = shown

    def write(self, text: str) -> int:
        return self._stream.write(text.replace(self._name, self._shown))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
