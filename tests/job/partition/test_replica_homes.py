"""Where replicas are, and where partitions are to be: enough of them, on living homes, and stable."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from crawler.job.partition.replica_homes import (
    Following,
    Follows,
    decode_following,
    encode_following,
    slots_for,
    target_homes,
)

HOMES = st.sets(st.sampled_from("abcdefgh"), min_size=1)
ONE = st.sampled_from("abcdefgh")
VALUES = st.builds(
    Following,
    st.integers(0, 2**63),
    st.lists(st.builds(Follows, st.text(st.characters(codec="utf-8"), max_size=32), st.booleans()), max_size=5),
    st.floats(0, 4e9),
)


@given(VALUES)
def test_what_is_written_is_read(value: Following) -> None:
    assert decode_following(encode_following(value)) == value


@given(st.none() | st.binary() | VALUES.map(lambda value: encode_following(value)[:-1]))
def test_anything_else_is_nothing(value: bytes | None) -> None:
    assert decode_following(value) is None


@given(HOMES, ONE, st.lists(HOMES, min_size=1, max_size=8), st.integers(0, 3), st.integers(0, 40))
def test_each_slot_has_a_home_of_its_own_and_keeps_it_while_that_lives(
    first: set[str], own: str, changes: list[set[str]], replicas: int, number: int
) -> None:
    before = slots_for([], number, own, first, replicas)
    for alive in changes:
        slots = slots_for(before, number, own, alive, replicas)
        named = [home for home in slots if home]
        assert len(set(named)) == len(named) == min(replicas, len(alive - {own}))
        assert set(named) <= alive - {own}
        for slot, home in enumerate(before):
            if home in alive:
                assert slots[slot] == home
        before = slots


@given(HOMES, ONE, ONE, st.integers(1, 3), st.integers(0, 40))
def test_the_home_that_is_to_have_the_partition_follows_it_and_nobody_is_dropped_for_that(
    alive: set[str], own: str, target: str, replicas: int, number: int
) -> None:
    before = slots_for([], number, own, alive, replicas)
    with_target = slots_for(before, number, own, alive, replicas, target)
    assert set(before) <= set(with_target)
    assert len(with_target) <= replicas + 1
    assert target in with_target or target not in alive or target == own
    assert slots_for(with_target, number, own, alive, replicas, target) == with_target
    assert slots_for(with_target, number, own, alive, replicas) == before


@given(st.dictionaries(ONE, st.integers(1, 4), min_size=1), st.integers(1, 64))
def test_each_process_of_each_home_has_its_share(workers: dict[str, int], partitions: int) -> None:
    share, total = Counter(target_homes(partitions, workers)), sum(workers.values())
    for home, count in workers.items():
        assert partitions // total * count <= share[home] <= -(-partitions // total) * count


WORKERS = st.dictionaries(st.sampled_from("abcd"), st.integers(1, 3), min_size=1)
PRESENT = st.lists(st.none() | st.sampled_from("abcdef"), min_size=1, max_size=20)
SEEDS = st.sets(st.sampled_from("abcdef"), max_size=3)


def shares_of(workers: dict[str, int], partitions: int) -> Iterator[dict[str, int]]:
    """All ways to share partitions out alike."""
    least = partitions // sum(workers.values())
    each = [range(least * count, (least + 1) * count + 1) for count in workers.values()]
    for numbers in product(*each):
        if sum(numbers) == partitions:
            yield dict(zip(workers, numbers, strict=True))


def most_kept(workers: dict[str, int], present: list[str | None], first: str | None) -> int:
    """How many partitions can stay in their homes, if the one that reads the seeds is in its ``first`` home then."""
    has = Counter([first, *present[1:]])
    fit = [share for share in shares_of(workers, len(present)) if first not in workers or share[str(first)]]
    return max(sum(min(has[home], number) for home, number in share.items()) for share in fit) - (first != present[0])


@given(WORKERS, PRESENT, SEEDS)
def test_as_few_move_as_all_need_to_have_their_share(
    workers: dict[str, int], present: list[str | None], seeds: set[str]
) -> None:
    placed = target_homes(len(present), workers, present, seeds)
    share = Counter(placed)
    assert {home: share[home] for home in workers} in shares_of(workers, len(present))
    near = seeds & workers.keys()
    has_to_move = bool(near) and present[0] not in near
    assert placed[0] in near if has_to_move else present[0] not in workers or placed[0] == present[0]
    kept = sum(now == then for now, then in zip(present, placed, strict=True))
    assert kept == max(most_kept(workers, present, first) for first in (near if has_to_move else [present[0]]))
