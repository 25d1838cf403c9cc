"""The log of a worker in a bucket: numbered objects, of which the last one may close it.

    object  =  { size (4)  message };  a message is sealed (``steps.seal``)

A process that takes a partition over first closes its owner's log: no process can append to a closed log, because an
object is put only if no other has its number.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from crawler.job.bucket.layout import Owner, Release, Snapshot, log_key, owner_key, read, release_key, standing
from crawler.job.bucket.objects import BucketDown, BucketError, Objects, put_own
from crawler.job.steps.seal import ChunkError, Kind, Sealed, Sealing
from crawler.job.steps.step_codec import Chunk, decode_chunk, encode_chunk

_SIZE = struct.Struct(">I")
_AHEAD = 16  # objects read concurrently
_MISSING: list[Chunk] = []  # stands for an object that does not exist
_CLOSED: list[Chunk] = []  # stands for an object that closes the log


class Log:
    """The log of one worker, sealed with the crawl's ``sealing``."""

    def __init__(self, objects: Objects, sealing: Sealing, worker: str) -> None:
        self.worker = worker
        self._objects = objects
        self._sealing = sealing

    def encode(self, chunks: Sequence[Chunk]) -> bytes:
        """Encode the object with these steps."""
        messages = [self._sealing.close(Kind.STEPS, chunk.partition, encode_chunk(chunk)) for chunk in chunks]
        return b"".join(_SIZE.pack(len(each)) + each for each in messages)

    def put(self, number: int, data: bytes) -> bool:
        """Put the object with that number. Returns False if another process has closed the log. Raises BucketError,
        BucketDown."""
        return put_own(self._objects, log_key(self.worker, number), data)

    def close(self, number: int) -> int:
        """Close the log, all of whose objects below ``number`` exist. Returns the number of the closing object, which
        another process may have put. Raises BucketError, BucketDown."""
        message = self._sealing.close(Kind.CLOSED, 0, b"")
        data = _SIZE.pack(len(message)) + message
        number = self._after_listed(number)
        while not self._objects.put(log_key(self.worker, number), data):
            found = self._chunks(number)
            if found is _MISSING:  # the store may return the object later
                raise BucketDown(f"{self._objects.address} does not return {log_key(self.worker, number)} yet")
            if found is _CLOSED:
                break
            number += 1
        return number

    def end(self, first: int) -> int:
        """Return the number after the last object, or ``first`` if no object has that number or a greater one. Raises
        BucketError, BucketDown."""
        number = self._after_listed(first)
        while self._objects.get(log_key(self.worker, number)) is not None:
            number += 1
        return number

    def _after_listed(self, number: int) -> int:
        """Return a number below which all objects exist; listings may lack the newest ones."""
        prefix = f"log/{self.worker}/"
        names = [each.key.removeprefix(prefix) for each in self._objects.list(prefix)]
        last = max((int(name) for name in names if name.isdecimal()), default=number)
        return max(number, last)

    def chunks(self, number: int) -> list[Chunk] | None:
        """Return the steps in the object with that number; None if it closes the log, or does not exist. Raises
        BucketError, BucketDown."""
        found = self._chunks(number)
        return None if found is _CLOSED or found is _MISSING else found

    def _chunks(self, number: int) -> list[Chunk]:
        key = log_key(self.worker, number)
        data = self._objects.get(key)
        if data is None:
            return _MISSING
        try:
            messages = list(self._messages(data))
            if not messages:
                raise ChunkError("it is empty")
            if messages[0].kind is Kind.CLOSED:
                return _CLOSED
            return [decode_chunk(each.partition, each.content) for each in messages]
        except (ChunkError, struct.error) as error:
            raise BucketError(f"{self._objects.address}/{key}: {error}") from error

    def _messages(self, data: bytes) -> Iterator[Sealed]:
        at = 0
        while at < len(data):
            (size,) = _SIZE.unpack_from(data, at)
            at += _SIZE.size + size
            yield self._sealing.open(data[at - size : at])

    def read(self, partition: int, first: int, end: int | None = None, *, is_closed: bool = False) -> Iterator[Chunk]:
        """Yield the partition's steps in the objects from ``first`` up to but not including ``end``, or to the end of
        the log. ``is_closed``: the log has been closed, so if an object is missing, it was removed, and the log does
        not end there. Raises BucketError, BucketDown."""
        with ThreadPoolExecutor(_AHEAD, thread_name_prefix="bucket") as executor:
            for start in itertools.count(first, _AHEAD):
                numbers = range(start, start + _AHEAD if end is None else min(start + _AHEAD, end))
                if not numbers:
                    return
                for number, chunks in zip(numbers, executor.map(self._chunks, numbers), strict=True):
                    if chunks is _MISSING and (is_closed or end is not None):
                        key = f"{self._objects.address}/{log_key(self.worker, number)}"
                        raise BucketError(f"{key} is missing: part of the log was removed")
                    if chunks is _MISSING or chunks is _CLOSED:
                        return
                    yield from (chunk for chunk in chunks if chunk.partition == partition)


def steps_after(objects: Objects, sealing: Sealing, partition: int, snapshot: Snapshot) -> Iterator[Chunk]:
    """Yield the partition's steps after a snapshot, written by the owner of the snapshot's epoch. Raises BucketError,
    BucketDown."""
    now, end = standing(objects, partition), None
    if snapshot.epoch in now.releases:
        release = read(objects, release_key(partition, snapshot.epoch), Release)
        end = None if release is None else release.end
    elif snapshot.epoch < now.epoch:
        after = read(objects, owner_key(partition, snapshot.epoch + 1), Owner)
        if after is not None and after.worker == snapshot.worker:
            end = after.first  # the same process took the partition again, without closing its log
    log = Log(objects, sealing, snapshot.worker)
    yield from log.read(partition, snapshot.log, end, is_closed=snapshot.epoch < now.epoch)
