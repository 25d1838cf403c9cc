"""Where URLs belong, and who has which partitions."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.base.settings.parts import PARTITIONS_MOST
from crawler.job.partition.placement import Placement, place

SECRET = b"0123456789abcdef"
workers = st.sets(st.text(min_size=1, max_size=8), min_size=1, max_size=9)


@pytest.mark.parametrize(
    "same",
    [
        ("http://example.co.uk/", "https://www.example.co.uk:8443/a", "http://a.b.example.co.uk/x?y"),
        ("http://www.github.io/", "http://github.io/"),  # a rule may leave `www.` out of keys
        ("http://example.org/", "http://example.org./"),
        ("http://127.0.1.1/", "http://127.0.1.1:8080/a"),
        ("http://[::1]/", "https://[::1]:8080/"),
        ("http://user:secret@example.org/", "http://example.org/"),
    ],
)
def test_what_must_be_together_is(same: tuple[str, ...]) -> None:
    for partitions in (2, 16, PARTITIONS_MOST):
        placement = Placement(SECRET, partitions)
        assert len({placement.of(href) for href in same}) == 1


def test_addresses_and_domains_are_spread() -> None:
    placement = Placement(SECRET, 16)
    for hrefs in (
        [f"http://127.0.{a}.{b}:8080/" for a in range(20) for b in range(80)],
        [f"http://www.site{number}.com/" for number in range(1600)],
        [f"http://user{number}.github.io/" for number in range(1600)],
    ):
        found = Counter(placement.of(href) for href in hrefs)
        assert len(found) == 16
        assert max(found.values()) < 160


def test_hosts_of_one_domain_are_spread_if_they_are_to_be() -> None:
    hrefs = [f"http://h{number}.example.org/" for number in range(500)]
    assert len({Placement(SECRET, 16).of(href) for href in hrefs}) == 1
    by_host = Placement(SECRET, 16, by_host=True)
    assert len({by_host.of(href) for href in hrefs}) == 16
    assert by_host.of("http://www.h1.example.org/") == by_host.of("https://h1.example.org:444/")


def test_hosts_of_a_group_are_together_whatever_their_domain() -> None:
    groups = (("*.one.org", "a"), ("two.org", "a"), ("10.0.0.1", "a"), ("[::1]", "a"), ("x.one.org", "b"))
    for partitions in (2, 16, PARTITIONS_MOST):
        placement = Placement(SECRET, partitions, groups=groups)
        hosts = ("one.org", "www.one.org:8080", "h.one.org", "two.org", "www.two.org", "10.0.0.1", "[::1]:80")
        assert len({placement.of_host(host) for host in hosts}) == 1
        assert placement.of("https://two.org:444/a") == placement.of_host("h.one.org")
        ungrouped = Placement(SECRET, partitions)
        assert placement.of_host("h.two.org") == ungrouped.of_host("h.two.org"), "no member of the group"
    many = Placement(SECRET, PARTITIONS_MOST, groups=groups)
    assert many.of_host("x.one.org") != many.of_host("one.org"), "of several tables the last counts"


def test_without_the_secret_nobody_knows() -> None:
    hrefs = [f"http://site{number}.com/" for number in range(200)]
    one, other = (Placement(secret, 16) for secret in (SECRET, SECRET[::-1]))
    assert 0 < sum(one.of(href) == other.of(href) for href in hrefs) < 40
    assert [one.of(href) for href in hrefs] == [Placement(SECRET, 16).of(href) for href in hrefs]


def test_a_host_belongs_where_its_urls_do() -> None:
    placement = Placement(SECRET, 64)
    for host in ("www.example.org:80", "127.0.0.1:8080", "[::1]:80", "example.org"):
        assert placement.of_host(host) == placement.of(f"http://{host}/")


@pytest.mark.parametrize(("secret", "partitions"), [(b"short", 4), (SECRET, 0), (SECRET, 1025), (bytes(65), 4)])
def test_other_secrets_and_numbers_are_refused(secret: bytes, partitions: int) -> None:
    with pytest.raises(ValueError, match="has"):
        Placement(secret, partitions)


@given(st.integers(1, 64), workers)
def test_every_partition_has_one_worker_and_none_has_more_than_its_share(partitions: int, names: set[str]) -> None:
    placed = place(partitions, names)
    assert list(placed) == list(range(partitions))
    loads = Counter(dict.fromkeys(names, 0)) + Counter(placed.values())
    assert set(placed.values()) <= names
    least = min(loads[name] for name in names)
    assert max(loads.values()) - least <= 1


@pytest.mark.parametrize("partitions", [16, 64])
def test_few_partitions_move_when_a_worker_comes_or_goes(partitions: int) -> None:
    moved = least = 0
    for crawl in range(20):
        for number in range(1, 8):
            names = [f"worker-{crawl}-{each}" for each in range(number + 1)]
            before, after = place(partitions, names[:-1]), place(partitions, names)
            moved += sum(before[each] != after[each] for each in before)
            least += sum(worker == names[-1] for worker in after.values())
    assert least <= moved <= 1.5 * least
