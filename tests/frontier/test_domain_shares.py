"""The turns of domains among the hosts that wait."""

from __future__ import annotations

import struct
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from crawler.frontier.domain_shares import DomainLine, DomainTurns

NOW = 1_700_000_000.0
NAME_AT = 17


def ticket(name: str, rank: float | int) -> bytes:
    """``rank``: the time of the last request; or, if it is small, the arrival of a host that was never asked."""
    packed = struct.pack(">Q", int(rank)) if rank < 1e6 else struct.pack(">d", rank)
    return packed + struct.pack(">dB", NOW - 5, 0) + f"{name}:80".encode("ascii")


def turns_of(line: DomainLine, turns: DomainTurns, most: int = 10_000) -> list[str]:
    """The names of the hosts in the order of their turns, which are all at one time."""
    found = list[str]()
    while len(found) < most and line.first() is not None:
        name = line.pop()[NAME_AT:].decode("ascii")
        turns.take(NOW)
        found.append(name.removesuffix(":80"))
    return found


HOSTS = st.lists(st.tuples(st.integers(0, 6), st.one_of(st.integers(0, 99), st.floats(NOW - 99, NOW))), max_size=60)


@given(HOSTS)
def test_domains_have_turns_in_turn_and_their_hosts_in_order(hosts: list[tuple[int, float | int]]) -> None:
    turns = DomainTurns()
    line = DomainLine(turns)
    ranks, left = dict[str, bytes](), Counter[str]()
    for number, (domain, rank) in enumerate(hosts):
        name = f"h{number}.d{domain}.test"
        ranks[name] = ticket(name, rank)
        line.push(ranks[name])
        left[f"d{domain}"] += 1
    assert len(line) == len(hosts)
    order, had = turns_of(line, turns), Counter[str]()
    assert sorted(order) == sorted(ranks), "each has its turn"
    assert len(line) == 0
    for name in order:
        domain = name.split(".")[1]
        had[domain] += 1
        left[domain] -= 1
        waiting = [each for each in left if left[each]]
        assert not waiting or max(had[each] for each in waiting) - min(had[each] for each in waiting) <= 1
    for domain in left:
        mine = [ranks[name] for name in order if name.split(".")[1] == domain]
        assert mine == sorted(mine)


def test_what_is_remembered_of_domains_is_bounded() -> None:
    turns = DomainTurns(most=100)
    for number in range(1_000):
        turns.next = b"h%d.test" % number
        turns.take(NOW)
    assert sum(turns.last(b"h%d.test" % number) != b"" for number in range(1_000)) <= 100
    assert all(turns.last(b"h%d.test" % number) for number in range(950, 1_000))
