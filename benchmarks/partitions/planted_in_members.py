"""Faults planted into members: each breaks one rule on which the promises of a crawl in partitions rest. An ordeal must
find it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest.mock import patch

from crawler.base.carrier.memory_carrier import MemoryCarrier
from crawler.base.carrier.verbs import Position
from crawler.cluster.open_partition import OpenPartition
from crawler.cluster.ownership import Ownership
from crawler.frontier.gate import Gate
from crawler.job.job import Job
from crawler.job.partition.inlet import Verdict
from crawler.job.partition.link_batch_codec import Ack, LinkBatch, LinkBatchCodec
from crawler.job.partition.outbox import Outbox
from crawler.web.fetch import fence
from tests.cluster import ordeal_of_members
from tests.cluster.members import SECRET
from tests.job.partition.planted_in_protocol import asked_once, judged, number_in_a_batch_before, stale_epochs
from tests.laboratory import START


@contextmanager
def _acknowledged_here(given_up: Callable[[Outbox], list[LinkBatch]]) -> Iterator[None]:
    """What the receivers of some batches would say is taken as said. ``given_up`` names them."""
    due = Job.due_acks

    def planted(self: Job) -> list[Ack]:
        assert self.partition is not None
        acks = [Ack(*link_batch[:4]) for link_batch in given_up(self.partition.outbox)]
        if acks and self.blocked is None:
            self.acknowledged(acks, START + asyncio.get_running_loop().time())
        return due(self)

    with patch.object(Job, "due_acks", planted):
        yield


@contextmanager
def _silence_is_an_acknowledgement() -> Iterator[None]:
    due, silent = Outbox.due, dict[int, list[LinkBatch]]()

    def planted(self: Outbox, now: float) -> list[LinkBatch]:
        silent.setdefault(id(self), []).extend(due(self, now))
        return []

    with patch.object(Outbox, "due", planted), _acknowledged_here(lambda outbox: silent.pop(id(outbox), [])):
        yield


@contextmanager
def _gone_when_the_carrier_has_it() -> Iterator[None]:
    append, codec = MemoryCarrier.append, LinkBatchCodec(SECRET)
    held = dict[int, list[LinkBatch]]()

    async def planted(self: MemoryCarrier, stream: str, writer: str, epoch: int, entries: Sequence[bytes]) -> Position:
        position = await append(self, stream, writer, epoch, entries)
        for link_batch in map(codec.decode, entries):
            if isinstance(link_batch, LinkBatch):
                held.setdefault(link_batch.sender, []).append(link_batch)
        return position

    with patch.object(MemoryCarrier, "append", planted), _acknowledged_here(lambda outbox: held.pop(outbox.me, [])):
        yield


def _acknowledged_early() -> AbstractContextManager[Any]:
    def planted(self: Job) -> list[Ack]:
        assert self.partition is not None
        return self.partition.inlet.acks(self.writer.commits)

    return patch.object(Job, "due_acks", planted)


@contextmanager
def _no_gap() -> Iterator[None]:
    with patch.object(Gate, "resume", lambda self: None), long_delays():
        yield


def long_delays() -> AbstractContextManager[Any]:
    """Crawls in which a partition is taken over within the gap of a host. Nothing is wrong with them."""
    return patch.object(ordeal_of_members, "DELAYS", ordeal_of_members.LONG_DELAYS)


def _believed_for_ever() -> AbstractContextManager[Any]:
    return patch.object(Ownership, "may_request", lambda self, name: self.epoch(name) is not None)


FAULTS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "no acknowledgement counts as one": _silence_is_an_acknowledgement,
    "a row goes when the carrier has it": _gone_when_the_carrier_has_it,
    "a batch is acknowledged before it is durable": _acknowledged_early,
    "an older epoch is accepted": stale_epochs,
    "a batch is taken although one before it is missing": lambda: judged(lambda verdict, _: verdict is Verdict.GAP),
    "a batch's number is written in a batch before it": number_in_a_batch_before,
    "the end is asked for once, and not of the streams": lambda: asked_once(of_streams=False),
    "the end counts what is not durable": lambda: patch.object(OpenPartition, "durable", OpenPartition.version),
    "no gap after a takeover": _no_gap,
    "a claim holds for ever": _believed_for_ever,
    "the fence is not asked when a request is sent": lambda: patch.object(fence, "check_fence", lambda: None),
}
