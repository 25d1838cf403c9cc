"""When a page is visited again: its interval, its record, and the order by time."""

from __future__ import annotations

import math
import random
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from crawler.base.kv import Family
from crawler.base.settings import RecrawlSettings
from crawler.frontier import (
    Answer,
    Entry,
    Page,
    PageError,
    Revisits,
    due_key,
    pack_page,
    split_due_key,
    unpack_page,
    validator,
)
from crawler.frontier.page import visited
from crawler.frontier.recrawl import ChangeRate
from crawler.frontier.revisits import HOST_MAX, QUEUED_MAX
from crawler.job.store import MemoryStore

NOW = 1_700_000_000.0
SETTINGS = RecrawlSettings(
    enabled=True, policy="adaptive", first_interval=100.0, min_interval=10.0, max_interval=10_000.0
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
        b"\x01" + data,
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


@pytest.mark.parametrize("key", [b"", b"1234567", b"12345678", b"12345678\xff"])
def test_what_is_no_time_and_page(key: bytes) -> None:
    with pytest.raises(PageError):
        split_due_key(key)


def test_validators_that_can_be_sent_back() -> None:
    assert validator(' W/"a b" ') == 'W/"a b"'
    for text in (None, "", " ", "a\r\nb", "\u00e9", "\udcff", "x" * 1_025):
        assert validator(text) is None


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


def test_what_an_answer_says() -> None:
    entry = Entry("http://h.test/", 0, seed=True)
    first, changed = visited(None, entry, Answer(b"1" * 16, '"e"', "Mon"), NOW, SETTINGS, last_resort=False)
    assert (changed, first.visits, first.interval, first.due) == (None, 1, 100.0, NOW + 100)
    assert first.conditions == {"If-None-Match": '"e"', "If-Modified-Since": "Mon"}
    assert first.entry == entry._replace(revisit=True)
    same, changed = visited(first, first.entry, Answer(None), NOW, SETTINGS, last_resort=False)
    assert (changed, same.interval, same.fingerprint) == (False, 140.0, b"1" * 16)
    assert same.conditions == first.conditions, "a 304 need not repeat them"
    other, changed = visited(same, same.entry, Answer(b"2" * 16), NOW, SETTINGS, last_resort=False)
    assert (changed, other.interval, other.changes, other.conditions) == (True, 112.0, 1, {})
    silent, changed = visited(other, other.entry, None, NOW, SETTINGS, last_resort=False)
    assert (changed, round(silent.interval, 6), silent.fingerprint) == (None, 156.8, b"2" * 16)
    refused, changed = visited(silent, silent.entry, None, NOW, SETTINGS, last_resort=True)
    assert (changed, refused.interval) == (None, SETTINGS.max_interval)


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


def test_a_host_with_many_due_pages_leaves_the_others_their_turn() -> None:
    store = MemoryStore()
    revisits = schedule(store)
    many = [f"http://slow.test/{number}" for number in range(4 * HOST_MAX)]
    for href in many:
        finish(store, revisits, Entry(href, 0), NOW)
    finish(store, revisits, Entry("http://quick.test/", 0), NOW + 1)
    now = NOW + 200
    begun = begin(store, revisits, now, room=2 * len(many))
    assert begun == [*sorted(many)[:HOST_MAX], "http://quick.test/"]
    assert rows(store) == (len(many) + 1, len(many) - HOST_MAX)
    times = sorted(split_due_key(key)[0] for key, _ in store.scan(Family.DUE, b""))
    assert times[0] >= now + 2.0 * HOST_MAX, "when the queued ones are through"
    assert len(set(times)) == len(times), "one after the other, at the host's pace"
    assert begin(store, revisits, now + 2.0 * HOST_MAX) == []
    for href in begun[:HOST_MAX]:
        page = revisits.page(href)
        assert page is not None
        finish(store, revisits, page.entry, now + 30)
    assert len(begin(store, revisits, times[7])) == 8


@pytest.mark.parametrize("seconds", [1.0, 2.0])
def test_the_pages_of_a_host_that_cannot_keep_up_are_visited_in_the_order_in_which_they_were_due(
    seconds: float,
) -> None:
    """``seconds`` between two visits: by the host's gap it is one, and two if first visits share its turns."""
    store = MemoryStore()
    revisits = Revisits(store, SETTINGS, lambda _: 1.0)
    hrefs = [f"http://h.test/{number}" for number in range(400)]
    for number, href in enumerate(hrefs):
        finish(store, revisits, Entry(href, 0), NOW + number)  # due one after the other, a second apart
    now, queued, visited_ = NOW + 100, list[str](), list[str]()
    while len(visited_) < 250:
        now += seconds
        queued += begin(store, revisits, now, room=300)
        if queued:
            visited_.append(href := queued.pop(0))
            batch = store.batch()
            page = revisits.page(href)
            assert page is not None
            revisits.finish(page.entry, None, now, batch, excluded=True)
            store.write(batch)
    assert visited_ == hrefs[: len(visited_)], "nobody is overtaken by who became due later"


def test_slow_hosts_do_not_hold_all_places() -> None:
    store = MemoryStore()
    revisits = schedule(store)
    for number in range(8):
        for host in range(QUEUED_MAX // 8):
            finish(store, revisits, Entry(f"http://slow{host}.test/{number}", 0), NOW)
    finish(store, revisits, Entry("http://quick.test/", 0), NOW + 1)
    begun = begin(store, revisits, NOW + 200, room=2 * QUEUED_MAX)
    assert "http://quick.test/" in begun
    assert len(begun) < 0.7 * QUEUED_MAX


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


def test_the_end_of_a_visit_is_taken_back() -> None:
    store = MemoryStore()
    revisits = schedule(store)
    entry = Entry("http://h.test/", 0)
    batch = store.batch()
    assert revisits.take_back(entry, batch) == (True, 0)
    finish(store, revisits, entry, NOW)
    batch = store.batch()
    assert revisits.take_back(entry, batch) == (True, 1)
    store.write(batch)
    assert rows(store) == (0, 0)
    finish(store, revisits, entry, NOW)
    begin(store, revisits, NOW + 200)
    again = entry._replace(revisit=True)
    assert revisits.take_back(again, batch) == (False, 0), "it is queued already"
    finish(store, revisits, again, NOW + 200)
    batch = store.batch()
    assert revisits.take_back(again, batch) == (True, 1)
    store.write(batch)
    assert rows(store) == (1, 0)


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


def test_a_page_that_was_read_after_all_did_not_kill_the_crawler() -> None:
    store = MemoryStore()
    revisits = schedule(store)
    entry = Entry("http://h.test/", 0, crashes=1)
    for answer, crashes in ((None, 1), (Answer(b"1" * 16), 0)):
        batch = store.batch()
        revisits.finish(entry, answer, NOW, batch, excluded=False)
        store.write(batch)
        page = revisits.page(entry.href)
        assert page is not None
        assert page.entry.crashes == crashes


def test_a_page_that_is_gone_leaves_the_schedule() -> None:
    store = MemoryStore()
    revisits = schedule(store, replace(SETTINGS, gone_after=2))
    entry, now = Entry("http://h.test/", 0), NOW
    kept = []
    for gone in (True, False, True, True):
        batch = store.batch()
        kept.append(revisits.finish(entry, Answer(b"1" * 16, gone=gone), now, batch, excluded=False))
        store.write(batch)
        now += 20_000.0
        entry = entry._replace(revisit=True)
        if gone and len(kept) == 4:
            break
        assert begin(store, revisits, now) == [entry.href]
    assert [None if page is None else page[2] for page in kept] == [1, 1, 1, 0]
    assert kept[-1] is not None
    assert (kept[-1][0].due, kept[-1][0].visits) == (None, 4)
    assert rows(store) == (0, 0)


def test_an_unanswered_visit_does_not_say_that_a_page_is_there() -> None:
    entry = Entry("http://h.test/", 0)
    page, _ = visited(None, entry, Answer(b"1" * 16, gone=True), NOW, SETTINGS, last_resort=False)
    page, _ = visited(page, entry, None, NOW + 50, SETTINGS, last_resort=False)
    assert page.gone == 1
    page, _ = visited(page, entry, Answer(None), NOW + 90, SETTINGS, last_resort=False)
    assert page.gone == 0


def test_by_default_a_budget_sets_the_intervals_and_its_threshold_is_kept_for_the_next_run() -> None:
    store = MemoryStore()
    settings = RecrawlSettings(enabled=True, first_interval=100.0, mean_interval=100.0, min_interval=1.0)
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
