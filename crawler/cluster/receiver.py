"""Reads the streams of the partitions that are open here, and admits the links that others send.

Each batch is a unit of bulk work: however many arrive, visits keep most of the event loop's time. An entry is trimmed
once its contents are durable; until then its sender keeps it too.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence

from crawler.base.carrier.verbs import START, CarrierError, Entry, Position
from crawler.cluster.open_partition import OpenPartition
from crawler.cluster.reach import Backoff, Reach
from crawler.engine.fair_turns import Turns
from crawler.job.partition.inlet import Verdict
from crawler.job.partition.link_batch_codec import Ack, LinkBatch, LinkBatchCodec, LinkBatchError, Note

log = logging.getLogger("crawler")

WAIT = 0.5  # seconds to wait for an entry; a partition opened meanwhile is read after that
ENTRIES = 64  # entries per read over all streams: 4 MB of batches
GATHER = 0.1  # seconds to let entries accumulate after a read that emptied the streams
IDLE = 0.2  # seconds between two checks for open partitions
_ACKS = 256  # acknowledgements per transaction
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
        """``heard`` is called with each note."""
        self._heard = heard
        self._reach = reach
        self._codec = codec
        self._partitions = partitions
        self._turns = turns
        self._clock = clock
        self._told: set[str] = set()  # lines already logged
        self.refused = 0  # entries that are not batches of this crawl, or that this version cannot read

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
            async with partitions[name].writing:
                await self._take(partitions[name], ((self._decode(each), each.position) for each in entries))
        for partition in partitions.values():
            position = partition.trimmable()
            if position is not None and position != START:
                await self._reach.call(self._reach.carrier.trim(partition.name, position))
        if found and max(map(len, found.values())) < most:
            await asyncio.sleep(GATHER)

    async def _take(
        self, partition: OpenPartition, contents: Iterable[tuple[LinkBatch | Ack | Note | None, Position]]
    ) -> None:
        """Process the contents in order, each with its position in the partition's stream. Consecutive acknowledgements
        form one transaction."""
        acks: list[Ack] = []
        position = START
        for content, position in contents:
            if isinstance(content, Ack):
                acks.append(content)
            if acks and (not isinstance(content, Ack) or len(acks) >= _ACKS):
                await self._acknowledged(partition, acks)
                acks = []
            if isinstance(content, LinkBatch):
                await self._admit(partition, content)
            elif isinstance(content, Note):
                self._heard(partition, content)
            if partition.is_closing:
                return
            if not acks:
                partition.has_read(position)
        if acks:
            await self._acknowledged(partition, acks)
            partition.has_read(position)

    async def _may_write(self, partition: OpenPartition) -> bool:
        """Wait until the job accepts a transaction. Returns True if it still may have one."""
        await self._turns.turn(bulk=True)
        while partition.job.blocked is not None:
            if partition.is_closing:
                break
            await asyncio.sleep(IDLE)
        # No transaction may follow one that failed midway; that failure ends the process elsewhere.
        return not partition.is_closing and partition.job.writer.whole

    async def _acknowledged(self, partition: OpenPartition, acks: Sequence[Ack]) -> None:
        if await self._may_write(partition):
            partition.acknowledged(acks, self._clock())

    async def _admit(self, partition: OpenPartition, link_batch: LinkBatch) -> None:
        if not await self._may_write(partition):
            return
        receipt = partition.job.receive(link_batch, self._clock())
        if receipt.verdict in _BAD:
            way = f"from partition {link_batch.sender} for partition {partition.number}"
            self._refuse(f"a batch {way} is {receipt.verdict}: {receipt.error or 'it belongs elsewhere'}")
        if receipt.verdict is Verdict.ADMITTED:
            partition.run.wake()
        for found in receipt.doubted:
            await partition.run.incoming.look_up(found)

    def _decode(self, entry: Entry) -> LinkBatch | Ack | Note | None:
        try:
            return self._codec.decode(entry.data)
        except LinkBatchError as error:
            self._refuse(f"a stream between partitions holds an entry that is not a batch of this crawl: {error}")
            return None

    def _refuse(self, line: str) -> None:
        self.refused += 1
        if line not in self._told and len(self._told) < _ACKS:
            self._told.add(line)
            log.warning("%s: ignored", line)
