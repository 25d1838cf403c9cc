"""Rules in memory and in the store: how much is kept, and what is read back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from crawler.base.kv import Batch, Family
from crawler.url.robots.parse import RobotsRecordError
from crawler.web.fetch import robots_answers
from crawler.web.fetch.robots_answers import GoodCopy, RobotsCache, encode_robots
from tests.memory_store import MemoryStore
from tests.simulated_web import page

RULES = "User-agent: *\n" + "".join(f"Disallow: /{n:x}\n" for n in range(20_000))
SHORT = "User-agent: *\nDisallow: /x\n"


def store_with(**hosts: bytes) -> MemoryStore:
    store, batch = MemoryStore(), Batch()
    for name, stored in hosts.items():
        batch.put(Family.ROBOTS, name.encode(), stored)
    store.write(batch)
    return store


def cache_of(store: MemoryStore) -> RobotsCache:
    return RobotsCache(store, "crawler")


def test_the_memory_of_parsed_rules_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(robots_answers, "_CACHE_BYTES", 1_500_000)
    hosts = {f"h{n}": encode_robots(page(RULES), 1.0) for n in range(8)}
    cache = cache_of(store_with(**hosts))
    for name in hosts:
        robots = cache.get(name)
        assert robots is not None
        assert not robots.rules.allowed("http://h/1f")
        assert cache.bytes <= 1_500_000
    held = [name for name in hosts if cache.at_hand(name)]
    assert held == list(hosts)[-len(held) :], "those used longest ago are dropped"
    assert 1 <= len(held) < len(hosts)
    cache.forget(held[0])
    assert not cache.at_hand(held[0])


@pytest.mark.parametrize(("age", "found"), [(0.0, True), (59.0, True), (61.0, False)])
def test_the_good_copy_grows_old(age: float, found: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(robots_answers, "LAST_GOOD_TTL", 60.0)
    first = encode_robots(page(SHORT), 1_000.0)
    copy = cache_of(store_with(h=first)).good_copy("h", 1_000.0 + age)
    assert copy == (GoodCopy(200, 1_000.0, SHORT.encode()) if found else None)
    if copy is not None:
        later = encode_robots(page("", status=500), 1_030.0, copy)
        again = cache_of(store_with(h=later)).good_copy("h", 1_000.0 + age)
        assert again is not None
        assert again.asked_at == 1_000.0, "its age is its own, not that of the answer after it"
        assert (again.body, again.stands_in, copy.stands_in) == (copy.body, True, False)


@given(
    st.binary(max_size=60)
    | st.tuples(st.sampled_from([b"\x95\x01", b"\x96\x01", b"\x97\x01"]), st.binary(max_size=60)).map(b"".join)
)
def test_any_bytes_are_a_record_or_an_error(stored: bytes) -> None:
    try:
        robots = cache_of(MemoryStore()).decode(stored)
    except RobotsRecordError:
        return
    assert robots.rules.allowed("http://h/") in (True, False)
    refusal = robots.refusal("http://h/x")
    assert refusal is None or refusal.words


@given(st.integers(0, 65_535), st.floats(0, 1e10), st.binary(), st.integers(200, 428), st.floats(0, 1e10))
def test_a_record_comes_back(status: int, at: float, body: bytes, good: int, good_at: float) -> None:
    cache = cache_of(MemoryStore())
    copy = GoodCopy(good, good_at, body)
    robots = cache.decode(encode_robots(page("", status=status), at, copy))
    assert (robots.status, robots.asked_at) == (status or None, at)
    assert robots.copy_of == (good_at if robots.unreachable else None)


def test_an_answer_that_lacks_its_end_does_not_lose_the_licenses_of_the_last_good_copy() -> None:
    part = replace(page("License: /a\n"), truncated="length")
    stored = encode_robots(part, 1.0, GoodCopy(200, 0.0, b"License: /b"))
    assert cache_of(MemoryStore()).decode(stored).licenses == ("/a", "/b")
