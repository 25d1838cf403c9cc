"""Sends copies of partitions to replicas that cannot go on with the log, beside the crawl, a few pieces ahead of what
is written there, and no faster than a rate.

One is sent at a time. The next one begins when all of it has come in, or, if it is small, as soon as it is sent: most
of its time it waits for answers.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from functools import partial

from crawler.base.carrier.verbs import CarrierError
from crawler.cluster.member_options import MemberOptions
from crawler.cluster.open_partition import OpenPartition
from crawler.cluster.slot_sending import CopyOnItsWay, SlotSending
from crawler.job.job_copy import JobCopy
from crawler.job.partition.byte_rate import ByteRate
from crawler.job.partition.replica_values import Being
from crawler.job.replica.copy_pieces import PIECE, CopyError
from crawler.job.replica.replica_codec import ReplicaCodec

AHEAD = 8  # pieces that may be on their way
SMALL = PIECE  # bytes of a copy, at most, behind which the next one begins ...
MOST_SMALL = 16  # ... while so many are on their way, at most
LOOKED = 0.05  # seconds between two looks how many have come
PATIENCE = 20.0  # seconds without a piece that comes in
AGAIN = 1.0  # seconds until a carrier that did not answer is asked again


class CopySending:
    """The copies that one process sends. ``has_turn`` is set when another one may begin."""

    def __init__(
        self,
        append: Callable[[OpenPartition, SlotSending, Sequence[bytes]], Awaitable[bool]],
        codec: ReplicaCodec,
        options: MemberOptions,
    ) -> None:
        """``append`` sends messages to a replica; false: the partition may not send."""
        self._append = append
        self._codec = codec
        self._clock = options.boottime
        self._options = options
        self.rate = ByteRate()  # of all copies together
        self._running: dict[asyncio.Task[None], OpenPartition] = {}
        self._sending: SlotSending | None = None  # whose copy has the turn
        self.has_turn = asyncio.Event()

    def want(self, partition: OpenPartition, slot: SlotSending) -> None:
        """Begin to copy the partition to that replica, if another copy may begin now. Raises what one of the last
        raised."""
        for task in [task for task in self._running if task.done()]:
            del self._running[task]
            if not task.cancelled():
                task.result()
        if self._sending is None and len(self._running) < MOST_SMALL and self._clock() >= slot.copy_at:
            self._sending = slot
            self._running[asyncio.ensure_future(self._copy(partition, slot))] = partition

    async def leave(self, partition: OpenPartition) -> None:
        """Break off the copies of that partition."""
        await self._break_off({task for task, each in self._running.items() if each is partition})

    async def close(self) -> None:
        """Break off what is on its way."""
        await self._break_off(set(self._running))

    @staticmethod
    async def _break_off(tasks: set[asyncio.Task[None]]) -> None:
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _copy(self, partition: OpenPartition, slot: SlotSending) -> None:
        reader = self._options.reading()
        try:
            async with JobCopy(partition.job, partition.number, self._codec, executor=reader) as copy:
                slot.copy = CopyOnItsWay(copy.number, copy.follows)
                slot.rewind()
                sent = size = 0
                async with aclosing(_gathered(copy)) as gathered:
                    async for messages in gathered:
                        await self._until(slot, partial(_has_room, slot, sent))
                        length = sum(map(len, messages))
                        await asyncio.sleep(self.rate.take(length, self._clock()))
                        await self._send(partition, slot, messages)
                        sent, size = sent + len(messages), size + length
            if size <= SMALL:
                self._give_turn(slot)
            # Its disk is as slow as it is: whoever says each second that it is at work is waited for.
            await self._until(slot, partial(_is_in, slot), waits=True)
        except (CopyError, OSError) as error:
            slot.broke_off(self._clock())
            self._options.notice(f"copying of partition {partition.number} to a replica will be retried: {error}")
        except BaseException:
            slot.copy = None
            raise
        else:
            slot.copied()
        finally:
            self._give_turn(slot)

    def _give_turn(self, slot: SlotSending) -> None:
        if self._sending is slot:
            self._sending = None
        self.has_turn.set()

    async def _send(self, partition: OpenPartition, slot: SlotSending, messages: Sequence[bytes]) -> None:
        """Raises CopyError if the partition may not send any more."""
        while True:
            try:
                if await self._append(partition, slot, messages):
                    return
            except CarrierError:  # said
                await asyncio.sleep(AGAIN)
            else:
                raise CopyError("another process took over the partition, or is about to")

    async def _until(self, slot: SlotSending, happens: Callable[[], bool], *, waits: bool = False) -> None:
        """Wait for the replica; ``waits``: as long as it is at work on the copy. Raises CopyError if it says nothing,
        or nothing of the copy comes in."""
        before, since = slot.heard, self._clock()
        while not happens():
            await asyncio.sleep(LOOKED)
            heard, now = slot.heard, self._clock()
            if heard is None or slot.is_silent(now):
                raise CopyError("the replica does not respond")
            if before is not None and heard.epoch != before.epoch:
                raise CopyError("its worker restarted")
            if slot.copy is not None and heard.copy == slot.copy.number and heard.state == Being.NONE:
                raise CopyError("the replica aborted the copy")
            if before is None or (heard.copy, heard.pieces) != (before.copy, before.pieces):
                before, since = heard, now
            if now >= since + PATIENCE and not (waits and slot.is_copying):
                raise CopyError("no progress")


async def _gathered(copy: JobCopy) -> AsyncGenerator[list[bytes], None]:
    """The messages of a copy, in order: small ones together, so that a small copy is one call. Raises CopyError,
    OSError."""
    messages, size = list[bytes](), 0
    while (message := await copy.next()) is not None:
        if messages and size + len(message) > PIECE:
            yield messages
            messages, size = [], 0
        messages.append(message)
        size += len(message)
    if messages:
        yield messages


def _has_room(slot: SlotSending, sent: int) -> bool:
    """Whether more may be on its way after so many messages, the beginning counted."""
    come = 1 + slot.heard.pieces if slot.heard is not None and slot.is_copying else 0
    return sent < come + AHEAD


def _is_in(slot: SlotSending) -> bool:
    """Whether all has come, and is the replica now."""
    heard, copy = slot.heard, slot.copy
    return slot.is_whole and heard is not None and copy is not None and heard.copy == copy.number
