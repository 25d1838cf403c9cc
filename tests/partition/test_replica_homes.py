"""Where replicas are, and where partitions are to be: enough of them, on living homes, and stable."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from crawler.partition.placement import place
from crawler.partition.replica_homes import (
    Following,
    Follows,
    decode_following,
    encode_following,
    newest,
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


def test_nobody_is_nowhere() -> None:
    assert target_homes(3, {}) == [None] * 3
    assert place(3, []) == {}


@given(st.sets(ONE, min_size=2), st.integers(1, 64), st.integers(0, 7))
def test_when_a_home_goes_hardly_anything_else_moves(homes: set[str], partitions: int, which: int) -> None:
    gone = sorted(homes)[which % len(homes)]
    before = target_homes(partitions, dict.fromkeys(homes, 1))
    after = target_homes(partitions, dict.fromkeys(homes - {gone}, 1))
    moved = sum(was not in (now, gone) for was, now in zip(before, after, strict=True))
    assert moved <= partitions // 2 + 1


def test_what_was_said_last_counts_whoever_says_it_again() -> None:
    older, newer = Following(2, [Follows("a", True)], 7.0), Following(2, [Follows("b", True)], 8.0)
    risen = Following(3, [], 5.0)
    for one, other, last in ((older, newer, newer), (newer, risen, risen), (older, None, older), (None, None, None)):
        assert newest(one, other) is newest(other, one) is last
