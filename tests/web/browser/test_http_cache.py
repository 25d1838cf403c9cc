"""The cache of answers: fresh, to be asked for again, or not kept, as HTTP has it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.web.browser.http_cache import HttpCache
from crawler.web.browser.rendered import Answer, Kind, SubRequest

NOW, URL, BIG = 1_700_000_000.0, "http://a.test/x", 2**20


def answer(*headers: str, status: int = 200, body: bytes = b"x") -> Answer:
    pairs = (header.partition(": ") for header in headers)
    return Answer(status, tuple((name, value) for name, _, value in pairs), body)


def get(kind: Kind = Kind.DATA, url: str = URL, **headers: str) -> SubRequest:
    return SubRequest(url, "GET", kind, headers)


TAG, LIFE = 'ETag: "a"', "Cache-Control: max-age=60"
CHANGED = "Last-Modified: Tue, 14 Nov 2023 22:13:20 GMT"
LIVES = {  # None: not kept, 0: kept to be asked for again; of data unless the text says otherwise
    None: ["", "301", "script 500 " + TAG, "206 " + LIFE, LIFE + "|Vary: *", LIFE + "|Cache-Control: no-store",
        "script Expires: 0", "script Pragma: no-cache"],
    0: [TAG, CHANGED, "script 404 " + TAG, TAG + "|Cache-Control: no-cache", "script " + TAG + "|Expires: 0",
        "script " + TAG + "|Cache-Control: max-age=x"],
    10: [LIFE + "|Age: 50"],
    60: [LIFE, "302 " + LIFE, LIFE + "|Expires: 0", "cache-control: private|CACHE-CONTROL: Max-Age=60"],
    300: ["script", "script " + CHANGED],
}  # fmt: skip


@pytest.mark.parametrize(("fresh", "text"), [(fresh, text) for fresh, texts in LIVES.items() for text in texts])
def test_how_long_an_answer_is_fresh(fresh: float | None, text: str) -> None:
    kind, rest = (Kind.SCRIPT, text[6:].strip()) if text.startswith("script") else (Kind.DATA, text)
    status, rest = (int(rest[:3]), rest[3:].strip()) if rest[:3].isdigit() else (200, rest)
    cache, small = HttpCache(BIG), HttpCache(2_000)
    for each in (cache, small):
        each.keep(get(kind=kind), NOW, answer(*rest.split("|"), status=status))
    kept = cache.find(get(kind=kind))
    assert (None if kept is None else max(0.0, kept.fresh_until - NOW)) == fresh
    assert small.find(get(kind=kind)) is None


@pytest.mark.parametrize(
    ("said", "header", "found"),
    [
        ("Vary: Accept", "accept", False), ("Vary: X, cookie", "cookie", False), ("X: y", "cookie", True),
        ("Cache-Control: private", "cookie", False),
        ("X: y", "authorization", False), ("X: y", "origin", False), ("Access-Control-Allow-Origin: *", "origin", True),
    ],
)  # fmt: skip
def test_an_answer_is_for_requests_like_its_own(said: str, header: str, found: bool) -> None:
    cache = HttpCache(BIG)
    cache.keep(get(**{header: "1"}), NOW, answer(LIFE, said))
    assert [cache.find(get(**{header: value})) is not None for value in "12"] == [True, found]


def test_what_still_holds_gets_the_headers_of_the_new_answer_and_a_new_life() -> None:
    cache = HttpCache(BIG)
    cache.keep(get(), NOW, answer(TAG, "Content-Type: text/css", "X: old", "Set-Cookie: a=b"))
    kept = cache.find(get())
    assert kept is not None
    assert kept.conditions == {"if-none-match": '"a"'}
    said = answer("X: new", "Content-Type: text/html", "Cache-Control: max-age=5", status=304)
    whole = cache.revalidate(get(), NOW + 9, kept, said)
    assert (whole.status, whole.body, len(whole.headers)) == (200, b"x", 5)
    assert dict(whole.headers) | {"X": "new", "Content-Type": "text/css"} == dict(whole.headers)
    again = cache.find(get())
    assert again is not None
    assert again.fresh_until == NOW + 14
    cache.drop(URL)
    assert (cache.find(get()), cache.bytes) == (None, 0)


@given(st.lists(st.tuples(st.integers(0, 9), st.sampled_from("abcdefgh"), st.integers(0, 30_000)), max_size=40))
def test_the_cache_keeps_its_bound_and_what_was_used_last(asked: list[tuple[int, str, int]]) -> None:
    cache = HttpCache(50_000)
    for path, origin, size in asked:
        one = get(url=f"{URL}{path}", origin=origin)
        cache.keep(one, NOW, answer("Cache-Control: max-age=60", body=bytes(size)))
        kept = cache.find(one)
        assert kept is not None or size > 10_000
        assert 0 <= cache.bytes <= 50_000
        assert kept is None or len(kept.answer.body) == size
