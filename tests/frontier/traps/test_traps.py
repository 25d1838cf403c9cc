"""Counting: what is refused, what is dropped, and that none of it depends on memory or a restart."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.base.kv import Batch, Family
from crawler.base.settings.parts import TrapSettings
from crawler.frontier.traps.counts import TrapRecordError
from crawler.frontier.traps.traps import Traps, check_row
from tests.memory_store import MemoryStore
from tests.traps import limit_traps

LIMITS = {"max_segments": 6, "max_repeats": 2, "max_query_shapes": 3, "max_records": 4}


@pytest.fixture(autouse=True)
def _low(monkeypatch: pytest.MonkeyPatch) -> None:
    limit_traps(monkeypatch, **LIMITS)


@dataclass(frozen=True)
class Link:
    href: str


class Web:
    """Admits what is new, as a crawl would: one batch for each list of links."""

    def __init__(self, max_variants: int = 5) -> None:
        self.store = MemoryStore()
        self.settings = TrapSettings(max_variants=max_variants)
        self.traps = Traps(self.settings, self.store)
        self.seen: set[str] = set()
        self.queued: list[str] = []
        self.records: list[str] = []
        self.dropped = self.counted = 0

    def restart(self) -> None:
        self.traps = Traps(self.settings, self.store)

    def links(self, *hrefs: str) -> None:
        dropped = Counter[str]()
        found = self.traps.open_links([Link(href) for href in dict.fromkeys(hrefs)], dropped)
        self.dropped += dropped.total()
        assert len(found) + dropped.total() == len(dict.fromkeys(hrefs))
        new = [link.href for link in found if link.href not in self.seen]
        self.seen.update(new)
        batch = Batch()
        rules, grown = self.traps.refusals(new, batch)
        self.counted += grown
        self.store.write(batch)
        for href, refused in zip(new, rules, strict=True):
            if refused is None:
                self.queued.append(href)
            else:
                self.records.append(refused.error)


def url(target: str, host: str = "h.test") -> str:
    return f"http://{host}{target}"


def test_a_calendar_ends_and_costs_a_bounded_number_of_records() -> None:
    web = Web()
    for day in range(1_000):
        web.links(url(f"/calendar/{day}"), url("/about"), url(f"/calendar/{day}", "other.test"))
    assert Counter(web.queued) == Counter(
        [url("/about"), *(url(f"/calendar/{day}", host) for host in ("h.test", "other.test") for day in range(5))]
    )
    assert web.records == ["traps.max_variants: more than 5 URLs like /calendar/#"] * 8
    assert web.dropped == 2 * (1_000 - 9)
    assert len(web.seen) == 2 * 9 + 1, "a closed trap is not remembered link by link"


targets = st.one_of(
    st.builds(lambda n: f"/d/{n}", st.integers(0, 30)),
    st.builds(lambda name, n: f"/s?{name}={n}", st.sampled_from("abcdef"), st.integers(0, 9)),
    st.builds(lambda n: "/x" * n, st.integers(1, 9)),
    st.sampled_from(["/", "/about"]),
)
pages = st.lists(st.lists(targets, max_size=6), max_size=40)


@given(pages, st.integers(1, 5), st.sets(st.integers(0, 39)))
def test_neither_restarts_nor_a_small_memory_change_what_is_decided(
    linked: list[list[str]], kept: int, restarts: set[int]
) -> None:
    plain, other = Web(), Web()
    with pytest.MonkeyPatch.context() as patch:
        for number, page in enumerate(linked):
            patch.setattr("crawler.frontier.traps.counts.KEPT_MAX", 50_000)
            plain.links(*map(url, page))
            patch.setattr("crawler.frontier.traps.counts.KEPT_MAX", kept)
            if number in restarts:
                other.restart()
            other.links(*map(url, page))
    assert (plain.queued, plain.records, plain.dropped) == (other.queued, other.records, other.dropped)
    stored = other.store.scan(Family.TRAPS, b"")
    assert stored == plain.store.scan(Family.TRAPS, b"")
    assert sum(check_row(*row) for row in stored) == other.counted == plain.counted


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"n" + b"d" * 16, b"1234567"),
        (b"n" + b"d" * 15, b"12345678"),
        (b"y" + b"d" * 16, b"12345678"),
        (b"x" + b"d" * 16, b""),
        (b"x" + b"d" * 16, b"\x09h.test:80"),
        (b"x" + b"d" * 16, b"\x00\xff"),
    ],
)
def test_other_bytes_are_no_rows(key: bytes, value: bytes) -> None:
    with pytest.raises(TrapRecordError):
        check_row(key, value)


def pages(host: str, number: int) -> list[str]:
    return [f"http://{host}/item/{page}" for page in range(number)]


def test_a_domain_of_many_hosts_with_endless_pages_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    limit_traps(monkeypatch, domain_factor=3, max_records=10)
    web = Web(max_variants=400)
    for number in range(20):
        web.links(*pages(f"h{number}.spam.test", 450))
    # Three hosts have their own limit, and count 300 each when the next hundred begins; the others fill up the domain.
    assert 1_200 <= len(web.queued) <= 1_200 + 20 * 100 + 400
    assert web.records[-1] == "traps.domain_factor: spam.test has more than 1200 URLs like /item/#"
    before = len(web.queued)
    web.links(*pages("later.spam.test", 450), *pages("later.spam.test", 900))
    assert len(web.queued) == before + 100, "each host may have a hundred"
    web.links(*pages("honest.test", 390))
    assert len(web.queued) == before + 100 + 390
    assert "The hosts of spam.test together have about 1200 of 1200 allowed." in web.traps.explain(
        "http://h0.spam.test/item/7"
    )


def test_many_honest_hosts_of_a_domain_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    limit_traps(monkeypatch, domain_factor=2)
    web = Web(max_variants=1_000)
    for number in range(1_000):
        web.links(*pages(f"h{number}.university.test", 20))
    assert len(web.queued) == 20_000
    assert web.records == []
