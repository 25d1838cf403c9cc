"""When a page is visited again: its interval, its record, and the order by time."""

from __future__ import annotations

import math
import random
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.base.kv import Family
from crawler.base.settings.parts import RecrawlSettings
from crawler.frontier.entry import Entry
from crawler.frontier.page import Answer, Page, PageError, pack_page, unpack_page, visited
from crawler.frontier.recrawl.change_rate import ChangeRate
from crawler.frontier.revisits import Revisits, due_key, split_due_key
from tests.memory_store import MemoryStore

NOW = 1_700_000_000.0
SETTINGS = RecrawlSettings(
    enabled=True, policy="adaptive", mean_interval=100.0, min_interval=10.0, max_interval=10_000.0
)

texts = st.none() | st.text('abc"W/-_ ,:', min_size=1).map(str.strip).filter(bool)
pages = st.builds(
    Page,
    st.sampled_from(["http://h.test/", "http://h.test/a"]).map(lambda href: Entry(href, 3, revisit=True)),
    st.integers(1, 2**32 - 1),
    st.integers(0, 2**32 - 1),
    st.floats(0, 1e9),
    st.none() | st.integers(1, 2**45).map(lambda ms: ms / 1000),
    st.floats(0, 1e10),
    st.none() | st.binary(min_size=16, max_size=16).filter(any),
    texts,
    texts,
    st.none() | st.builds(ChangeRate, st.floats(1e-9, 1e9), st.floats(1e-9, 1e12)),
    st.integers(0, 255),
    st.integers(0, 7),
    st.just(0.0) | st.floats(1, 1e10),
)


@given(pages)
def test_a_page_is_stored_and_read_back(page: Page) -> None:
    stored = pack_page(page)
    assert unpack_page(stored) == page
    assert pack_page(unpack_page(stored)) == stored


@given(st.binary(max_size=120))
def test_any_bytes_are_a_page_or_a_page_error(data: bytes) -> None:
    for stored in (
        data,
        b"\x92\x02" + data,
        pack_page(Page(Entry("http://h.test/", 0, revisit=True), 1, 0, 1.0, None, 2.0))[: len(data)],
    ):
        try:
            unpack_page(stored)
        except PageError:
            continue


@given(st.floats(0, 4e9), st.floats(0, 4e9))
def test_times_are_ordered_as_their_keys_are_and_survive_being_read(one: float, other: float) -> None:
    first, second = due_key(one, "http://h.test/"), due_key(other, "http://h.test/")
    assert (first <= second) or one > other
    for key, due in ((first, one), (second, other)):
        read, href = split_due_key(key)
        assert href == "http://h.test/"
        assert due_key(read, href) == key
        assert -0.0000011 <= read - due <= 0.0011


def walk(probability_per_second: float, visits: int, chance: random.Random) -> tuple[Page, float]:
    """A page that changes with that probability in each second, visited so often; and the share of changes found."""
    entry = Entry("http://h.test/", 0)
    page, now, number, found = None, NOW, 0, 0
    for _ in range(visits):
        if page is not None:
            number += chance.random() < 1 - math.exp(-probability_per_second * page.interval)
        answer = Answer(number.to_bytes(16, "big") + b"", None, None)
        page, changed = visited(page, entry, answer, now, SETTINGS, last_resort=False)
        found += changed is True
        assert page.due is not None
        now = page.due
        assert SETTINGS.min_interval <= page.interval <= SETTINGS.max_interval
    assert page is not None
    return page, found / visits


def test_the_interval_settles_where_six_visits_of_ten_find_a_change() -> None:
    chance = random.Random(1)
    for rate in (1 / 50, 1 / 300, 1 / 2_000):
        shares = [walk(rate, 2_000, chance)[1] for _ in range(3)]
        assert 0.55 < sum(shares) / 3 < 0.66, rate
    assert walk(10.0, 50, chance)[0].interval == SETTINGS.min_interval
    assert walk(0.0, 50, chance)[0].interval == SETTINGS.max_interval


def schedule(store: MemoryStore, settings: RecrawlSettings = SETTINGS) -> Revisits:
    return Revisits(store, settings, lambda _: 2.0)


def finish(store: MemoryStore, revisits: Revisits, entry: Entry, now: float, mark: bytes = b"1" * 16) -> int:
    batch = store.batch()
    kept = revisits.finish(entry, Answer(mark), now, batch, excluded=False)
    store.write(batch)
    assert kept is not None
    return kept[2]


def begin(store: MemoryStore, revisits: Revisits, now: float, room: int = 100) -> list[str]:
    batch = store.batch()
    begun = revisits.begin(now, room, batch)
    store.write(batch)
    assert all(entry.revisit for entry in begun)
    return [entry.href for entry in begun]


def rows(store: MemoryStore) -> tuple[int, int]:
    return len(store.scan(Family.PAGES, b"")), len(store.scan(Family.DUE, b""))


def test_pages_come_in_the_order_of_their_times_and_not_before() -> None:
    store = MemoryStore()
    revisits = schedule(store)
    assert revisits.next_due() is None
    hrefs = [f"http://h{number}.test/" for number in range(9)]
    for number, href in enumerate(reversed(hrefs)):
        assert finish(store, revisits, Entry(href, 0), NOW + number) == 1
    assert revisits.next_due() == NOW + 100
    assert begin(store, revisits, NOW + 99.9) == []
    assert begin(store, revisits, NOW + 102) == hrefs[:-4:-1]
    assert rows(store) == (9, 6)
    assert begin(store, revisits, NOW + 1_000, room=2) == hrefs[5:3:-1]
    page = revisits.page(hrefs[8])
    assert page is not None
    assert page.due is None
    assert finish(store, revisits, page.entry, NOW + 110, b"2" * 16) == 1
    page = revisits.page(hrefs[8])
    assert page is not None
    assert (page.visits, page.changes, page.due) == (2, 1, NOW + 190)
    # A page that was forgotten and admitted anew has one time, not two.
    assert finish(store, revisits, Entry(hrefs[8], 0), NOW + 120) == 0
    assert rows(store) == (9, 5)


def test_only_what_is_to_be_visited_again_is_scheduled() -> None:
    store = MemoryStore()
    batch = store.batch()
    off = schedule(store, RecrawlSettings(enabled=False))
    assert off.finish(Entry("http://h.test/", 0), Answer(b"1" * 16), NOW, batch, excluded=False) is None
    on = schedule(store)
    assert on.finish(Entry("http://h.test/", 0), None, NOW, batch, excluded=True) is None
    assert batch.changes == []
    # A revisit that was begun is always given a next time: its row would be without one.
    finish(store, on, Entry("http://h.test/", 0), NOW)
    begin(store, on, NOW + 1_000)
    assert off.finish(Entry("http://h.test/", 0, revisit=True), None, NOW, batch, excluded=True) is not None


def test_a_visit_that_is_taken_back_or_refused_is_compared_with_nothing() -> None:
    """Nobody has what the record of the first said, and whoever keeps a copy of the site dropped the page after the
    other."""
    store = MemoryStore()
    revisits = schedule(store)
    entry = Entry("http://h.test/", 0)
    again = entry._replace(revisit=True)
    answer = Answer(bytes(15) + b"1", '"tag"', "a date")

    def visit(answer: Answer | None, *, excluded: bool = False) -> bool | None:
        batch = store.batch()
        kept = revisits.finish(again, answer, NOW, batch, excluded=excluded)
        store.write(batch)
        assert kept is not None
        return kept[1]

    finish(store, revisits, entry, NOW)
    assert visit(answer) is True
    assert visit(answer) is False
    assert visit(None) is None
    assert visit(answer) is False, "it had no answer: nothing new is known"
    for refused in (True, False):
        if refused:
            visit(None, excluded=True)
        else:
            batch = store.batch()
            revisits.take_back(again, batch)
            store.write(batch)
        page = revisits.page(entry.href)
        assert page is not None
        assert page.conditions == {}
        assert visit(answer) is None
        assert visit(answer) is False


def test_a_page_that_is_gone_leaves_the_schedule() -> None:
    store = MemoryStore()
    revisits = schedule(store, SETTINGS)
    entry, now = Entry("http://h.test/", 0), NOW
    kept = []
    for gone in (True, False, True, True, True):
        batch = store.batch()
        kept.append(revisits.finish(entry, Answer(b"1" * 16, gone=gone), now, batch, excluded=False))
        store.write(batch)
        now += 20_000.0
        entry = entry._replace(revisit=True)
        if gone and len(kept) == 5:
            break
        assert begin(store, revisits, now) == [entry.href]
    assert [None if page is None else page[2] for page in kept] == [1, 1, 1, 1, 0]
    assert kept[-1] is not None
    assert (kept[-1][0].due, kept[-1][0].visits) == (None, 5)
    assert rows(store) == (0, 0)


def test_by_default_a_budget_sets_the_intervals_and_its_threshold_is_kept_for_the_next_run() -> None:
    store = MemoryStore()
    settings = RecrawlSettings(enabled=True, mean_interval=100.0, min_interval=1.0)
    pages = [f"http://h{number}.test/" for number in range(30)]
    revisits, now = schedule(store, settings), NOW
    for href in pages:
        finish(store, revisits, Entry(href, 0), now)
    for number in range(40):
        now += 100.0
        for href in begin(store, revisits, now):
            # Every third page changes at each visit, the others never do.
            changes = int(href[8:].split(".")[0]) % 3 == 0
            mark = (number + 2 if changes else 1).to_bytes(16, "big")
            finish(store, revisits, Entry(href, 0, revisit=True), now, mark)
    found = [revisits.page(href) for href in pages]
    known = [page for page in found if page is not None]
    assert len(known) == len(pages)
    assert {page.interval <= 100.0 for page in known[::3]} == {True}
    assert min(page.interval for page in known[1::3]) > 200.0
    stored = store.get(Family.META, b"recrawl-threshold")
    assert stored is not None
    threshold = struct.unpack("<d", stored)[0]
    assert threshold > 0
    one, other = (schedule(store, settings) for _ in range(2))
    finish(store, one, known[1].entry, now + 500)
    assert other.page(pages[1]) == one.page(pages[1])
    assert struct.unpack("<d", store.get(Family.META, b"recrawl-threshold") or b"")[0] == pytest.approx(
        threshold, rel=0.03
    )
