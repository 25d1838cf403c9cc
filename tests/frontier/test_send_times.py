"""When requests may be sent that have a place at the gate."""

from __future__ import annotations

from crawler.frontier.send_times import SendTimes


def test_the_longest_gap_that_is_not_over_counts() -> None:
    sends = SendTimes()
    sends.hold("group", 5.0, 100.0)
    sends.hold("group", 1.0, 101.0)
    assert sends.next_time([("group", 1.0), ("address", 9.0)], 101.5) == 105.0
    sends.hold("group", 1.0, 104.5)
    assert sends.next_time([("group", 1.0)], 104.6) == 105.5
    assert sends.next_time([("group", 1.0)], 106.0) == 106.0


def test_a_gap_that_was_shortened_holds_as_the_new_one() -> None:
    sends = SendTimes()
    sends.hold("a", 500.0, 100.0)
    sends.change()
    assert sends.next_time([("a", 2.0)], 101.0) == 102.0


def test_a_clock_that_is_set_back_costs_one_gap() -> None:
    sends = SendTimes()
    sends.hold("a", 2.0, 5_000.0)
    assert sends.next_time([("a", 2.0)], 100.0) == 102.0
    assert sends.next_time([("a", 2.0)], 102.0) == 102.0
