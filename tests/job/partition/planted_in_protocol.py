"""Faults planted into the protocol between partitions: each breaks one rule on which it rests. The simulation of the
protocol must find it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any, NamedTuple
from unittest.mock import patch
from weakref import WeakKeyDictionary

from msgspec.structs import replace

from crawler.base.carrier.memory_carrier import Holdings
from crawler.base.carrier.verbs import Position, StaleEpochError
from crawler.base.kv import Batch
from crawler.job.partition.end_rounds import NOWHERE, Announcement, EndRounds, Look, Status
from crawler.job.partition.inlet import Inlet, Verdict
from crawler.job.partition.link_batch_codec import Ack, LinkBatch
from crawler.job.partition.outbox import Outbox
from crawler.job.partition.quota import Grant, PartitionQuota
from crawler.job.partition.rate_shares import LENT, Borrowing, Lender, Shares, Wish
from crawler.job.partition.router import PartitionRouter
from tests.job.partition import protocol_simulation as simulated
from tests.job.partition.protocol_simulation import live
from tests.job.partition.quota_simulation import spend_by_chance
from tests.job.partition.rate_simulation import lend
from tests.job.partition.rounds_simulation import end_by_chance

Planted = AbstractContextManager[Any]


def _gone(outbox: Outbox, link_batches: Sequence[LinkBatch], now: float) -> None:
    """The rows of those batches are removed, as if they were durable at their targets."""
    batch = Batch()
    for link_batch in link_batches:
        outbox.acknowledged(Ack(*link_batch[:4]), now, batch)
    outbox.__dict__["_store"].write(batch)


def _silence_is_an_acknowledgement() -> Planted:
    due = Outbox.due

    def planted(self: Outbox, now: float) -> list[LinkBatch]:
        _gone(self, due(self, now), now)
        return []

    return patch.object(Outbox, "due", planted)


def _gone_when_sent() -> Planted:
    gather = Outbox.gather

    def planted(self: Outbox, now: float, most: int) -> list[LinkBatch]:
        link_batches = gather(self, now, most)
        _gone(self, link_batches, now)
        return link_batches

    return patch.object(Outbox, "gather", planted)


def _acknowledged_early() -> Planted:
    acks = Inlet.acks
    return patch.object(Inlet, "acks", lambda self, _: acks(self, 10**9))


def judged(wrongly: Callable[[Verdict, LinkBatch], bool]) -> Planted:
    """Batches are admitted although they are not the next ones."""
    judge = Inlet.judge

    def planted(self: Inlet, link_batch: LinkBatch) -> Verdict:
        verdict = judge(self, link_batch)
        return Verdict.ADMITTED if wrongly(verdict, link_batch) else verdict

    return patch.object(Inlet, "judge", planted)


@contextmanager
def stale_epochs() -> Iterator[None]:
    """Neither a stream nor an inlet refuses what has an older epoch."""
    append = Holdings.append

    def planted(self: Holdings, stream: str, writer: str, epoch: int, entries: Sequence[bytes]) -> Position:
        while True:
            try:
                return append(self, stream, writer, epoch, entries)
            except StaleEpochError as error:
                epoch = int(str(error).split("epoch is ")[1].split(",")[0])

    with (
        patch.object(Holdings, "append", planted),
        judged(lambda verdict, link_batch: verdict is Verdict.STALE and link_batch.number == 1),
    ):
        yield


@contextmanager
def number_in_a_batch_before() -> Iterator[None]:
    """The inlet's row is not of the transaction that admits the batch."""
    begin, admitted = Inlet.__init__, Inlet.admitted

    def keep(self: Any, store: Any, me: int, partitions: int) -> None:
        begin(self, store, me, partitions)
        self.store = store

    def planted(self: Any, link_batch: LinkBatch, batch: Batch, transaction: int) -> None:
        own = Batch()
        admitted(self, link_batch, own, transaction)
        self.store.write(own)

    with patch.object(Inlet, "__init__", keep), patch.object(Inlet, "admitted", planted):
        yield


def _outbox_in_memory() -> Planted:
    begin = Outbox.__init__

    def planted(self: Outbox, store: Any, me: int, partitions: int) -> None:
        batch = Batch()
        batch.delete_range(simulated.Family.OUTBOX, b"", b"\xff")
        store.write(batch)
        begin(self, store, me, partitions)

    return patch.object(Outbox, "__init__", planted)


def _numbers_go_on() -> Planted:
    renumber = Outbox.renumber

    def planted(self: Outbox, epoch: int) -> None:
        before = {target: way.number for target, way in self.__dict__["_ways"].items()}
        renumber(self, epoch)
        for target, number in before.items():
            self.__dict__["_ways"][target].number = number

    return patch.object(Outbox, "renumber", planted)


def _any_epoch_is_acknowledged() -> Planted:
    is_news, acknowledged = Outbox.is_news, Outbox.acknowledged
    stack = ExitStack()
    stack.enter_context(
        patch.object(Outbox, "is_news", lambda self, ack: is_news(self, ack._replace(epoch=self.epoch)))
    )
    stack.enter_context(
        patch.object(
            Outbox,
            "acknowledged",
            lambda self, ack, now, batch: acknowledged(self, ack._replace(epoch=self.epoch), now, batch),
        )
    )
    return stack


def _sent_is_remembered() -> Planted:
    begin, memos = PartitionRouter.__init__, dict[Any, Any]()

    def planted(self: PartitionRouter, me: int, placement: Any, sent_bytes: int) -> None:
        begin(self, me, placement, sent_bytes)
        self.sent = memos.setdefault((placement, me), self.sent)

    return patch.object(PartitionRouter, "__init__", planted)


@contextmanager
def asked_once(*, of_streams: bool) -> Iterator[None]:
    """One quiet round is the end. ``of_streams``: whether what lies in the streams counts."""
    look, ended = EndRounds.look, WeakKeyDictionary[EndRounds, tuple[int, ...]]()
    announcement = EndRounds.announcement.fget
    assert announcement is not None

    def planted(self: EndRounds, statuses: Any, lasts: Any) -> Look:
        seen = lasts if of_streams else [NOWHERE] * len(lasts)
        found = look(self, statuses, seen)
        if found is not Look.AGAIN or not all(
            status is not None and status.is_quiet(last) for status, last in zip(statuses, seen, strict=True)
        ):
            return found
        ended[self] = tuple(status.epoch for status in statuses)
        return Look.ENDED

    def told(self: EndRounds) -> Announcement:
        right = announcement(self)
        return replace(right, ended=ended.get(self, right.ended))

    with patch.object(EndRounds, "look", planted), patch.object(EndRounds, "announcement", property(told)):
        yield


def _looked_at(change: Callable[[EndRounds, list[Status | None]], list[Status | None]]) -> Planted:
    """The coordinator sees other statuses than there are."""
    look = EndRounds.look
    return patch.object(EndRounds, "look", lambda self, statuses, lasts: look(self, change(self, statuses), lasts))


def _of_any_round(rounds: EndRounds, statuses: list[Status | None]) -> list[Status | None]:
    asked = rounds.announcement.round
    return [status and replace(status, round=asked) for status in statuses]


def _with_nothing_to_send(_: EndRounds, statuses: list[Status | None]) -> list[Status | None]:
    return [status and replace(status, outbox_empty=True) for status in statuses]


def _renewed_whoever_holds_it() -> Planted:
    renew = Holdings.renew

    def planted(self: Holdings, name: str, holder: str, epoch: int, seconds: float, now: float) -> bool:
        renew(self, name, holder, epoch, seconds, now)
        return True

    return patch.object(Holdings, "renew", planted)


def _widening_is_not_told() -> Planted:
    return patch.object(PartitionRouter, "tell_widened", lambda self, hrefs, batch: None)


# -- pages and rates that are shared out


def _older_grants() -> Planted:
    hear = PartitionQuota.hear

    def planted(self: PartitionQuota, grant: Grant) -> bool:
        self.allowance = replace(self.allowance, version=min(self.allowance.version, grant.gives.version))
        return hear(self, grant)

    return patch.object(PartitionQuota, "hear", planted)


def _grants_of_any_term() -> Planted:
    hear = PartitionQuota.hear
    return patch.object(
        PartitionQuota, "hear", lambda self, grant: hear(self, replace(grant, term=self.__dict__["_term"]))
    )


def _last_loan_only() -> Planted:
    look = Lender.look

    def planted(self: Lender, rate: float, wishes: list[Wish], now: float) -> Shares:
        for borrower in self.__dict__["_borrowers"].values():
            borrower.loans = borrower.loans[-1:]
        return look(self, rate, wishes, now)

    return patch.object(Lender, "look", planted)


def _lends_at_once() -> Planted:
    begin = Lender.__init__

    def planted(self: Lender, epoch: int, now: float, *, alone: bool) -> None:
        begin(self, epoch, now, alone=alone)
        self.__dict__["_knows_all_at"] = now

    return patch.object(Lender, "__init__", planted)


def _share_from_when_it_is_heard() -> Planted:
    hear = Borrowing.hear

    def planted(self: Borrowing, shares: Shares) -> bool:
        changed = hear(self, shares)
        if changed:
            self.until = max(self.__dict__["_asked"].values()) + LENT
        return changed

    return patch.object(Borrowing, "hear", planted)


class Fault(NamedTuple):
    """A fault to ``plant``, and the simulation that shows what is ``wrong`` in the life of a seed."""

    plant: Callable[[], Planted]
    wrong: Callable[[int], Collection[str]]


def _of_protocol(plant: Callable[[], Planted]) -> Fault:
    return Fault(plant, lambda seed: live(seed).wrong)


_PROTOCOL: dict[str, Callable[[], Planted]] = {
    "no acknowledgement counts as one": _silence_is_an_acknowledgement,
    "a row goes when it is sent": _gone_when_sent,
    "a batch is acknowledged before it is durable": _acknowledged_early,
    "an acknowledgement of another epoch counts": _any_epoch_is_acknowledged,
    "an older epoch is accepted": stale_epochs,
    "a batch is taken although one before it is missing": lambda: judged(lambda verdict, _: verdict is Verdict.GAP),
    "a batch is taken twice": lambda: judged(lambda verdict, _: verdict is Verdict.REPEATED),
    "a batch's number is written in a batch before it": number_in_a_batch_before,
    "the outbox is in memory": _outbox_in_memory,
    "the numbers of batches go on in a new epoch": _numbers_go_on,
    "the sent cache outlives its process": _sent_is_remembered,
    "a widened scope is not told": _widening_is_not_told,
    "a claim is renewed whoever holds it": _renewed_whoever_holds_it,
    "requests begin for as long as a claim holds": lambda: patch.object(simulated, "ASKED", 2 * simulated.HELD),
    "the end is asked for once, and not of the streams": lambda: asked_once(of_streams=False),
    "the end is not asked of the outboxes": lambda: _looked_at(_with_nothing_to_send),
}
FAULTS = {
    **{name: _of_protocol(plant) for name, plant in _PROTOCOL.items()},
    "the end is asked for once": Fault(lambda: asked_once(of_streams=True), end_by_chance),
    "an answer to an older round counts": Fault(lambda: _looked_at(_of_any_round), end_by_chance),
    "an older grant of pages counts": Fault(_older_grants, spend_by_chance),
    "a grant of an earlier coordinator counts": Fault(_grants_of_any_term, spend_by_chance),
    "what was lent is lent again": Fault(_last_loan_only, lend),
    "a new lender lends at once": Fault(_lends_at_once, lend),
    "a share holds from when it is heard": Fault(_share_from_when_it_is_heard, lend),
}
