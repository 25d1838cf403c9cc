"""Who is served next."""

from __future__ import annotations

import pytest

from crawler.parsing.fair_line import FairLine


def served(line: FairLine[str]) -> str:
    return "".join(line.take() for _ in range(len(line)))


def test_hosts_that_cost_the_same_take_turns() -> None:
    line = FairLine[str]()
    for item in "aaabb":
        line.put(item, item, 1.0)
    assert served(line) == "ababa"


def test_a_host_that_has_cost_much_waits_for_one_that_has_not() -> None:
    line = FairLine[str]()
    line.put("a", "a", 0.1)
    assert line.take() == "a"
    line.charge("a", 5.0)
    line.put("a", "a", 0.1)
    for _ in range(3):
        line.put("b", "b", 0.1)
    assert line.first() == "b"
    assert served(line) == "bbba"


def test_nobody_saves_up_a_share_or_pays_for_ever() -> None:
    line = FairLine[str]()
    for _ in range(100):
        line.put("a", "a", 1.0)
        line.take()
    line.put("a", "a", 1.0)
    for _ in range(3):
        line.put("late", "b", 1.0)
    assert served(line) == "babb"


def test_it_forgets_hosts_and_what_waits() -> None:
    line = FairLine[str]()
    for n in range(5_000):
        line.put(f"{n}.test", "x", 1.0)
    assert list(line) == ["x"] * 5_000
    line.clear()
    assert not len(line)
    with pytest.raises(IndexError):
        line.first()
