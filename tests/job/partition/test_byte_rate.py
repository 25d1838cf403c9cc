"""A bound on bytes a second."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.job.partition.byte_rate import ByteRate

RATE = 100.0
MESSAGES = st.lists(st.tuples(st.integers(1, 500), st.floats(0.0, 20.0)), min_size=1)


@given(MESSAGES)
def test_no_span_of_time_has_more_than_the_rate_and_a_message(messages: list[tuple[int, float]]) -> None:
    """Each message comes some seconds after the one before was sent."""
    rate, now, sent = ByteRate(RATE), 0.0, list[tuple[float, int]]()
    for size, pause in messages:
        now += pause
        now += rate.take(size, now)
        sent.append((now, size))
    for index, (begin, _) in enumerate(sent):
        total = 0
        for end, size in sent[index:]:
            assert total <= (end - begin) * RATE + 1e-3, "what came before is through"
            total += size


def test_nobody_waits_longer_than_the_rate_asks() -> None:
    rate = ByteRate(RATE)
    assert [rate.take(50, 0.0) for _ in range(4)] == [0.0, 0.5, 1.0, 1.5]
    assert rate.take(50, 100.0) == 0.0
    rate.rate = 2 * RATE
    assert [rate.take(50, 200.0) for _ in range(3)] == pytest.approx([0.0, 0.25, 0.5])
    assert ByteRate().take(10**12, 0.0) == ByteRate().take(1, 0.0) == 0.0
