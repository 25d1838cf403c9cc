"""Sends copies of partitions to replicas that cannot go on with the log: one at a time, beside the crawl, a few pieces
ahead of what is written there."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

from crawler.carrier.verbs import CarrierError
from crawler.cluster.member_options import MemberOptions
from crawler.cluster.open_partition import OpenPartition
from crawler.cluster.slot_sending import SlotSending
from crawler.job.job_copy import JobCopy
from crawler.partition.replica_values import Being
from crawler.replica import START, CopyError, ReplicaCodec

AHEAD = 8  # pieces that may be on their way
LOOKED = 0.05  # seconds between two looks how many have come
PATIENCE = 20.0  # seconds without a piece that comes in
AGAIN = 1.0  # seconds until a carrier that did not answer is asked again


class CopySending:
    """The copies that one process sends."""

    def __init__(
        self,
        append: Callable[[OpenPartition, SlotSending, bytes], Awaitable[bool]],
        codec: ReplicaCodec,
        options: MemberOptions,
    ) -> None:
        """``append`` sends a message to a replica; false: the partition may not send."""
        self._append = append
        self._codec = codec
        self._clock = options.boottime
        self._options = options
        self._running: tuple[OpenPartition, asyncio.Task[None]] | None = None
        self.follows = START  # the state after which the steps are sent that come beside the copy

    def want(self, partition: OpenPartition, slot: SlotSending) -> None:
        """Begin to copy the partition to that replica, if no other copy is on its way. Raises what the last one
        raised."""
        if self._running is not None:
            task = self._running[1]
            if not task.done():
                return
            self._running = None
            if not task.cancelled():
                task.result()
        if self._clock() >= slot.copy_at:
            self._running = partition, asyncio.ensure_future(self._copy(partition, slot))

    async def leave(self, partition: OpenPartition) -> None:
        """Break the copy off, if it is one of that partition."""
        if self._running is not None and self._running[0] is partition:
            await self.close()

    async def close(self) -> None:
        """Break off what is on its way."""
        if self._running is not None:
            task = self._running[1]
            task.cancel()
            await asyncio.wait({task})

    async def _copy(self, partition: OpenPartition, slot: SlotSending) -> None:
        reader = self._options.reading()
        try:
            async with JobCopy(partition.job, partition.number, self._codec, executor=reader) as copy:
                slot.copy, self.follows = copy.number, copy.follows
                slot.rewind()
                sent = 0
                while (message := await copy.next()) is not None:
                    await self._until(slot, partial(_has_room, slot, sent))
                    await self._send(partition, slot, message)
                    sent += 1
                # Its disk is as slow as it is: whoever says each second that it is at work is waited for.
                await self._until(slot, partial(_is_in, slot), waits=True)
        except (CopyError, OSError) as error:
            slot.broke_off(self._clock())
            self._options.notice(f"a replica of partition {partition.number} is copied again later: {error}")
        except BaseException:
            slot.copy = None
            raise
        else:
            slot.copied()

    async def _send(self, partition: OpenPartition, slot: SlotSending, message: bytes) -> None:
        """Raises CopyError if the partition may not send any more."""
        while True:
            try:
                if await self._append(partition, slot, message):
                    return
            except CarrierError:  # said
                await asyncio.sleep(AGAIN)
            else:
                raise CopyError("the partition is another process's now, or about to be")

    async def _until(self, slot: SlotSending, happens: Callable[[], bool], *, waits: bool = False) -> None:
        """Wait for the replica; ``waits``: as long as it is at work on the copy. Raises CopyError if it says nothing,
        or nothing of the copy comes in."""
        before, since = slot.heard, self._clock()
        while not happens():
            await asyncio.sleep(LOOKED)
            heard, now = slot.heard, self._clock()
            if heard is None or slot.is_silent(now):
                raise CopyError("nothing is heard of it")
            if before is not None and heard.epoch != before.epoch:
                raise CopyError("it was started again")
            if heard.copy == slot.copy and heard.state == Being.NONE:
                raise CopyError("it broke off there")
            if before is None or (heard.copy, heard.pieces) != (before.copy, before.pieces):
                before, since = heard, now
            if now >= since + PATIENCE and not (waits and slot.is_copying):
                raise CopyError("nothing of it comes in")


def _has_room(slot: SlotSending, sent: int) -> bool:
    """Whether another message may be on its way after so many, the beginning counted."""
    come = 1 + slot.heard.pieces if slot.heard is not None and slot.is_copying else 0
    return sent < come + AHEAD


def _is_in(slot: SlotSending) -> bool:
    """Whether all has come, and is the replica now."""
    return slot.is_whole and slot.heard is not None and slot.heard.copy == slot.copy
