"""A copy of an open job for a replica elsewhere, read beside the crawl.

What changes is held still first, as for a backup: ``DIR/copying/ID`` gets second names of the seen-set's segments, of
the store's tables and of the outputs, which costs little time and no space. A file that is compressed or moved away
later keeps its bytes under that name. Then the files are read piece by piece, in a thread, as fast as the pieces are
taken.

An output is copied as long as it is when it is read, which is no shorter than the store of the copy says: the replica
cuts off the rest, as a job does after a crash. Bodies never change once they have their name: they are read where they
are, and those that come meanwhile do no harm. The inbox is not copied: nothing that it holds was promised to anybody.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor, wait
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from crawler.base.disk import CANNOT_LINK, failpoint, make_private_directory
from crawler.job.directory import LACKS_BODIES, PAGES
from crawler.job.job import Job
from crawler.job.output.body_files import bodies_in
from crawler.job.output.outputs import FORMS, OF_BODIES
from crawler.job.output.record_text import page_numbers
from crawler.job.replica.copy_pieces import PIECE, CopyBegin, CopyEnd, CopyError, FilePart, Piece, is_path
from crawler.job.replica.replica_codec import ReplicaCodec
from crawler.job.replica.step_codec import START
from crawler.job.snapshot import COPYING, link_state, remove_tree

T = TypeVar("T")

_PART_COST = 64  # bytes that a part costs besides its data: bounds how many small files are in a piece


class JobCopy:
    """A copy of a job as sealed messages, in order. As an async context manager it makes, and in the end removes, what
    it reads. ``number`` is that of the copy. The log of the job holds all steps after the state ``follows``, which is
    that of the copy or an earlier one."""

    def __init__(
        self,
        job: Job,
        partition: int,
        codec: ReplicaCodec,
        *,
        executor: Executor | None = None,
        size: int = PIECE,
    ) -> None:
        """``executor`` has one thread, which reads, and ends with the copy; None: one of its own. ``size``: bytes of
        files in a piece."""
        self.number = int.from_bytes(os.urandom(8), "big") or 1
        self.follows = START
        self._job = job
        self._partition = partition
        self._codec = codec
        self._at = job.directory / COPYING / f"{self.number:016x}"
        self._bodies = job.log.bodies
        self._size = size
        self._executor = executor or ThreadPoolExecutor(1, thread_name_prefix="copying")
        self._messages = self._read()
        self._made: Future[None] | None = None

    async def __aenter__(self) -> JobCopy:
        """Hold the job still. Raises OSError."""
        log = self._job.log
        log.keep()
        self.follows = log.mark
        # The thread of syncs and checkpoints: no generation is written or removed meanwhile, and no file compressed.
        self._made = self._job.files.executor.submit(self._make)
        try:
            await asyncio.wrap_future(self._made)
        except BaseException:
            await self._clear()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._clear()

    async def next(self) -> bytes | None:
        """The next message; None behind the last. Raises CopyError if a file has changed that never should, OSError."""
        return await self._do(lambda: next(self._messages, None))

    def _do(self, work: Callable[[], T]) -> asyncio.Future[T]:
        return asyncio.wrap_future(self._executor.submit(work))

    # -- holding it still --------------------------------------------------------------------------------------

    def _make(self) -> None:
        job, store = self._job.directory, self._job.store
        make_private_directory(self._at, parents=True)
        link_state(job, self._at, lambda path: store.snapshot(str(path)))
        # After the store: what it names is there.
        _link_outputs(job, self._at, bodies=self._bodies)
        if not self._bodies:
            (self._at / LACKS_BODIES).touch()
        failpoint("copy.linked")

    async def _clear(self) -> None:
        # In the thread that reads, behind what it does now: also when the task that asked for it is cancelled.
        clearing = self._executor.submit(self._remove)
        self._executor.shutdown(wait=False)
        await asyncio.shield(asyncio.wrap_future(clearing))

    def _remove(self) -> None:
        if self._made is not None:
            wait([self._made])
        self._messages.close()
        remove_tree(self._at)

    # -- reading -----------------------------------------------------------------------------------------------

    def _read(self) -> Generator[bytes, None, None]:
        partition, copy, count = self._partition, self.number, 0
        yield self._codec.encode(CopyBegin(partition, copy))
        for parts in _gathered(self._files(), self._size):
            yield self._codec.encode(Piece(partition, copy, count, parts))
            count += 1
            failpoint("copy.read")
        yield self._codec.encode(CopyEnd(partition, copy, count))

    def _files(self) -> Iterator[tuple[str, Path]]:
        """The files of the copy: the path in the job of each, and where it is read."""
        for top, directories, names in os.walk(self._at):
            directories.sort()
            for name in sorted(names):
                path = Path(top, name)
                yield str(path.relative_to(self._at)), path
        if self._bodies:
            for body, entry in bodies_in(self._job.directory):
                yield body, Path(entry.path)


def _link_outputs(job: Path, to: Path, *, bodies: bool) -> None:
    """Give the files of records and of other outputs a second name; without ``bodies`` not to those that hold what was
    fetched. Raises OSError."""
    _link(job / PAGES, to / PAGES)
    for path in page_numbers(job / PAGES).values():
        _link(path, to / path.name)
    for kind, form in FORMS.items():
        numbers = form.numbers(job) if bodies or kind not in OF_BODIES else []
        if numbers:
            make_private_directory(to / form.name)
        for number in numbers:
            _link(form.path(job, number), form.path(to, number))


def _link(source: Path, target: Path) -> None:
    real = os.path.realpath(source)  # the file itself, if its user has moved it to a larger disk
    try:
        os.link(real, target)
    except OSError as error:
        if error.errno not in CANNOT_LINK:
            raise
        os.symlink(real, target)


def _gathered(files: Iterator[tuple[str, Path]], most: int) -> Iterator[list[FilePart]]:
    """The files in order, in pieces of so many bytes. Raises CopyError, OSError."""
    parts, size = list[FilePart](), 0
    for name, path in files:
        if not is_path(name):
            continue  # none of ours
        try:
            stream = open(path, "rb", buffering=0)  # noqa: SIM115  # closed below
        except FileNotFoundError as error:
            raise CopyError(f"{path} was removed while it was to be copied") from error
        with stream:
            offset, end = 0, os.fstat(stream.fileno()).st_size
            while True:
                data = stream.read(min(most - size, end - offset)) if offset < end else b""
                if not data and offset < end:
                    raise CopyError(f"{path} was cut from {end} to {offset} bytes while it was copied")
                parts.append(FilePart(name, offset, data))
                offset += len(data)
                size += len(data) + _PART_COST
                if size >= most:
                    yield parts
                    parts, size = [], 0
                if offset >= end:
                    break
    if parts:
        yield parts
