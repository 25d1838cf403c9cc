"""The directory of a replica, as what its owner sends changes it. Everything here blocks on the disk."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from threading import Lock
from typing import Concatenate, ParamSpec, TypeVar

from crawler.base.disk import FULL
from crawler.base.kv import BatchError
from crawler.base.settings.parts import OutputSettings
from crawler.job.copy_target import SPOOL, CopyTarget
from crawler.job.directory import JobError, holds_job, make_directory
from crawler.job.follower import Follower, GapError
from crawler.job.former import kept_former
from crawler.job.job_lock import lock_holder
from crawler.job.kept_steps import KeptSteps
from crawler.job.partition.replica_values import Being
from crawler.job.platform import Platform
from crawler.job.replica.copy_pieces import CopyBegin, CopyEnd, CopyError, HandOver, Piece
from crawler.job.replica.replica_codec import ReplicaCodec
from crawler.job.replica.seal import ChunkError
from crawler.job.replica.step_codec import START, Chunk, Mark
from crawler.job.spool import Spool
from crawler.job.stored_errors import DAMAGE

T = TypeVar("T")
P = ParamSpec("P")

_DAMAGED = (GapError, ChunkError, BatchError, OSError, *DAMAGE)


def _alone(method: Callable[Concatenate[ReplicaDirectory, P], T]) -> Callable[Concatenate[ReplicaDirectory, P], T]:
    """One at a time: a thread goes on with a call of which nobody waits for the end any more."""

    @wraps(method)
    def call(self: ReplicaDirectory, /, *args: P.args, **kwargs: P.kwargs) -> T:
        with self.lock:
            return method(self, *args, **kwargs)

    return call


class ReplicaDirectory:
    """The replica of a partition. While it is being copied, ``mark`` is that of the steps which wait for the end of the
    copy. No two of its methods run at once, but ``checkpoint`` beside the others."""

    def __init__(self, directory: Path, number: int, platform: Platform, codec: ReplicaCodec) -> None:
        self.lock = Lock()
        self._directory = directory
        self._number = number
        self._platform = platform
        self._codec = codec
        self._sizes = OutputSettings()
        self._follower: Follower | None = None
        self.keeps = 0  # bytes of the last steps that are kept for other replicas of the partition
        self._copying: _Copying | None = None
        self.safe = START  # the last step that is safe on the disk
        self.is_left = False  # its owner has closed the partition, and said so behind its last step
        self.copy = 0  # the number of the last copy that began
        self.said: list[str] = []  # what the user should know; the caller takes it away

    @property
    def being(self) -> Being:
        """What is there."""
        if self._copying is not None:
            return Being.COPYING
        return Being.NONE if self._follower is None else Being.WHOLE

    @property
    def mark(self) -> Mark:
        """The last step."""
        if self._copying is not None:
            return self._copying.mark
        return START if self._follower is None else self._follower.mark

    @property
    def pieces(self) -> int:
        """How many pieces of the copy under way are written."""
        return 0 if self._copying is None else self._copying.target.index

    @_alone
    def open(self, sizes: OutputSettings, fault: str = "") -> str:
        """Go on with the directory if there is one, and it is not known to have that fault. Returns why what is there
        is no replica; "" if it is one. Raises JobError if another process has it, and OSError, also for a full
        disk."""
        self._sizes = sizes
        replicas, name = self._directory.parent, self._directory.name
        make_directory(replicas, self._platform.disk)
        CopyTarget(replicas, name, self._platform.disk).discard()
        (replicas / f"{name}{SPOOL}").unlink(missing_ok=True)
        return self._open() if holds_job(self._directory) and not fault else fault

    @_alone
    def take(self, messages: Sequence[bytes]) -> Mark | None:
        """Do what the owner sent, in order. Returns the last step of the partition if it was handed over with that,
        which is then written here. Raises OSError if the disk is full, after which the same messages may be given
        again, and JobError."""
        handed: Mark | None = None
        for data in messages:
            try:
                message = self._codec.decode(data)
            except ChunkError as error:
                self.said.append(f"ignored a malformed message: {error}")
                continue
            if message.partition != self._number:
                continue
            if isinstance(message, HandOver):
                handed = Mark(message.line, message.number) if self._has(message) else None
                continue
            try:
                self._do(message, data)
            except CopyError as error:
                self._break_off(f"a copy broke off: {error}")
            except _DAMAGED as error:
                if isinstance(error, OSError) and error.errno in FULL:
                    raise
                self._break_off(f"it will be copied again: {error}")
        return handed

    @_alone
    def sync(self) -> None:
        """Make what was written durable. Raises OSError if the disk is full."""
        follower = self._follower
        if follower is None or self._is_gone(follower):
            return
        mark = follower.mark
        if mark == self.safe:
            return
        try:
            follower.sync()
        except _DAMAGED as error:
            if isinstance(error, OSError) and error.errno in FULL:
                raise
            self._break_off(f"it will be copied again: {error}")
        else:
            self.safe = mark

    def checkpoint(self, now: float) -> None:
        """Write a generation of the seen-set. It may take long, and the other methods do not wait for it. Raises
        OSError if the disk is full."""
        with self.lock:
            follower = self._follower
            if follower is None or self._copying is not None or self._is_gone(follower):
                return
        try:
            self.said.extend(follower.checkpoint(now))
        except _DAMAGED as error:
            if isinstance(error, OSError) and error.errno in FULL:
                raise
            with self.lock:
                if self._follower is follower:
                    self._break_off(f"it will be copied again: {error}")

    @_alone
    def close(self) -> KeptSteps | None:
        """Release all files. A copy under way is thrown away. Returns the last steps, if they were kept."""
        self._throw_away()
        return self._close()

    # -- its parts ---------------------------------------------------------------------------------------------

    def _do(self, message: Chunk | CopyBegin | Piece | CopyEnd, data: bytes) -> None:
        if isinstance(message, Chunk):
            self._steps(message, data)
        elif isinstance(message, CopyBegin):
            self._begin(message)
        elif self._copying is not None and message.copy == self.copy:
            self._copied(self._copying, message)

    def _steps(self, chunk: Chunk, data: bytes) -> None:
        self.is_left = not chunk.steps
        if self._copying is not None:
            self._copying.keep(chunk, data)
        elif self._follower is not None and follows(chunk, self._follower.mark):
            self._follower.keep(self.keeps)
            self._follower.apply(chunk)

    def _begin(self, begin: CopyBegin) -> None:
        if begin.copy == self.copy:
            return  # it came again
        self._throw_away()
        self._copying = _Copying(begin, self._directory, self._platform)
        self.copy = begin.copy

    def _copied(self, copying: _Copying, message: Piece | CopyEnd) -> None:
        """Write a piece. With the end, the copy and the steps that waited take the place of the directory."""
        if isinstance(message, CopyEnd):
            self._close()
        try:
            if not copying.target.take(message):
                return
        except OSError as error:
            raise CopyError(str(error)) from error
        fault = self._open() if self._follower is None else ""
        if self._follower is None:
            raise CopyError(f"what was copied cannot be opened: {fault}")
        while (data := copying.next()) is not None:
            chunk = self._codec.decode(data)
            if isinstance(chunk, Chunk) and follows(chunk, self._follower.mark):
                self._follower.apply(chunk)
            copying.done()
        copying.spool.remove()
        self._copying = None
        if copying.target.former is not None:
            self.said.append(kept_former(copying.target.former))

    def _open(self) -> str:
        """Returns why that fails. Raises JobError if another process has the directory, OSError for a full disk."""
        try:
            self._follower = Follower(self._directory, self._platform, self._sizes)
        except (JobError, *_DAMAGED) as error:
            if isinstance(error, JobError) and is_held(self._directory):
                raise
            if isinstance(error, OSError) and error.errno in FULL:
                raise
            fault = error.fault if isinstance(error, JobError) else str(error)
            self.said.append(f"{self._directory} cannot be opened, and will be copied again: {fault}")
            return fault
        return ""

    def _has(self, message: HandOver) -> bool:
        return self.being is Being.WHOLE and self.mark == Mark(message.line, message.number)

    def _is_gone(self, follower: Follower) -> bool:
        """Whether somebody removed the directory, or put another one there."""
        if follower.is_in_place:
            return False
        self._break_off("its directory was taken away: it will be copied again")
        return True

    def _break_off(self, line: str) -> None:
        self.said.append(line)
        self._throw_away()
        self._close()

    def _throw_away(self) -> None:
        """Forget the copy under way."""
        copying, self._copying = self._copying, None
        if copying is not None:
            with contextlib.suppress(OSError):  # the next one begins by removing it, and says what is wrong
                copying.discard()

    def _close(self) -> KeptSteps | None:
        follower, self._follower = self._follower, None
        self.safe = START
        if follower is not None:
            with contextlib.suppress(OSError):  # what was written is with the operating system; it may be taken away
                return follower.close()
        return None


class _Copying:
    """A copy under way, and the steps that wait for its end."""

    def __init__(self, begin: CopyBegin, directory: Path, platform: Platform) -> None:
        replicas, name = directory.parent, directory.name
        self.target = CopyTarget(replicas, name, platform.disk)
        self.target.take(begin)
        self.spool = Spool(replicas / f"{name}{SPOOL}")
        self.mark = START
        self._next: bytes | None = None

    def keep(self, chunk: Chunk, data: bytes) -> None:
        """Keep the steps, if they follow those that wait."""
        if self.mark == START or (chunk.follows == self.mark and chunk.steps):
            self.spool.append(data)
            self.mark = chunk.reaches

    def next(self) -> bytes | None:
        """The oldest steps that are not ``done``."""
        if self._next is None:
            self._next = self.spool.next()
        return self._next

    def done(self) -> None:
        """They are written."""
        self._next = None

    def discard(self) -> None:
        """Remove all that came."""
        try:
            self.target.discard()
        finally:
            self.spool.remove()


def is_held(directory: Path) -> bool:
    """Whether a process has the directory open."""
    try:
        return lock_holder(directory) is not None
    except OSError:
        return False  # nobody could have opened it


def follows(chunk: Chunk, mark: Mark) -> bool:
    """Whether the chunk has steps that come right after that state. If not, they are old ones that came again, or some
    are missing before them."""
    if chunk.reaches.number <= mark.number:
        return False
    return chunk.follows == mark or (chunk.line == mark.line and chunk.first <= mark.number + 1)
