"""Builds a seen-set from a list, using all cores.

The list is split into pieces, which are assigned in turn to as many processes as there are cores. The processes do most
of the work: splitting lines, canonicalising, hashing. They return the digests of each piece, which this process adds in
the order of the list, so the result is the same as with one process. Each process waits until the result of its last
piece has been taken.
"""

from __future__ import annotations

import multiprocessing
import signal
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path

from msgspec import Struct

from crawler.base.faults import Failure
from crawler.base.parent_death import end_with_parent
from crawler.base.processes import cores
from crawler.base.settings.parts import SeenSettings
from crawler.seen.filters import DIGEST_BYTES, Filter, FilterError, KeyHash
from crawler.tools.dedup.filter_setup import make_filter, room_of
from crawler.tools.dedup.key_spec import KeySpec
from crawler.tools.dedup.lines import LineSource, Pause, part_of_file
from crawler.tools.dedup.store import FilterFileError, StoredFilter, read_filter
from crawler.tools.dedup.stream import Tally

_PIECE = 8 * 2**20
_LEAST_PIECE = 2**16
_WORTH_A_PROCESS = 16 * 2**20  # bytes that can be read in the time that starting a process takes

Part = tuple[int, int]  # the start and end of a piece of the list
Found = tuple[bytes, Counter[str]]  # the digests of the keys in a piece, and the lines without a key, by reason


class BuildError(Failure):
    """A process of a build ended too early. The message is one line for the user."""


class Recipe(Struct, frozen=True):
    """How to build a filter from the lines of a list."""

    keys: KeySpec
    seen: SeenSettings
    hash: KeyHash
    layout: str | None = None


def usual_jobs(size: int) -> int:
    """Return the number of processes to start for a list of ``size`` bytes."""
    return max(1, min(cores(), size // _WORTH_A_PROCESS))


def build_from_file(path: Path, recipe: Recipe, jobs: int | None = None) -> tuple[Filter, Tally]:
    """Build the seen-set of a regular file's lines with ``jobs`` processes; None means the optimal number.

    Raises BuildError, LineTooLongError, FilterError (before anything too large is allocated), OSError.
    """
    size = path.stat().st_size
    jobs = jobs or usual_jobs(size)
    piece = max(_LEAST_PIECE, min(_PIECE, -(-size // (4 * jobs))))
    parts = [(start, min(start + piece, size)) for start in range(0, size, piece)]
    return _filled(recipe, _read(path, recipe, parts) if jobs == 1 else _read_by(jobs, path, recipe, parts))


def build_from_source(source: LineSource, recipe: Recipe) -> tuple[Filter, Tally]:
    """Build the seen-set from the lines of a pipe, in this process. Raises LineTooLongError, FilterError, OSError."""

    def found() -> Iterator[Found]:
        keys = recipe.keys.reader(recipe.hash)
        while not isinstance(block := source.next(), Pause):
            yield keys.read(block)[1], Counter()
        yield b"", keys.skipped

    return _filled(recipe, found())


def merge_files(paths: Sequence[Path]) -> StoredFilter:
    """Return the union of filters. Raises FilterFileError, which names the files."""
    first, *others = paths
    whole = read_filter(first)
    for path in others:
        part = read_filter(path)
        if whole.keys is not None and part.keys is not None and whole.keys != part.keys:
            raise FilterFileError(f"filter {first} holds {whole.keys}, {path} holds {part.keys}: they cannot be merged")
        try:
            whole.seen.unite(part.seen)
        except FilterError as problem:
            raise FilterFileError(f"filters {first} and {path}: {problem}") from problem
        whole = StoredFilter(whole.seen, whole.keys or part.keys)
    return whole


def _filled(recipe: Recipe, pieces: Iterable[Found]) -> tuple[Filter, Tally]:
    seen, tally = make_filter(recipe.seen, recipe.layout, recipe.hash), Tally()
    room = room_of(seen)
    for digests, skipped in pieces:
        lines = len(digests) // DIGEST_BYTES
        room.need(len(seen) + lines)
        tally.lines += lines
        tally.new += len(seen.add_digests(digests))
        tally.skipped += skipped
    return seen, tally


def _read(path: Path, recipe: Recipe, parts: Iterable[Part]) -> Iterator[Found]:
    """Yield the digests of each part of the list. Raises LineTooLongError, OSError."""
    with open(path, "rb") as inp:
        for start, end in parts:
            keys = recipe.keys.reader(recipe.hash)
            yield b"".join([keys.read(block)[1] for block in part_of_file(inp.fileno(), start, end)]), keys.skipped


def _read_by(jobs: int, path: Path, recipe: Recipe, parts: Sequence[Part]) -> Iterator[Found]:
    """Like ``_read``, but with several processes, which are killed at the end. Raises BuildError, LineTooLongError,
    OSError."""
    with ExitStack() as ending:
        # Python loses an interrupt that arrives while it forks. The processes keep both signals blocked: Ctrl-C reaches
        # the whole process group, and the parent ends them.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM))
        try:
            processes = [_start(path, recipe, parts[number::jobs], ending) for number in range(jobs)]
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        for number in range(len(parts)):
            process, results = processes[number % jobs]
            try:
                found = results.recv()
            except (EOFError, ConnectionError):
                process.join()
                raise BuildError(f"a build process ended with exit code {process.exitcode}") from None
            if isinstance(found, Exception):
                raise found
            yield found


def _start(
    path: Path, recipe: Recipe, parts: Sequence[Part], ending: ExitStack
) -> tuple[BaseProcess, Connection[None, Found | Exception]]:
    # A forked process inherits the recipe, so the secret is in no command line.
    forking = multiprocessing.get_context("fork")
    results, out = forking.Pipe(duplex=False)
    process = forking.Process(target=_work, args=(path, recipe, parts, out))
    process.start()
    ending.callback(results.close)
    ending.callback(process.join)
    ending.callback(process.kill)
    out.close()
    return process, results


def _work(path: Path, recipe: Recipe, parts: Sequence[Part], out: Connection[Found | Exception, None]) -> None:
    end_with_parent()
    try:
        for found in _read(path, recipe, parts):
            out.send(found)
    except Exception as error:  # the parent raises it  # noqa: BLE001
        out.send(error)
