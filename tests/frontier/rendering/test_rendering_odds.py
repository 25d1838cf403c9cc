"""Which pages are rendered because that pays, and the recall that is estimated from audits."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from crawler.base.kv import Family
from crawler.frontier.rendering import rendering_odds as module
from crawler.frontier.rendering.recall import CHANCES, SIZE, count, estimated, level_now, pages_by_level, pooled
from crawler.frontier.rendering.rendering_odds import Paying, Why, decode_known, shape_of
from crawler.frontier.traps.counts import TrapRecordError
from tests.memory_store import MemoryStore

SIGNS = ("empty mount point",)


class Crawl:
    """Visits pages of one host, and keeps what it learned in a store."""

    def __init__(self) -> None:
        self.counts: list[int] = []
        self.store = MemoryStore()
        self.paying = Paying(self.counts, b"secret")

    def visit(self, path: str, signs: Sequence[str] = (), *, needs: bool, when: str = "signs") -> Why | None:
        paid = self.paying.weigh("h.test", f"http://h.test{path}", signs, when)
        batch = self.store.batch()
        replace(paid, gained=needs if paid.why else None).put(batch)
        self.store.write(batch)
        return paid.why

    def visits(self, path: str, signs: Sequence[str] = (), *, needs: bool, times: int = 100) -> list[Why | None]:
        return [self.visit(f"{path}/{number}", signs, needs=needs) for number in range(times)]


def test_signs_that_are_false_render_a_few_pages_and_those_that_are_right_all() -> None:
    crawl = Crawl()
    false, right = (crawl.visits(path, SIGNS, needs=path == "/app", times=300) for path in ("/doc", "/app"))
    assert 4 <= false.count(Why.SIGNS) <= 10
    assert Why.SIGNS not in false[100:]
    assert set(right) == {Why.SIGNS}


def test_a_shape_without_signs_is_rendered_once_an_audit_has_found_more() -> None:
    crawl = Crawl()
    crawl.visits("/doc", needs=False, times=200)
    assert set(crawl.visits("/app", needs=True, times=300)[8:]) == {Why.SHAPE}
    assert crawl.visits("/app", needs=False, times=60)[-1] in (None, Why.AUDIT)  # it has changed its mind


def test_a_shape_with_false_signs_does_not_take_the_certain_audits_of_others() -> None:
    crawl = Crawl()
    crawl.visits("/doc", SIGNS, needs=False, times=500)
    assert crawl.visits("/doc", SIGNS, needs=False, times=4_000).count(Why.AUDIT) < 80  # 40 are drawn at random


def test_pages_that_are_still_being_rendered_count_for_the_next_audits() -> None:
    paying = Paying([], b"secret")
    drawn = [paying.weigh("h.test", f"http://h.test/{number}", (), "signs").why for number in range(200)]
    assert set(drawn[:20]) == {Why.AUDIT}
    assert drawn.count(Why.AUDIT) < 80  # 41 on average


def test_a_page_without_signs_among_many_with_them_is_rendered() -> None:
    crawl = Crawl()
    crawl.visits("/doc", needs=False, times=20)
    assert crawl.visits("/shop", needs=True, times=5) == [None] * 5
    crawl.visits("/app", SIGNS, needs=True, times=20)
    assert [crawl.visit(f"/{shape}/x", needs=True) for shape in ("app", "shop")] == [Why.SHAPE] * 2
    assert crawl.visit("/doc/1", SIGNS, needs=True, when="always") is Why.ALWAYS


def test_a_page_that_comes_again_is_decided_alike_also_by_a_resumed_job(monkeypatch: pytest.MonkeyPatch) -> None:
    crawl = Crawl()
    crawl.visits("/doc", needs=False, times=500)
    crawl.visits("/app", SIGNS, needs=True, times=5)
    again, other = (Paying(crawl.counts, secret, crawl.store) for secret in (b"secret", b"another"))
    pages = [
        (f"http://h.test/{shape}/{n}", signs)
        for shape in ("doc", "app", "x")
        for n in range(300)
        for signs in ((), SIGNS)
    ]
    made = [[each.weigh("h.test", *page, "signs") for page in pages] for each in (crawl.paying, again, other)]
    first, second, third = ([(paid.why, paid.level) for paid in each] for each in made)
    assert first == second != third
    monkeypatch.setattr(module, "SHAPES_MOST", 10)
    for number in range(100):
        crawl.visits(f"/{chr(97 + number % 26)}{chr(97 + number // 26)}", needs=False, times=1)
    assert len(list(crawl.store.rows(Family.TRAPS))) == 10


def test_at_least_20_pages_are_audited_and_1_of_100_in_the_long_run() -> None:
    crawl = Crawl()
    assert crawl.visits("/doc", needs=False, times=20) == [Why.AUDIT] * 20
    rest = crawl.visits("/doc", needs=False, times=8_000)
    assert 0.005 < rest[1000:].count(Why.AUDIT) / 7_000 < 0.02


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        ("/a/1", "/a/2", True),
        ("/a/blue", "/a/red", True),
        ("/a/1", "/b/1", False),
        ("/blue", "/red", True),
        ("/page1", "/page2", True),
        ("/page1", "/item1", False),
        ("/a/1", "/a/1/x", False),
        ("/show?id=1", "/show?id=2", True),
        ("/show?id=1", "/show?q=1", False),
        ("/show?id=1", "/list?id=1", False),
    ],
)
def test_shapes(one: str, other: str, alike: bool) -> None:
    assert (shape_of(f"http://h.test{one}") == shape_of(f"http://h.test{other}")) is alike


@pytest.mark.parametrize("value", [b"", b"\1" * 5, b"\1\2\0\0\0\0", b"\2\1\1\2\0\0", b"\1\0\0\0\0\1"])
def test_damaged_rows(value: bytes) -> None:
    with pytest.raises(TrapRecordError):
        decode_known(value)


# -- the recall ----------------------------------------------------------------------------------------------------


def sampled(random: random.Random, missed: float, pages: int) -> tuple[list[int], float]:
    """Counts of a crawl in which the share ``missed`` of pages that would not be rendered needs it; the true recall."""
    counts: list[int] = []
    needed = found = 0
    for _ in range(pages // 10):
        count(counts, None, rendered=True, gained=True)
        needed, found = needed + 1, found + 1
    for _ in range(pages):
        level = level_now(pages_by_level(counts), is_new=random.random() < 0.1)
        needs, drawn = random.random() < missed, random.random() < CHANCES[level]
        count(counts, level, rendered=drawn, gained=drawn and needs)
        needed, found = needed + needs, found + (needs and drawn)
    return counts, found / needed


@pytest.mark.parametrize(("missed", "pages"), [(0.001, 1_500), (0.02, 1_500), (0.2, 600), (0.0, 300)])
def test_the_interval_contains_the_recall_and_the_estimate_is_without_bias(missed: float, pages: int) -> None:
    runs = [sampled(random.Random(seed), missed, pages) for seed in range(40)]
    made = [(estimated(counts), true) for counts, true in runs]
    assert sum((each.low or 0) <= true <= (each.high or 1) for each, true in made if each) >= 36
    whole = estimated(pooled([counts for counts, _ in runs]))
    assert whole is not None
    assert whole.value is not None
    assert abs(whole.value - sum(true for _, true in runs) / len(runs)) < 0.05


def test_counts_add_up_and_nothing_known_is_no_estimate() -> None:
    (one, _), (other, _) = (sampled(random.Random(seed), 0.05, 700) for seed in (1, 2))
    both = pooled([one, other, []])
    assert both == [a + b for a, b in zip(one, other, strict=True)]
    parts = [estimated(each) for each in (one, other, both)]
    assert all(part is not None for part in parts)
    (a, b, ab) = (part[3:] for part in parts if part is not None)
    assert ab == pytest.approx([x + y for x, y in zip(a, b, strict=True)])
    assert [estimated(each) for each in ([], [0] * SIZE)] == [None] * 2
    nothing = estimated([3, *[0] * (SIZE - 1)])
    assert nothing is not None
    assert nothing[:5] == (None, None, None, 3, 3)
    certain = estimated([10, 9, *[0] * (SIZE - 2)])
    assert certain is not None
    assert certain[:3] == (1.0, 1.0, 1.0)
