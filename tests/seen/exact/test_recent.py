"""The memo of digests met lately: what it remembers it was told, compiled or not."""

from __future__ import annotations

import random
from contextlib import nullcontext

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawler.seen.exact.recent import RecentDigests, remember
from crawler.seen.slices import compiled
from tests.examples import TIMES
from tests.needs import need_native

ROOM = 2**20


def made(most: int, where: str) -> RecentDigests:
    if where == "compiled":
        need_native()
    with nullcontext() if where == "compiled" else compiled.reference():
        return remember(most)


def digests(count: int, seed: int) -> list[bytes]:
    chance = random.Random(seed)
    return [chance.randbytes(16) for _ in range(count)]


# Few lines, which are crowded, and few digests, which come again.
keys = st.integers(0, 40).map(lambda number: bytes([number % 4]) + bytes(7) + bytes([number]) + bytes(7))


@pytest.mark.parametrize("where", ["compiled", "reference"])
@settings(max_examples=60 * TIMES, deadline=None)
@given(batches=st.lists(st.lists(keys, max_size=30), max_size=12), most=st.integers(0, 4096))
def test_what_was_not_met_is_never_remembered(batches: list[list[bytes]], most: int, where: str) -> None:
    recent, met = made(most, where), set[bytes]()
    for batch in batches:
        unmet = recent.meet(b"".join(batch))
        assert unmet == sorted(set(unmet))
        for position, digest in enumerate(batch):
            if digest not in met:
                assert position in unmet
            met.add(digest)


@pytest.mark.parametrize("where", ["compiled", "reference"])
def test_what_has_room_is_remembered(where: str) -> None:
    recent = made(ROOM, where)
    chosen = digests(ROOM // 256, 1)
    first = [position for at in range(0, len(chosen), 100) for position in recent.meet(b"".join(chosen[at : at + 100]))]
    assert len(first) == len(chosen)
    again = [position for at in range(0, len(chosen), 100) for position in recent.meet(b"".join(chosen[at : at + 100]))]
    assert len(again) < len(chosen) // 50, "a few may share a crowded line"
    assert recent.meet(chosen[0] * 3) == []
    new = digests(1, 2)[0]
    assert recent.meet(new + chosen[0] + new) == [0], "twice in one batch: it is remembered the second time"
