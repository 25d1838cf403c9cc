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
    assert sorted(line) == sorted(ranks.values())
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


@given(st.lists(st.one_of(st.integers(0, 99), st.floats(NOW - 99, NOW)), max_size=30))
def test_domains_with_one_host_keep_its_place(ranks: list[float | int]) -> None:
    turns = DomainTurns()
    line = DomainLine(turns)
    tickets = [ticket(f"h{number}.test", rank) for number, rank in enumerate(ranks)]
    for each in tickets:
        line.push(each)
    assert turns_of(line, turns) == [each[NAME_AT:-3].decode("ascii") for each in sorted(tickets)]


@given(HOSTS, st.sets(st.integers(0, 59)), st.integers(0, 20))
def test_what_became_stale_has_no_turn_and_keeps_none_from_its_domain(
    hosts: list[tuple[int, float | int]], stale: set[int], before: int
) -> None:
    turns = DomainTurns()
    line = DomainLine(turns)
    names = [f"h{number}.d{domain}.test" for number, (domain, _) in enumerate(hosts)]
    for name, (_, rank) in zip(names, hosts, strict=True):
        line.push(ticket(name, rank))
    done = turns_of(line, turns, before)
    gone = {ticket(names[number], hosts[number][1]) for number in stale if number < len(names)}
    found = list[str]()
    while line.first(gone.__contains__) is not None:
        popped = line.pop()
        assert popped not in gone
        name = popped[NAME_AT:].decode("ascii")
        turns.take(NOW)
        found.append(name.removesuffix(":80"))
    kept = {name for number, name in enumerate(names) if number not in stale}
    assert set(found) == kept - set(done)
    assert len(line) == 0


def test_the_turn_of_a_domain_counts_in_each_line_and_the_host_that_was_never_asked_goes_first() -> None:
    turns = DomainTurns()
    new, quick = DomainLine(turns), DomainLine(turns)
    for number in range(3):
        new.push(ticket(f"n{number}.spam.test", number))
        quick.push(ticket(f"q{number}.spam.test", NOW - 10 + number))
    quick.push(ticket("honest.test", NOW - 1))
    order = list[str]()
    while firsts := [(first, line) for line in (quick, new) if (first := line.first()) is not None]:
        name = min(firsts)[1].pop()[NAME_AT:].decode("ascii")
        turns.take(NOW)
        order.append(name.removesuffix(":80"))
    others = [f"n{number}.spam.test" for number in (1, 2)] + [f"q{number}.spam.test" for number in range(3)]
    assert order == ["n0.spam.test", "honest.test", *others]


def test_a_domain_of_more_hosts_than_one_look_goes_through_still_shares() -> None:
    turns = DomainTurns(most=50)
    line = DomainLine(turns, parked_most=10)
    for number in range(200):
        line.push(ticket(f"s{number}.spam.test", number))
    for number in range(5):
        line.push(ticket(f"h{number}.test", 1_000 + number))
    order = turns_of(line, turns)
    assert len(order) == 205
    assert max(order.index(f"h{number}.test") for number in range(5)) < 40, "one of the domain for each eleven parked"


def test_what_is_remembered_of_domains_is_bounded() -> None:
    turns = DomainTurns(most=100)
    for number in range(1_000):
        turns.next = b"h%d.test" % number
        turns.take(NOW)
    assert sum(turns.last(b"h%d.test" % number) != b"" for number in range(1_000)) <= 100
    assert all(turns.last(b"h%d.test" % number) for number in range(950, 1_000))
