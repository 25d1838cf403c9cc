"""A seen-set from a list, at the speed of the machine.

The list is cut into pieces of bytes, dealt out in turn to as many processes as there are cores. Nearly all work is done
there: cutting lines, canonicalising, hashing.

    bloom, bitmap    each process sets bits in a filter of its own; in the end they are united (OR)
    the others       each process gives digests, and they are added here in the order of the list

The first way has no part that does not scale, and costs the memory of a filter a process. Either gives the same answers
as adding the list line by line in one process.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, cast

import crawler
from crawler.dedup.key_spec import KeySpec, LineKeys
from crawler.dedup.lines import LineSource, Pause, part_of_file
from crawler.dedup.make import UNITED, make_filter, room_of
from crawler.dedup.store import FilterFileError, StoredFilter, read_filter, read_stored
from crawler.dedup.stream import Tally
from crawler.dedup.worker import Share, tally_of
from crawler.filters import DIGEST_BYTES, FilterError, FormatError, SeenSet, read_segment
from crawler.filters.bloom import FixedChain
from crawler.filters.chain import Chain
from crawler.filters.memory_budget import Room
from crawler.settings import SeenSettings

_PIECE = 8 * 2**20
_LEAST_PIECE = 2**16
_WORTH_A_PROCESS = 16 * 2**20  # bytes of a list; starting a process takes as long as reading these


class BuildError(Exception):
    """A process of a build ended too early; one line for the user."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """What is to be made of the lines of a list."""

    keys: KeySpec
    seen: SeenSettings
    layout: str | None = None


def usual_jobs(size: int) -> int:
    """How many processes a list of ``size`` bytes is worth."""
    return max(1, min(len(os.sched_getaffinity(0)), size // _WORTH_A_PROCESS))


def build_from_file(path: Path, recipe: Recipe, jobs: int | None = None) -> tuple[SeenSet, Tally]:
    """The seen-set of a regular file's lines, made by ``jobs`` processes; None: as many as are of use.

    Raises BuildError, LineTooLongError, FilterError (before anything is allocated that has no room), OSError.
    """
    size = path.stat().st_size
    unite = recipe.seen.kind in UNITED
    seen, jobs = _empty(recipe, jobs or usual_jobs(size), unite, must=jobs is not None)
    if jobs == 1:
        return seen, _alone(path, size, recipe, seen)
    piece = max(_LEAST_PIECE, min(_PIECE, -(-size // (4 * jobs))))
    whole = Share(str(path), size, piece, 0, jobs, recipe.keys, recipe.seen, recipe.layout, unite)
    shares = [replace(whole, first=number) for number in range(jobs)]
    tally = Tally()
    with ExitStack() as ending:
        processes = [ending.enter_context(_Process(share)) for share in shares]
        if unite:
            _unite(seen, processes)
        else:
            _add_in_turn(seen, processes, whole)
        for process in processes:
            lines, skipped = process.tally()
            tally.lines += lines
            tally.skipped += skipped
    tally.new = len(seen)
    return seen, tally


def merge_files(paths: Sequence[Path]) -> StoredFilter:
    """The union of filters. Raises FilterFileError that names the files."""
    first, *others = paths
    whole = read_filter(first)
    for path in others:
        part = read_filter(path)
        if whole.keys is not None and part.keys is not None and whole.keys != part.keys:
            raise FilterFileError(f"filter {first} holds {whole.keys}, {path} holds {part.keys}: they cannot be merged")
        if not isinstance(whole.seen, Chain) or not isinstance(part.seen, Chain):
            raise TypeError(f"a seen-set of kind {whole.seen.kind} cannot be united")
        try:
            whole.seen.unite(part.seen)
        except FilterError as problem:
            raise FilterFileError(f"filters {first} and {path}: {problem}") from problem
        whole = StoredFilter(whole.seen, whole.keys or part.keys)
    return whole


def _empty(recipe: Recipe, jobs: int, unite: bool, must: bool) -> tuple[SeenSet, int]:
    """An empty seen-set, and how many processes may fill filters like it; fewer than asked for unless they ``must``."""
    try:
        # Beside those of the processes: the united one, and the one that is just read.
        return make_filter(recipe.seen, recipe.layout, copies=jobs + 2 if unite and jobs > 1 else 1), jobs
    except FilterError:
        if must or jobs == 1:
            raise
    return make_filter(recipe.seen, recipe.layout), 1


def build_from_source(source: LineSource, recipe: Recipe) -> tuple[SeenSet, Tally]:
    """The same of lines that come through a pipe, in this process. Raises LineTooLongError, FilterError, OSError."""
    seen = make_filter(recipe.seen, recipe.layout)
    keys, room = recipe.keys.reader(), room_of(seen)
    tally = Tally(skipped=keys.skipped)
    while not isinstance(block := source.next(), Pause):
        _add_block(block, keys, seen, room, tally)
    return seen, tally


def _alone(path: Path, size: int, recipe: Recipe, seen: SeenSet) -> Tally:
    keys, room = recipe.keys.reader(), room_of(seen)
    tally = Tally(skipped=keys.skipped)
    with open(path, "rb") as inp:
        for block in part_of_file(inp.fileno(), 0, size):
            _add_block(block, keys, seen, room, tally)
    return tally


def _add_block(block: bytes, keys: LineKeys, seen: SeenSet, room: Room, tally: Tally) -> None:
    lines, digests = keys.read(block)
    room.need(len(seen) + len(lines))
    tally.lines += len(lines)
    tally.new += len(seen.add_digests(digests))


def _unite(seen: SeenSet, processes: Sequence[_Process]) -> None:
    for process in processes:
        part = process.filter(sum(link["bits"] // 8 for link in seen.statistics()["slices"]))
        if not isinstance(seen, FixedChain) or not isinstance(part, FixedChain):
            raise TypeError(f"a seen-set of kind {seen.kind} cannot be united")
        seen.unite(part)


def _add_in_turn(seen: SeenSet, processes: Sequence[_Process], whole: Share) -> None:
    room = room_of(seen)
    for number in range(-(-whole.size // whole.piece)):
        digests = processes[number % len(processes)].digests()
        room.need(len(seen) + len(digests) // DIGEST_BYTES)
        seen.add_digests(digests)


class _Process:
    """A worker at a share; ended when it is left."""

    def __init__(self, share: Share) -> None:
        self._piece = share.piece
        root = str(Path(crawler.__file__).resolve().parent.parent)
        path = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
        self._process = subprocess.Popen(
            # Without -P a package of that name in the working directory would be taken.
            [sys.executable, "-P", "-m", "crawler.dedup.worker", share.to_json()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": path},
        )
        self._out = cast("BinaryIO", self._process.stdout)

    def __enter__(self) -> _Process:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._process.kill()
        self._process.communicate()

    def filter(self, size: int) -> SeenSet:
        """The seen-set of its share, of ``size`` bytes. Raises BuildError."""
        try:
            # What is watched beside the filter is a few mebibytes at most.
            return read_stored(self._out, size + 2**24).seen
        except FormatError as problem:
            raise self._ended(problem) from problem

    def digests(self) -> bytes:
        """Those of its next piece. Raises BuildError."""
        try:
            return bytes(read_segment(self._out, limit=DIGEST_BYTES * (self._piece + 1))[1])
        except FormatError as problem:
            raise self._ended(problem) from problem

    def tally(self) -> tuple[int, Counter[str]]:
        """The lines with a key, and those without by reason. Raises BuildError."""
        try:
            return tally_of(read_segment(self._out, limit=0)[0])
        except FormatError as problem:
            raise self._ended(problem) from problem

    def _ended(self, problem: FormatError) -> BuildError:
        _, told = self._process.communicate()
        lines = told.decode("utf-8", "replace").split("\n")
        words = next((line for line in reversed(lines) if line.strip()), str(problem))
        return BuildError(f"a build process ended with code {self._process.returncode}: {words.strip()}")
