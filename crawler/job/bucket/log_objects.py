"""The log of a worker in a bucket: objects with numbers, of which the last one may close it.

    object  =  { size (4)  message };  a message is sealed (``replica.seal``)

Whoever takes a partition over closes the log of its owner first: no process can add to a log behind its end, because
each object is put only if there is none with its number.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from crawler.job.bucket.layout import log_key
from crawler.job.bucket.objects import BucketError, Objects, put_own
from crawler.job.replica.seal import ChunkError, Kind, Sealed, Sealing
from crawler.job.replica.step_codec import Chunk, decode_chunk, encode_chunk

_SIZE = struct.Struct(">I")
_AHEAD = 16  # objects that are read at once


class Log:
    """The log of one worker. ``sealing`` is that of the crawl. ``is_closed``: it was closed, so that an object which is
    missing was removed by somebody, and is not the end."""

    def __init__(self, objects: Objects, sealing: Sealing, worker: str, *, is_closed: bool = False) -> None:
        self.worker = worker
        self._is_closed = is_closed
        self._objects = objects
        self._sealing = sealing

    def encode(self, chunks: Sequence[Chunk]) -> bytes:
        """The object with these steps."""
        messages = [self._sealing.close(Kind.STEPS, chunk.partition, encode_chunk(chunk)) for chunk in chunks]
        return b"".join(_SIZE.pack(len(each)) + each for each in messages)

    def put(self, number: int, data: bytes) -> bool:
        """Put the object with that number. False if another process has closed the log. Raises BucketError,
        BucketDown."""
        return put_own(self._objects, log_key(self.worker, number), data)

    def close(self, number: int) -> int:
        """Close the log, which has an object for each number below. Returns the number of the object that closes it,
        which another process may have put. Raises BucketError, BucketDown."""
        message = self._sealing.close(Kind.CLOSED, 0, b"")
        data = _SIZE.pack(len(message)) + message
        number = self._after_listed(number)
        while not self._objects.put(log_key(self.worker, number), data):
            if self.chunks(number) is None:
                break
            number += 1
        return number

    def _after_listed(self, number: int) -> int:
        """A number below which there is an object for each: a list may lack the newest ones."""
        prefix = f"log/{self.worker}/"
        names = [each.key.removeprefix(prefix) for each in self._objects.list(prefix)]
        last = max((int(name) for name in names if name.isdecimal()), default=number)
        return max(number, last)

    def chunks(self, number: int) -> list[Chunk] | None:
        """The steps in the object with that number; None if it closes the log, or is behind its end. Raises
        BucketError, BucketDown."""
        key = log_key(self.worker, number)
        data = self._objects.get(key)
        if data is None and self._is_closed:
            raise BucketError(f"{self._objects.address}/{key} is missing: somebody has removed a part of the log")
        try:
            messages = None if data is None else list(self._messages(data))
            if messages == []:
                raise ChunkError("it is empty")
            if messages is None or messages[0].kind is Kind.CLOSED:
                return None
            return [decode_chunk(each.partition, each.content) for each in messages]
        except (ChunkError, struct.error) as error:
            raise BucketError(f"{self._objects.address}/{key}: {error}") from error

    def _messages(self, data: bytes) -> Iterator[Sealed]:
        at = 0
        while at < len(data):
            (size,) = _SIZE.unpack_from(data, at)
            at += _SIZE.size + size
            yield self._sealing.open(data[at - size : at])

    def read(self, partition: int, number: int) -> Iterator[Chunk]:
        """The steps of the partition in the objects from that number on, up to the end of the log. Raises BucketError,
        BucketDown."""
        with ThreadPoolExecutor(_AHEAD, thread_name_prefix="bucket") as executor:
            while True:
                for chunks in executor.map(self.chunks, range(number, number + _AHEAD)):
                    if chunks is None:
                        return
                    yield from (chunk for chunk in chunks if chunk.partition == partition)
                number += _AHEAD
