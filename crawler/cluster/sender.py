"""Sends the rows waiting in the outboxes of the partitions that are open here, and acknowledges rows that became
durable.

Rows wait in the store, and memory holds only numbers, so an outage of the carrier costs time and disk. Nothing here is
authoritative: an appended batch counts as in flight until its target acknowledges that the batch is durable there.

Batches that are not acknowledged in time are sent again, unless nothing has been removed from the stream since they
were last sent: such a stream has no reader, and would only grow.

Messages between partitions of one process do not leave it: they are delivered together at the end of a round.

Each batch costs its receiver work. The pause between two rounds therefore grows with the number of batches and
acknowledgements that the last round sent: under load batches get fuller, not more numerous.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple

from crawler.base.carrier.verbs import START, CarrierError, StaleEpochError
from crawler.base.disk import failpoint
from crawler.cluster.claims import name_of
from crawler.cluster.open_partition import OpenPartition
from crawler.cluster.reach import Backoff, Reach, together
from crawler.job.partition.link_batch_codec import Ack, Content, LinkBatch, LinkBatchCodec, Note

GATHER = 0.3  # seconds between two rounds: at least this ...
GATHER_EACH = 0.004  # ... plus this for each batch and acknowledgement sent ...
GATHER_MOST = 1.0  # ... and at most this
IN_FLIGHT = 4 * 2**20  # limit on the unacknowledged bytes of batches sent by this process
_A_ROUND = 256 * 1024  # bytes of new batches that a partition sends in a round

Deliver = Callable[[OpenPartition, Sequence[Content]], Awaitable[bool]]


class _Way(NamedTuple):
    """The messages from one partition to another."""

    partition: OpenPartition
    target: int
    what: Sequence[Content]


class Sending:
    """The sender of one process."""

    def __init__(
        self,
        reach: Reach,
        codec: LinkBatchCodec,
        partitions: Mapping[int, OpenPartition],
        clock: Callable[[], float],
        replaced: Callable[[], None],
        deliver: Deliver,
    ) -> None:
        """``partitions``: the open partitions. ``replaced`` is called when a claim may have been lost; ``deliver``
        passes messages to a partition that is open here."""
        self._reach = reach
        self._codec = codec
        self._partitions = partitions
        self._clock = clock
        self._replaced = replaced
        self._deliver = deliver
        self._here: dict[int, list[Content]] = {}  # by target: to be delivered at the end of the round
        self._heads: dict[tuple[int, int], str] = {}  # by (sender, target): the stream's first entry at the last resend
        self._owed: dict[int, dict[int, Ack]] = {}  # by partition and sender: acknowledgements not yet sent
        self._sent = 0  # batches and acknowledgements sent since the last pause

    async def keep(self) -> None:
        """Send until cancelled."""
        backoff = Backoff()
        while True:
            await asyncio.sleep(min(GATHER_MOST, max(GATHER, GATHER_EACH * self._sent)))
            self._sent = 0
            try:
                await self._send([way for each in list(self._partitions.values()) for way in await self._due(each)])
                await self._hand_over()
            except CarrierError:
                await backoff.rest()
            else:
                backoff.reset()

    async def announce(self, partition: OpenPartition) -> None:
        """Announce the partition's epoch to all streams, so that they refuse entries from earlier owners of the
        partition. Raises CarrierError, StaleEpochError."""
        append, name, epoch = self._reach.carrier.append, partition.name, partition.epoch

        async def to(target: int) -> None:
            await self._reach.call(append(name_of(target), name, epoch, []))

        await together(map(to, partition.outbox.targets))

    async def tell(self, partition: OpenPartition, target: int, message: bytes) -> None:
        """Send a note to another partition. It may be lost. Raises CarrierError."""
        await self._send([_Way(partition, target, [Note(partition.number, target, partition.epoch, 0, message)])])

    def forget(self, partition: OpenPartition) -> None:
        """Drop the state of a partition that has been closed."""
        self._owed.pop(partition.number, None)
        self._heads = {way: head for way, head in self._heads.items() if way[0] != partition.number}

    # -- one partition -----------------------------------------------------------------------------------------

    def _may_send(self, partition: OpenPartition) -> bool:
        still_open = self._partitions.get(partition.number) is partition
        return still_open and not partition.is_rising and partition.epoch > 0

    async def _due(self, partition: OpenPartition) -> list[_Way]:
        """Return the messages that the partition sends now: acknowledgements, and some of its due batches. Raises
        CarrierError."""
        if not self._may_send(partition):
            return []
        now, room = self._clock(), IN_FLIGHT - sum(each.outbox.in_flight for each in self._partitions.values())
        link_batches = await self._taken(partition, partition.outbox.due(now))
        if not self._may_send(partition):
            return []  # closed meanwhile
        if room > 0:
            link_batches += partition.outbox.gather(now, min(room, _A_ROUND))
        return self._ways(partition, link_batches)

    async def _taken(self, partition: OpenPartition, link_batches: Sequence[LinkBatch]) -> list[LinkBatch]:
        """Return those of the batches to be resent whose targets are reading their streams. Raises CarrierError."""
        targets = {link_batch.target for link_batch in link_batches}
        for target in sorted(each for each in targets if not self._is_here(each)):
            name, way = name_of(target), (partition.number, target)
            found = (await self._reach.call(self._reach.carrier.read({name: START}, 1, 0.0))).get(name)
            if found and self._heads.get(way) == found[0].position:
                targets.discard(target)
            self._heads[way] = found[0].position if found else START
        return [link_batch for link_batch in link_batches if link_batch.target in targets]

    async def acknowledge(self, partition: OpenPartition) -> None:
        """Send all acknowledgements that the partition owes. Those that cannot be sent now are sent later. Raises
        CarrierError."""
        if self._may_send(partition):
            await self._send(self._ways(partition, []))

    def _ways(self, partition: OpenPartition, link_batches: Sequence[LinkBatch]) -> list[_Way]:
        """Return the batches and all acknowledgements that the partition owes, by target."""
        owed = self._owed.setdefault(partition.number, {})
        owed.update({ack.sender: ack for ack in partition.job.due_acks()})
        by_target: dict[int, list[Content]] = {sender: [ack] for sender, ack in owed.items()}
        for link_batch in link_batches:
            by_target.setdefault(link_batch.target, []).append(link_batch)
        return [_Way(partition, target, what) for target, what in by_target.items()]

    async def _send(self, ways: Sequence[_Way]) -> None:
        """Send all messages concurrently, because a carrier handles concurrent calls together. Raises CarrierError."""
        here = [way for way in ways if self._is_here(way.target) and self._may_send(way.partition)]
        for _, target, what in here:
            self._here.setdefault(target, []).extend(what)
        elsewhere = [way for way in ways if not self._is_here(way.target)]
        sent = await together(map(self._append, elsewhere))
        for partition, target, what in [*here, *itertools.compress(elsewhere, sent)]:
            self._sent += len(what)
            owed = self._owed.get(partition.number, {})
            if owed.get(target) is what[0]:
                del owed[target]

    async def _append(self, way: _Way) -> bool:
        """Append to the stream of a target that is open elsewhere. Returns True if the partition may still send. Raises
        CarrierError."""
        partition, target, what = way
        if not self._may_send(partition):
            return False
        entries = [self._codec.encode(each) for each in what]
        try:
            append = self._reach.carrier.append
            await self._reach.call(append(name_of(target), partition.name, partition.epoch, entries))
        except StaleEpochError:
            if self._may_send(partition):
                self._replaced()
            return False
        if any(isinstance(each, Ack) for each in what):
            failpoint("acks.appended")
        return True

    def _is_here(self, target: int) -> bool:
        partition = self._partitions.get(target)
        return partition is not None and not partition.is_closing

    async def _hand_over(self) -> None:
        """Deliver messages to partitions that are open here. If a target closes meanwhile, the sending partitions send
        its messages again."""
        here, self._here = self._here, {}
        for target, what in here.items():
            if self._is_here(target):
                await self._deliver(self._partitions[target], what)
