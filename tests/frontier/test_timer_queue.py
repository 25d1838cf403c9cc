"""The order of tickets, whatever the order they come in."""

from __future__ import annotations

from heapq import heappop, heappush

from hypothesis import given
from hypothesis import strategies as st

from crawler.frontier.timer_queue import TimerQueue


# A time from now for a push, None for a pop. Most come one gap from now, a few after an hour, or at once.
@given(st.lists(st.one_of(st.none(), st.sampled_from([10, 10, 10, 9, 11, 0, 3_600]), st.integers(0, 100))))
def test_the_least_is_the_first(moves: list[int | None]) -> None:
    tickets, expected = TimerQueue(), list[bytes]()
    for now, wait in enumerate(moves):
        if wait is not None:
            ticket = (now + wait).to_bytes(8, "big") + now.to_bytes(8, "big")
            tickets.push(ticket)
            heappush(expected, ticket)
        elif expected:
            assert tickets.pop() == heappop(expected)
        assert tickets.first() == (expected[0] if expected else None)
        assert len(tickets) == len(expected)
    assert [tickets.pop() for _ in range(len(tickets))] == sorted(expected)
