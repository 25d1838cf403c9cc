"""A replica writes generations of its own, so that it becomes the job soon, and knows each key that its journal has."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Sequence
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from crawler.base.disk import Disk, RealDisk
from crawler.base.kv import Batch, Family
from crawler.base.settings.parts import SeenSettings, Settings
from crawler.job.checkpoint.renewal import Renewal
from crawler.job.directory import SEEN
from crawler.job.follower import Follower
from crawler.job.job import Job
from crawler.job.platform import Platform
from crawler.job.records import (
    DIGEST_SIZE,
    decode_seen,
    encode_admitted,
    encode_counters,
    encode_forgotten,
    sequence_key,
)
from crawler.job.recovery import COUNTERS, stored_counters
from crawler.job.replica.step_codec import Chunk, Mark, Step
from crawler.job.step_log import MARK
from crawler.seen.exact.seen import make_seen
from crawler.seen.filters import SeenSet
from tests.durability.power import Inline
from tests.faulty_disk import FaultyDisk, PowerCutError
from tests.faulty_store import FaultyStore

LINE = 7
MOST_KEYS = 40  # that the job replays, besides those since the last generation
RENEWAL = Renewal(few_bytes=0, bytes_per_key=0, most_keys=MOST_KEYS)
FORGETFUL = ("counting", "cuckoo")
OTHERS = random.Random(1).randbytes(DIGEST_SIZE * 300)  # digests of keys that nobody admits


class Steps:
    """The steps of an owner that does nothing but admit and forget keys."""

    def __init__(self, kind: str) -> None:
        self.settings = Settings(seen=SeenSettings(kind=kind, capacity=16 if kind in ("scalable", "exact") else 4_000))
        self._draw = random.Random(2)
        self._all = list[Step]()
        self._sequence = self._admitted = 0
        self._events = list[bytes]()

    def admit(self, keys: int) -> None:
        digests = self._draw.randbytes(DIGEST_SIZE * keys)
        self._admitted += keys
        self._add(encode_admitted(digests))

    def forget(self) -> None:
        """The keys of one of the steps, if they are still there."""
        admitting = [event for event in self._events if len(event) % DIGEST_SIZE == 0]
        if admitting:
            event = self._draw.choice(admitting)
            self._events.remove(event)
            self._add(encode_forgotten(event))

    def _add(self, event: bytes) -> None:
        self._events.append(event)
        batch = Batch()
        batch.put(Family.ADMITTED, sequence_key(self._sequence), event)
        self._sequence += 1
        counters = stored_counters(FaultyStore())
        counters.sequence, counters.urls_admitted = self._sequence, self._admitted
        counters.urls_excluded = self._admitted
        batch.put(Family.META, COUNTERS, encode_counters(counters))
        batch.put(Family.META, MARK, Mark(LINE, len(self._all) + 1).encode())
        self._all.append(Step(batch.encode()))

    def tell(self, follower: Follower) -> None:
        """Send it all that it lacks."""
        mark = follower.mark
        if mark.number < len(self._all):
            follower.apply(Chunk(3, LINE, mark.line, mark.number + 1, self._all[mark.number :]))


class Replica:
    """A replica on a disk and over a store that lose their power."""

    def __init__(self, directory: Path, steps: Steps) -> None:
        self.directory = directory
        self._steps = steps
        self._chance = random.Random(3)
        self._store = FaultyStore()
        self._disk: Disk = RealDisk()
        Job(directory, steps.settings, 0.0, self.platform()).close()
        self._store.sync()
        self._disk = FaultyDisk(self._chance)
        self.follower = self.opened()

    def platform(self) -> Platform:
        return Platform(self._disk, lambda _: self._store, Inline, renewal=RENEWAL)

    def opened(self) -> Follower:
        return Follower(self.directory, self.platform(), self._steps.settings.output)

    def reopen(self, *, loses_power: bool, cut_after: int | None = None) -> None:
        self.follower.close()
        if loses_power:
            assert isinstance(self._disk, FaultyDisk)
            self._disk.lose_power()
            self._store = self._store.lose_power(self._chance)
        self._disk = FaultyDisk(self._chance, cut_after=cut_after)
        self.follower = self.opened()

    def checkpoint(self, cut_after: int | None) -> None:
        """Write a generation; the power is cut at that call of the disk."""
        if cut_after is None:
            assert self.follower.checkpoint(1e9) == []
            return
        try:
            self.reopen(loses_power=False, cut_after=cut_after)
            self._steps.tell(self.follower)
            assert self.follower.checkpoint(1e9) == []
            self.reopen(loses_power=False)
        except PowerCutError:
            self.reopen(loses_power=True)

    def promoted(self) -> Job:
        self.follower.close()
        return Job(self.directory, self._steps.settings, 0.0, self.platform())


def events_of(job: Job) -> Sequence[tuple[bool, bytes]]:
    return [decode_seen(value) for _, value in job.store.rows(Family.ADMITTED)]


def as_admitted(job: Job, settings: Settings) -> SeenSet:
    """The seen-set that has met nothing but the keys of the journal, in order."""
    seen = make_seen(settings.seen, job.store, job.seen.hash)
    for forgotten, digests in events_of(job):
        (seen.restore_forgotten if forgotten else seen.restore)(digests)
    return seen


ACTS = st.one_of(
    st.tuples(st.just("admit"), st.integers(1, 40)),
    st.just(("forget", 0)),
    st.just(("sync", 0)),
    st.just(("checkpoint", None)),
    st.tuples(st.just("checkpoint"), st.integers(1, 30)),
    st.tuples(st.just("reopen"), st.integers(0, 1)),
)


@settings(max_examples=40, deadline=None)
@given(kind=st.sampled_from(("scalable", "bloom", "exact", *FORGETFUL)), acts=st.lists(ACTS, max_size=25))
def test_whatever_happens_it_knows_what_its_owner_knew(kind: str, acts: list[tuple[str, int | None]]) -> None:
    with tempfile.TemporaryDirectory() as top:
        steps = Steps(kind)
        replica = Replica(Path(top) / "replica", steps)
        for act, number in acts:
            if act == "admit":
                steps.admit(number or 1)
            elif act == "forget" and kind in FORGETFUL:
                steps.forget()
            elif act == "sync":
                replica.follower.sync()
            elif act == "checkpoint":
                replica.checkpoint(number)
            elif act == "reopen":
                replica.reopen(loses_power=bool(number))
            steps.tell(replica.follower)
        job = replica.promoted()
        try:
            expected = as_admitted(job, steps.settings)
            everything = b"".join(digests for _, digests in events_of(job)) + OTHERS
            assert job.seen.might_contain_digests(everything) == expected.might_contain_digests(everything)
            assert len(job.seen) == len(expected)
            assert not job.notes
        finally:
            job.close()


def test_a_damaged_one_is_made_again_from_an_older_one(tmp_path: Path) -> None:
    steps = Steps("scalable")
    replica = Replica(tmp_path / "replica", steps)
    for _ in range(2):
        steps.admit(MOST_KEYS)
        steps.tell(replica.follower)
        replica.checkpoint(None)
    replica.follower.close()
    for path in (replica.directory / SEEN).glob("slice-*.g000002"):
        path.write_bytes(b"damaged")
    replica.follower = replica.opened()
    steps.admit(MOST_KEYS)
    steps.tell(replica.follower)
    (line,) = replica.follower.checkpoint(1e9)
    assert "generation 2 is damaged" in line
    job = replica.promoted()
    try:
        assert job.checkpointer.manifest is not None
        assert job.checkpointer.manifest.seen_sequence == 3
        assert not job.notes
        assert len(job.seen) == 3 * MOST_KEYS
    finally:
        job.close()
