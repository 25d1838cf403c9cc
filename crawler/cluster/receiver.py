"""Reads the streams of the partitions that are open here, and admits the links that others send.

Small batches that were read together form one transaction. Each transaction is a unit of bulk work, so that visits get
most of the event loop's time however many batches arrive. An entry is trimmed once its contents are durable; until then
its sender also keeps them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, starmap

from crawler.base.carrier.verbs import CarrierError, Entry, Position
from crawler.cluster.open_partition import OpenPartition
from crawler.cluster.reach import Backoff, Reach, together
from crawler.engine.fair_turns import Turns
from crawler.job.partition.inlet import Verdict
from crawler.job.partition.link_batch_codec import (
    BATCH_BYTES,
    Ack,
    Content,
    LinkBatch,
    LinkBatchCodec,
    LinkBatchError,
    Note,
)

log = logging.getLogger("crawler")

WAIT = 0.5  # seconds to wait for an entry; a partition opened meanwhile is read only after this wait
ENTRIES = 64  # entries per read over all streams: 4 MB of batches
GATHER = 0.1  # seconds to let entries accumulate after a read that emptied the streams
IDLE = 0.2  # seconds between two checks for open partitions
_LINES = 256  # maximum number of different lines logged
_BAD = (Verdict.MISSENT, Verdict.UNKNOWN, Verdict.DAMAGED)


class Receiving:
    """The receiver of one process."""

    def __init__(
        self,
        reach: Reach,
        codec: LinkBatchCodec,
        partitions: Mapping[int, OpenPartition],
        turns: Turns,
        clock: Callable[[], float],
        heard: Callable[[OpenPartition, Note], None],
    ) -> None:
        """``heard`` is called with each note that a partition receives."""
        self._heard = heard
        self._reach = reach
        self._codec = codec
        self._partitions = partitions
        self._turns = turns
        self._clock = clock
        self._told: set[str] = set()  # lines already logged

    async def keep(self) -> None:
        """Receive until cancelled. Raises OSError when a job cannot be written."""
        backoff = Backoff()
        while True:
            try:
                await self._receive()
            except CarrierError:
                await backoff.rest()
            else:
                backoff.reset()

    async def _receive(self) -> None:
        partitions = {each.name: each for each in self._partitions.values() if not each.is_closing}
        if not partitions:
            await asyncio.sleep(IDLE)
            return
        after = {name: each.read_to for name, each in partitions.items()}
        most = max(1, ENTRIES // len(after))
        found = await self._reach.call(self._reach.carrier.read(after, most, WAIT), 2 * WAIT + 4.0)
        for name, entries in found.items():
            if await self.take(partitions[name], [self._decode(each) for each in entries]):
                partitions[name].has_read(entries[-1].position)
        done = [(name, position) for name, each in partitions.items() if (position := each.trimmable())]
        await together(starmap(self._trim, done))
        if found and max(map(len, found.values())) < most:
            await asyncio.sleep(GATHER)

    async def _trim(self, stream: str, upto: Position) -> None:
        await self._reach.call(self._reach.carrier.trim(stream, upto))

    async def take(self, partition: OpenPartition, contents: Sequence[Content | None]) -> bool:
        """Process what others have sent to a partition, with the batches in order. Returns False if nothing may be
        written to the partition any more."""
        async with partition.writing:
            for note in contents:
                if isinstance(note, Note):
                    self._heard(partition, note)
            acks = [each for each in contents if isinstance(each, Ack)]
            if acks:
                await self._turns.turn(bulk=True)
                if not await partition.may_write():
                    return False
                partition.acknowledged(acks, self._clock())
            for link_batches in _parts([each for each in contents if isinstance(each, LinkBatch)]):
                await self._turns.turn(bulk=True)
                if not await partition.may_write():
                    return False
                await self._admit(partition, link_batches)
            return not partition.is_closing

    async def _admit(self, partition: OpenPartition, link_batches: Sequence[LinkBatch]) -> None:
        receipts = partition.job.receive(link_batches, self._clock())
        for link_batch, receipt in zip(link_batches, receipts, strict=True):
            if receipt.verdict in _BAD:
                way = f"from partition {link_batch.sender} for partition {partition.number}"
                self._refuse(f"a batch {way} is {receipt.verdict}: {receipt.error or 'it belongs elsewhere'}")
        if any(receipt.verdict is Verdict.ADMITTED for receipt in receipts):
            partition.run.wake()
        for found in chain.from_iterable(receipt.doubted for receipt in receipts):
            await partition.run.incoming.look_up(found)

    def _decode(self, entry: Entry) -> Content | None:
        try:
            return self._codec.decode(entry.data)
        except LinkBatchError as error:
            self._refuse(f"a stream between partitions holds an entry that is not a batch of this crawl: {error}")
            return None

    def _refuse(self, line: str) -> None:
        if line not in self._told and len(self._told) < _LINES:
            self._told.add(line)
            log.warning("%s: ignored", line)


def _parts(link_batches: Sequence[LinkBatch]) -> Iterator[Sequence[LinkBatch]]:
    """Yield the batches in groups that are at most about as large as one full batch."""
    begin = size = 0
    for at, link_batch in enumerate(link_batches):
        more = sum(map(len, link_batch.messages))
        if size + more > BATCH_BYTES and at > begin:
            yield link_batches[begin:at]
            begin, size = at, 0
        size += more
    if link_batches:
        yield link_batches[begin:]
