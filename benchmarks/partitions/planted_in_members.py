"""Faults planted into members: each breaks one rule on which the promises of a crawl in partitions rest. An ordeal must
find it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from crawler.base.carrier.memory_carrier import MemoryCarrier
from crawler.base.carrier.verbs import Position
from crawler.cluster import partition_life
from crawler.cluster.claims import Ownership
from crawler.cluster.open_partition import OpenPartition
from crawler.frontier.gate import Gate
from crawler.job.bucket import keeping, ownership
from crawler.job.bucket.snapshots import Held
from crawler.job.checkpointer import Promises
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


def _with_store(name: str, planted: Any) -> Callable[[], AbstractContextManager[Any]]:
    """A fault of how a process deals with the store: ``name`` of the module or class that has it."""
    where, _, what = name.rpartition(".")
    return lambda: patch.object(_OF_STORE[where], what, planted)


async def _at_once(*_: object, **__: object) -> bool:
    return True


def _late_log(state: Path, job: Path, worker: str, log: int) -> Held:
    return Held(state, job, worker, log + 1)


_OF_STORE: dict[str, Any] = {
    "taking": ownership._Taking,
    "ownership": ownership,
    "keeping": keeping,
    "Keeping": keeping.Keeping,
    "Promises": Promises,
    "life": partition_life,
}
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
    "the log of the last owner stays open": _with_store("taking._close", lambda *_: None),
    "an epoch may have two owners": _with_store("ownership.put_own", lambda *_: True),
    "the steps behind a snapshot are not applied": _with_store("ownership.steps_after", lambda *_: iter(())),
    "a snapshot names the log too late": _with_store("keeping.Held", _late_log),
    "a partition is given up before its last steps": _with_store("Keeping.flush", _at_once),
    "others rely on what no store has": _with_store("Promises.kept", property(lambda self: self.durable)),
    "epochs start over on another machine": _with_store("life.first_epoch", lambda _: 0),
}
