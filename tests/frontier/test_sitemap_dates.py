"""What sites say about changes of their pages, and how far they are believed."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.frontier.freshness import run_with_dates
from crawler.base.kv import Family
from crawler.base.settings.parts import RecrawlSettings
from crawler.frontier.entry import Entry
from crawler.frontier.page import HASTENED, SIGNALLED, Answer, Page, unpack_page
from crawler.frontier.recrawl.change_rate import first_guess
from crawler.frontier.revisits import Revisits, due_key
from crawler.frontier.sitemap_dates import (
    LEAST,
    Stated,
    Trust,
    hear,
    pack_trust,
    trust_key,
    unpack_trust,
)
from tests.memory_store import MemoryStore

DAY = 86_400.0
NOW = 1_700_000_000.0
HOST = "http://h.test"
SETTINGS = RecrawlSettings(enabled=True)
visits = st.lists(st.tuples(st.booleans(), st.booleans(), st.floats(0, 1)), max_size=80)


def after(history: list[tuple[bool, bool, float]]) -> Trust:
    trust = Trust()
    for signalled, changed, chance in history:
        trust = trust.after(signalled=signalled, changed=changed, chance=chance)
    return trust


@given(visits)
def test_any_history_leaves_a_trust_between_none_and_nearly_all_that_can_be_stored(
    history: list[tuple[bool, bool, float]],
) -> None:
    trust = after(history)
    assert 0.0 <= trust.excess <= 0.95
    assert 0.05 <= trust.silence <= 1.0
    assert unpack_trust(pack_trust(trust)) == trust


@given(visits)
def test_a_site_that_dates_all_pages_with_today_is_not_believed(history: list[tuple[bool, bool, float]]) -> None:
    assert after([(True, changed, chance) for _, changed, chance in history]).excess == 0.0


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_dates_by_chance_are_not_believed_and_true_ones_are(rate: float) -> None:
    chance = random.Random(3)

    def history(true: float) -> list[tuple[bool, bool, float]]:
        changes = [chance.random() < rate for _ in range(400)]
        return [(changed if chance.random() < true else chance.random() < 0.5, changed, rate) for changed in changes]

    assert max(after(history(0.0)).excess for _ in range(20)) < 0.25
    assert sum(after(history(0.0)).excess for _ in range(20)) / 20 < LEAST
    assert min(after(history(1.0)).excess for _ in range(20)) > 0.7
    assert after(history(1.0)).silence < 0.4


def page(**known: float) -> Page:
    entry = Entry(f"{HOST}/", 1, revisit=True)
    return Page(entry, 2, 0, DAY, NOW + DAY, NOW, b"1" * 16, None, None, first_guess(DAY))._replace(**known)


def test_what_a_date_says() -> None:
    later = NOW + 3_600
    assert hear(page(), Stated(0.0, 0.0), later) is None
    old = hear(page(), Stated(NOW - 5, NOW - 5), later)
    assert old is not None
    assert (old.marks, old.stated) == (0, NOW - 5)
    assert hear(old, Stated(NOW - 5, NOW - 5), later) is None, "nothing new"
    new = hear(old, Stated(NOW + 5, NOW + 5), later)
    assert new is not None
    assert (new.marks, new.stated) == (SIGNALLED, NOW + 5)
    assert hear(new, Stated(NOW + 9, NOW + 9), later) is None, "it is known to have changed"
    midnight = NOW // DAY * DAY
    assert hear(page(), Stated(midnight, midnight + DAY), later) == page(stated=midnight), "before or after the visit?"
    today = hear(page(stated=midnight - DAY), Stated(midnight, midnight + DAY), later)
    assert today is not None
    assert today.marks == SIGNALLED, "another date than before"
    assert hear(page(), Stated(later + 2 * DAY, later + 2 * DAY), later) is None, "a date to come"
    often = hear(page(), Stated(0.0, 0.0, 1), later)
    assert often is not None
    assert often.entry.changefreq == 1
    assert hear(page(changes=1), Stated(0.0, 0.0, 1), later) is None, "it was seen to change: a guess adds nothing"


def visit(store: MemoryStore, revisits: Revisits, href: str, now: float, version: int) -> None:
    entry = Entry(href, 1, revisit=store.get(Family.PAGES, href.encode()) is not None)
    batch = store.batch()
    revisits.finish(entry, Answer(version.to_bytes(16, "big")), now, batch, excluded=False)
    store.write(batch)


def heed(store: MemoryStore, revisits: Revisits, now: float, **dates: float) -> None:
    batch = store.batch()
    revisits.heed({f"{HOST}/{name}": Stated(date, date) for name, date in dates.items()}, now, batch)
    store.write(batch)


def known(store: MemoryStore, name: str) -> Page:
    stored = store.get(Family.PAGES, f"{HOST}/{name}".encode())
    assert stored is not None
    return unpack_page(stored)


def believed(store: MemoryStore) -> None:
    batch = store.batch()
    batch.put(Family.META, trust_key(f"{HOST}:80"), pack_trust(Trust(40.0, 40.0, 10.0, 40.0, 2.0, 10.0)))
    batch.put(Family.META, trust_key("h.test:80"), pack_trust(Trust(40.0, 40.0, 10.0, 40.0, 2.0, 10.0)))
    store.write(batch)


@pytest.mark.parametrize("policy", ["freshness", "adaptive"])
def test_a_page_that_changed_is_due_soon_if_its_host_is_believed(policy: str) -> None:
    store, settings = MemoryStore(), RecrawlSettings(enabled=True, policy=policy)
    revisits = Revisits(store, settings, lambda _: 1.0)
    visit(store, revisits, f"{HOST}/a", NOW, 1)
    visit(store, revisits, f"{HOST}/b", NOW, 1)
    at = NOW + 7_200
    heed(store, revisits, at, a=NOW + 60)
    assert known(store, "a").due == NOW + DAY, "nothing is known of the host"
    believed(store)
    heed(store, revisits, at, b=NOW + 60)
    moved = known(store, "b")
    assert moved.due == at
    assert moved.marks == SIGNALLED | HASTENED
    assert store.get(Family.DUE, due_key(at, f"{HOST}/b")) is not None
    assert len(store.scan(Family.DUE, b"")) == 2
    assert revisits.next_due() == at
    batch = store.batch()
    (entry,) = revisits.begin(at, 10, batch)
    revisits.finish(entry, Answer(b"2" * 16), at, batch, excluded=False)
    store.write(batch)
    assert known(store, "b").marks == 0
    assert known(store, "b").stated == NOW + 60


@given(
    st.lists(
        st.tuples(st.sampled_from(["visit", "heed", "begin"]), st.sampled_from("abc"), st.floats(0, 3 * DAY)),
        max_size=40,
    ),
    st.booleans(),
)
def test_every_page_has_one_time_or_is_queued_whatever_its_site_says(
    steps: list[tuple[str, str, float]], trusted: bool
) -> None:
    store, now = MemoryStore(), NOW
    revisits = Revisits(store, SETTINGS, lambda _: 1.0)
    if trusted:
        believed(store)
    queued: set[str] = set()
    for step, name, seconds in steps:
        now += seconds / 4
        if step == "visit" and (name in queued or store.get(Family.PAGES, f"{HOST}/{name}".encode()) is None):
            visit(store, revisits, f"{HOST}/{name}", now, int(seconds))
            queued.discard(name)
        elif step == "heed":
            heed(store, revisits, now, **{name: now - seconds})
        else:
            batch = store.batch()
            queued.update(entry.href[-1] for entry in revisits.begin(now, 10, batch))
            store.write(batch)
        pages = [unpack_page(value) for _, value in store.scan(Family.PAGES, b"")]
        timed = {due_key(each.due, each.entry.href) for each in pages if each.due is not None}
        assert {key for key, _ in store.scan(Family.DUE, b"")} == timed
        assert {each.entry.href[-1] for each in pages if each.due is None} == queued
        assert all(math.isfinite(each.stated) for each in pages)


def test_true_dates_make_pages_fresher_and_lies_gain_no_visit() -> None:
    chance = random.Random(7)
    web = [0.6 * chance.lognormvariate(0, 1.0) for _ in range(16)]
    none, true, lying = (run_with_dates(web, site, 60.0, 20.0) for site in ("none", "true", "lying"))
    assert true[0] > none[0] + 0.08
    assert true[1] < none[1] + 0.05
    assert abs(lying[0] - none[0]) < 0.03
    assert lying[1] < none[1] + 0.03
