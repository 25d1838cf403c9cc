"""The exact seen-set against a plain set: batches, forgetting, growth, generations, and every way to be cut off."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawler.base.kv import Family, Store
from crawler.base.settings.parts import SeenSettings
from crawler.job.records import sequence_key
from crawler.job.store.rocks import RocksStore
from crawler.seen.exact.rows import HOST_BYTES
from crawler.seen.exact.seen import ExactSeenSet, load_seen, make_seen
from crawler.seen.filters import FilterError, SeenSnapshot
from tests.examples import TIMES
from tests.faulty_store import FaultyStore
from tests.hashing import HASH
from tests.memory_store import MemoryStore
from tests.program import ROOT

# Whether the filter in front answers "maybe" to every other key that a test asks for, so that the rows must decide.
crowded = pytest.mark.parametrize("crowd", [False, True], ids=["front alone", "crowded front"])


def url(number: int) -> str:
    return f"https://h{number % 89}.test/page/{number}"


def small(number: int) -> str:
    return f"http://h{number % 5}.test/{number}"


batches = st.lists(
    st.tuples(
        st.sampled_from(["admit", "admit", "admit", "forget", "write"]),
        st.lists(st.integers(0, 150).map(small), max_size=25),
    ),
    max_size=14,
)
CROWD = HASH.digest_keys(
    [url(number) for number in range(0, 4_000, 2)] + [small(number) for number in range(0, 200, 2)]
)


def opened(store: Store, crowd: bool = False) -> ExactSeenSet:
    made = make_seen(SeenSettings(kind="exact", capacity=64), store, HASH)
    assert isinstance(made, ExactSeenSet)
    if crowd:
        made.restore(CROWD)
    return made


@pytest.fixture(params=["memory", "rocks"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    made: Store = MemoryStore() if request.param == "memory" else RocksStore(tmp_path / "store")
    yield made
    made.close()


def nobody_asks(_: bytes) -> dict[bytes, int]:
    raise AssertionError("an exact seen-set knows by itself what was admitted")


@crowded
@settings(max_examples=19 * TIMES)
@given(steps=batches)
def test_answers_like_a_set(store: Store, crowd: bool, steps: list[tuple[str, list[str]]]) -> None:
    empty = store.batch()
    empty.delete_range(Family.SEEN, b"", b"\xff" * 25)
    empty.delete_range(Family.META, b"", b"\xff")
    store.write(empty)
    seen = opened(store, crowd)
    known: set[str] = set()
    written: set[str] = set()
    batch = store.batch()
    for what, keys in steps:
        if what == "write":
            store.write(batch)
            batch = store.batch()
            written = set(known)
        elif what == "admit":
            digests, new = seen.admit(keys, batch)
            assert digests == HASH.digest_keys(keys)
            assert new == [at for at, key in enumerate(keys) if key not in known and key not in keys[:at]]
            known.update(keys)
        else:
            absent = seen.forget_keys(keys, batch, nobody_asks)
            assert list(absent) == [at for at, key in enumerate(keys) if key not in known or key in keys[:at]]
            known.difference_update(keys)
        assert len(seen) == len(known)
    probe = [small(n) for n in range(200)]
    assert seen.contains_many(probe) == [key in written for key in probe], "an unwritten batch is not there"
    store.write(batch)
    assert seen.contains_many(probe) == [key in known for key in probe]
    again = opened(store)
    again.restore(b"".join(row[HOST_BYTES:] for row, _ in store.scan(Family.SEEN, b"")))
    assert again.contains_many(probe) == [key in known for key in probe]
    assert len(again) == len(known) == len(store.scan(Family.SEEN, b""))


def step(seen: ExactSeenSet, store: Store, sequence: int, keys: list[str]) -> list[int]:
    """What a crawl's step does: rows, journal and queue in one batch."""
    batch = store.batch()
    digests, new = seen.admit(keys, batch)
    batch.put(Family.ADMITTED, sequence_key(sequence), b"".join(digests[16 * at : 16 * at + 16] for at in new))
    for at in new:
        batch.put(Family.PENDING, keys[at].encode(), b"")
    store.write(batch)
    return new


def copied(shot: SeenSnapshot) -> dict[str, memoryview]:
    return {segment.name: memoryview(bytearray(segment.buffer)) for segment in shot.segments}


def taken_up(
    store: Store, crowd: bool, generation: tuple[int, SeenSnapshot, dict[str, memoryview]] | None
) -> ExactSeenSet:
    """The seen-set after a start: a generation, and the journal behind it."""
    sequence = 0
    if generation is None:
        seen = opened(store, crowd)
    else:
        sequence, shot, segments = generation
        loaded = load_seen(shot.state, segments, store)
        assert isinstance(loaded, ExactSeenSet)
        seen = loaded
    for _, digests in store.scan(Family.ADMITTED, sequence_key(sequence)):
        seen.restore(digests)
    return seen


def agrees(seen: ExactSeenSet, store: Store, probe: list[str]) -> None:
    """Seen, journal and queue name the same URLs."""
    queued = {key.decode() for key, _ in store.scan(Family.PENDING, b"")}
    digests = b"".join(value for _, value in store.scan(Family.ADMITTED, b""))
    assert sorted(row[8:] for row, _ in store.scan(Family.SEEN, b"")) == sorted(
        digests[at : at + 16] for at in range(0, len(digests), 16)
    )
    assert seen.contains_many(probe) == [key in queued for key in probe]
    assert all(seen.might_contain_digests(digests))
    assert len(seen) == len(queued)


@pytest.mark.parametrize("seed", range(25))
def test_after_a_power_loss_seen_and_queued_agree(seed: int) -> None:
    chance = random.Random(seed)
    crowd = chance.random() < 0.5
    store = FaultyStore()
    seen = opened(store, crowd)
    generation = None
    sequence = 0
    for _ in range(4):
        for _ in range(chance.randint(1, 25)):
            step(seen, store, sequence, [url(chance.randrange(600)) for _ in range(chance.randint(1, 20))])
            sequence += 1
            if chance.random() < 0.1:
                store.sync()
        if chance.random() < 0.6:
            # A generation: segments written while keys go on coming in, then the journal made durable.
            shot, at = seen.snapshot(), sequence
            step(seen, store, sequence, [url(chance.randrange(600)) for _ in range(20)])
            sequence += 1
            generation = at, shot, copied(shot)
            store.sync()
        step(seen, store, sequence, [url(chance.randrange(600)) for _ in range(20)])
        store = store.lose_power(chance)
        sequence = len(store.scan(Family.ADMITTED, b""))
        seen = taken_up(store, crowd, generation)
        agrees(seen, store, [url(n) for n in range(700)])


# Steps without end: rows, journal and queue of one step are one batch.
CRAWLER = """
import itertools, sys
from pathlib import Path
from crawler.seen.exact.seen import make_seen
from crawler.base.kv import (Family)
from tests.hashing import HASH
from crawler.base.settings.parts import SeenSettings
from crawler.job.store.rocks import RocksStore
from tests.seen.exact.test_seen import step, url

store = RocksStore(Path(sys.argv[1]))
seen = make_seen(SeenSettings(kind="exact", capacity=64), store, HASH)
for sequence in itertools.count():
    step(seen, store, sequence, [url(n) for n in range(sequence * 6, sequence * 6 + 10)])
    sys.stdout.buffer.write(b".")
    sys.stdout.buffer.flush()
"""


def test_after_sigkill_seen_and_queued_agree(tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", CRAWLER, str(tmp_path)], stdout=subprocess.PIPE, cwd=ROOT)
    assert process.stdout is not None
    try:
        process.stdout.read(800)
    finally:
        process.send_signal(signal.SIGKILL)
        steps = 800 + len(process.stdout.read())
        process.communicate()
    store = RocksStore(tmp_path)
    seen = taken_up(store, False, None)
    # It may have died between writing a step and saying so.
    assert len(seen) - 4 in (steps * 6, steps * 6 + 6)
    agrees(seen, store, [url(n) for n in range(len(seen) + 200)])
    assert seen.add_many([url(n) for n in range(len(seen) + 5)]) == list(range(len(seen) - 5, len(seen)))
    store.close()


@pytest.mark.parametrize("state", [{}, {"parameters": None}, {"parameters": {"kind": "exact"}}])
def test_a_damaged_state_is_refused(state: dict[str, object]) -> None:
    with pytest.raises(FilterError):
        load_seen(state, {}, MemoryStore())
