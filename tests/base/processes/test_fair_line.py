"""Who is served next."""

from __future__ import annotations

import random

import pytest

from crawler.base.processes.fair_line import FairLine

DEAR = 0.3
CHEAP = 0.001


def line_of(*hosts: str) -> FairLine[str]:
    """A line that knows these hosts."""
    line = FairLine[str]()
    for host in hosts:
        line.charge(host, 0.0)
    return line


def served(line: FairLine[str]) -> str:
    """What is taken, if each page costs what it was thought to, and is done before the next is taken."""
    order = ""
    while line.first() is not None:
        order += line.take()
        line.charge(order[-1], 0.0)
    return order


def test_hosts_that_cost_the_same_take_turns() -> None:
    line = line_of("a", "b")
    for item in "aaabb":
        line.put(item, item, 1.0)
    assert served(line) == "ababa"


def test_a_host_that_has_cost_much_waits_for_one_that_has_not() -> None:
    line = line_of("a", "b")
    line.put("a", "a", 0.1)
    assert line.take() == "a"
    line.charge("a", 5.0)
    line.put("a", "a", 0.1)
    for _ in range(3):
        line.put("b", "b", 0.1)
    assert line.first() == "b"
    assert served(line) == "bbba"


@pytest.mark.parametrize("seed", range(10))
def test_dear_pages_of_newcomers_cost_a_known_host_one_turn_of_theirs(seed: int) -> None:
    """However many they are, and whatever each is thought to cost before it is parsed."""
    chance = random.Random(seed)
    newcomers_out = chance.randint(1, 4)
    line = FairLine[str](newcomers_out)
    known = [f"known{n}" for n in range(chance.randint(1, 3))]
    for host in known:
        line.charge(host, 0.0)
    new, clock, out = 0, 0.0, list[str]()
    asked = dict.fromkeys(known, 0.0)  # when the page that waits was put
    for host in known:
        line.put(host, host, CHEAP)
    while new < 30 or len(list(line)) + len(out) > len(known):
        if new < 30:
            for _ in range(chance.randint(0, 8)):
                line.put(f"new{new}", f"new{new}", CHEAP)
                new += 1
        while line.first() is not None and len(out) < newcomers_out:
            out.append(line.take())
        page = out.pop(0)
        cost = CHEAP if page in asked else DEAR
        clock += cost
        line.charge(page, cost - CHEAP)
        if page in asked:
            assert clock - asked[page] <= (newcomers_out + 1) * DEAR + 2 * len(known) * CHEAP
            asked[page] = clock
            line.put(page, page, CHEAP)
    assert {*line, *out} == set(known), "no newcomer waits for ever"
