"""Builds a seen-set from a list, using all cores.

The list is split into pieces, which are assigned in turn to as many processes as there are cores. These do nearly all
of the work: splitting lines, canonicalising, hashing.

    bloom, bitmap    each process sets bits in its own filter; the filters are united (OR) at the end
    other kinds      each process returns digests, which are added here in the order of the list

The first way scales with the number of cores, and takes the memory of one filter per process. Both give the same
answers as adding the list line by line in one process.
"""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, cast

from crawler.base.faults import Failure
from crawler.base.processes import cores
from crawler.base.same_program import words_of
from crawler.seen.filters import DIGEST_BYTES, Filter, FilterError, FormatError, read_segment
from crawler.seen.filters.memory_budget import Room
from crawler.tools.dedup.build_process import Pieces, Recipe, Share, tally_of
from crawler.tools.dedup.filter_setup import UNITED, make_filter, room_of
from crawler.tools.dedup.key_spec import LineKeys
from crawler.tools.dedup.lines import LineSource, Pause, part_of_file
from crawler.tools.dedup.store import FilterFileError, StoredFilter, read_filter, read_stored
from crawler.tools.dedup.stream import Tally

_PIECE = 8 * 2**20
_LEAST_PIECE = 2**16
_WORTH_A_PROCESS = 16 * 2**20  # bytes of a list; starting a process takes as long as reading this many


class BuildError(Failure):
    """A process of a build ended too early. The message is one line for the user."""


def usual_jobs(size: int) -> int:
    """Return how many processes to start for a list of ``size`` bytes."""
    return max(1, min(cores(), size // _WORTH_A_PROCESS))


def build_from_file(path: Path, recipe: Recipe, jobs: int | None = None) -> tuple[Filter, Tally]:
    """Build the seen-set of a regular file's lines with ``jobs`` processes; None means the optimal number.

    Raises BuildError, LineTooLongError, FilterError (before anything too large is allocated), OSError.
    """
    size = path.stat().st_size
    unite = recipe.seen.kind in UNITED
    seen, jobs = _empty(recipe, jobs or usual_jobs(size), unite, must=jobs is not None)
    if jobs == 1:
        return seen, _alone(path, size, recipe, seen)
    piece = max(_LEAST_PIECE, min(_PIECE, -(-size // (4 * jobs))))
    shares = [Share(str(path), Pieces(size, piece, number, jobs), recipe, unite) for number in range(jobs)]
    tally = Tally()
    with ExitStack() as ending:
        processes = [ending.enter_context(_Process(share)) for share in shares]
        if unite:
            _unite(seen, processes)
        else:
            _add_in_turn(seen, processes, -(-size // piece))
        for process in processes:
            lines, skipped = process.tally()
            tally.lines += lines
            tally.skipped += skipped
    tally.new = len(seen)
    return seen, tally


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


def _empty(recipe: Recipe, jobs: int, unite: bool, must: bool) -> tuple[Filter, int]:
    """Return an empty seen-set, and how many processes may fill filters like it: fewer than ``jobs`` if memory is
    short, unless the number is mandatory (``must``)."""
    try:
        # In addition to the processes' filters: the united filter, and the one being read.
        return _made(recipe, copies=jobs + 2 if unite and jobs > 1 else 1), jobs
    except FilterError:
        if must or jobs == 1:
            raise
    return _made(recipe), 1


def _made(recipe: Recipe, copies: int = 1) -> Filter:
    return make_filter(recipe.seen, recipe.layout, copies, recipe.hash)


def build_from_source(source: LineSource, recipe: Recipe) -> tuple[Filter, Tally]:
    """Build the seen-set from the lines of a pipe, in this process. Raises LineTooLongError, FilterError, OSError."""
    seen = _made(recipe)
    keys, room = recipe.keys.reader(recipe.hash), room_of(seen)
    tally = Tally(skipped=keys.skipped)
    while not isinstance(block := source.next(), Pause):
        _add_block(block, keys, seen, room, tally)
    return seen, tally


def _alone(path: Path, size: int, recipe: Recipe, seen: Filter) -> Tally:
    keys, room = recipe.keys.reader(recipe.hash), room_of(seen)
    tally = Tally(skipped=keys.skipped)
    with open(path, "rb") as inp:
        for block in part_of_file(inp.fileno(), 0, size):
            _add_block(block, keys, seen, room, tally)
    return tally


def _add_block(block: bytes, keys: LineKeys, seen: Filter, room: Room, tally: Tally) -> None:
    lines, digests = keys.read(block)
    room.need(len(seen) + len(lines))
    tally.lines += len(lines)
    tally.new += len(seen.add_digests(digests))


def _unite(seen: Filter, processes: Sequence[_Process]) -> None:
    for process in processes:
        seen.unite(process.filter(sum(part["bits"] // 8 for part in seen.statistics()["slices"])))


def _add_in_turn(seen: Filter, processes: Sequence[_Process], pieces: int) -> None:
    room = room_of(seen)
    for number in range(pieces):
        digests = processes[number % len(processes)].digests()
        room.need(len(seen) + len(digests) // DIGEST_BYTES)
        seen.add_digests(digests)


class _Process:
    """A process that handles one share. It is killed when the context ends."""

    def __init__(self, share: Share) -> None:
        self._piece = share.pieces.piece
        self._process = subprocess.Popen(
            words_of("crawler.tools.dedup.build_process"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self._out = cast("BinaryIO", self._process.stdout)
        # If the process has already ended, reading its result reports it.
        with suppress(BrokenPipeError), cast("BinaryIO", self._process.stdin) as told:
            told.write(share.to_json().encode())
        self._process.stdin = None  # closed; otherwise `communicate` would write to it again

    def __enter__(self) -> _Process:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._process.kill()
        self._process.communicate()

    def filter(self, size: int) -> Filter:
        """Return the filter of the process's share, of ``size`` bytes. Raises BuildError."""
        try:
            # The watched keys of the filter take a few more MiB at most.
            return read_stored(self._out, size + 2**24).seen
        except FormatError as problem:
            raise self._ended(problem) from problem

    def digests(self) -> bytes:
        """Return the digests of the process's next piece. Raises BuildError."""
        try:
            return bytes(read_segment(self._out, limit=DIGEST_BYTES * (self._piece + 1))[1])
        except FormatError as problem:
            raise self._ended(problem) from problem

    def tally(self) -> tuple[int, Counter[str]]:
        """Return the number of lines with a key, and the number without one by reason. Raises BuildError."""
        try:
            return tally_of(read_segment(self._out, limit=0)[0])
        except FormatError as problem:
            raise self._ended(problem) from problem

    def _ended(self, problem: FormatError) -> BuildError:
        _, told = self._process.communicate()
        lines = told.decode("utf-8", "replace").split("\n")
        words = next((line for line in reversed(lines) if line.strip()), str(problem))
        return BuildError(f"a build process ended with exit code {self._process.returncode}: {words.strip()}")
