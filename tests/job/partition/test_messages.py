"""Messages come back as they were, and what is no message is a value or an error."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.frontier.sitemap_dates import Stated
from crawler.job.found import Candidate, CopiedPage, Found
from crawler.job.partition.messages import (
    Links,
    MessageError,
    UnknownMessage,
    Widened,
    decode_message,
    encode_message,
    found_of,
    links_of,
)
from crawler.url.urls.canonicaliser import Canonical

NOW = 50.0
names = st.integers(0, 30).map(lambda number: f"http://h{number % 7}.test/{number}")
urls = st.lists(names, min_size=1, max_size=12, unique=True).flatmap(
    lambda hrefs: st.tuples(
        *(st.sampled_from([href, f"key of {href}"]).map(lambda key, h=href: Canonical(h, key)) for href in hrefs)
    )
)
candidates = st.builds(
    Candidate,
    st.integers(0, 3),
    st.none() | st.integers(0, 7),
    st.none() | st.floats(0, 1),
    st.none() | st.builds(Stated, st.floats(0, 9), st.floats(0, 9), st.integers(0, 3)),
)
copies = st.builds(CopiedPage, names, st.integers(0, 2**32 - 1), st.none() | names)
founds = st.builds(
    Found,
    urls.map(list),
    depth=st.integers(0, 2**31),
    via=st.none() | names,
    seed=st.booleans(),
    redirects=st.integers(0, 20),
    found_at=st.none() | st.just(NOW),
    sitemaps=st.booleans(),
    share=st.floats(0, 1),
    copy=st.none() | copies,
    probe=st.booleans(),
    priority=st.none() | st.integers(0, 7),
    candidates=st.dictionaries(names, candidates, max_size=6),
)


@given(founds, st.data())
def test_what_was_found_comes_back_with_all_that_is_said_of_it(found: Found, data: st.DataObject) -> None:
    positions = data.draw(st.lists(st.integers(0, len(found.urls) - 1), min_size=1, unique=True))
    decoded = decode_message(encode_message(links_of(found, positions)))
    assert isinstance(decoded, Links)
    back = found_of(decoded, NOW)
    some = [found.urls[position] for position in positions]
    known = {url.href: found.candidates[url.href] for url in some if url.href in found.candidates}
    expected = found._replace(urls=some, candidates=known)
    # A chain ends where it leaves its partition, which has cookies of its own.
    assert back._replace(share=0.0) == expected._replace(share=0.0, chain=b"")
    assert back.share == pytest.approx(found.share * len(some) / len(found.urls))


def test_a_plain_link_is_short() -> None:
    found = Found([Canonical("http://b.test/1", "http://b.test/1")], 1, "http://a.test/", found_at=NOW)
    assert len(encode_message(links_of(found, [0]))) < len("http://b.test/1" + "http://a.test/") + 30


@given(st.lists(names))
def test_what_widens_the_scope_comes_back(hrefs: list[str]) -> None:
    assert decode_message(encode_message(Widened(hrefs))) == Widened(hrefs)


@given(st.integers(3, 2**31), st.lists(st.integers() | st.text() | st.none(), max_size=3))
def test_a_kind_of_a_newer_version_is_a_value(kind: int, rest: list[object]) -> None:
    assert decode_message(msgspec.msgpack.encode([kind, *rest])) == UnknownMessage(kind)


def test_fields_of_a_newer_version_are_ignored() -> None:
    content = msgspec.msgpack.decode(encode_message(Widened(["http://a.test/"])))
    assert decode_message(msgspec.msgpack.encode([*content, "new"])) == Widened(["http://a.test/"])


@given(st.binary(max_size=80))
def test_any_bytes_are_a_message_or_an_error(data: bytes) -> None:
    try:
        message = decode_message(data)
        if isinstance(message, Links):
            found_of(message, NOW)
    except MessageError:
        pass


@pytest.mark.parametrize(
    "content",
    [
        [1],
        [1, "x", 1],
        [1, ["a"], -1],
        [1, ["a"], 1, None, True, False, 0, {}, 0.0, 8],
        [1, ["a"], 1, None, True, False, 0, {}, 0.0, 1, {-1: 2}],
        [2, [1]],
        [True],
        "text",
        [],
        {"1": 2},
    ],
)
def test_what_is_no_message_is_an_error(content: object) -> None:
    with pytest.raises(MessageError):
        decode_message(msgspec.msgpack.encode(content))


def test_what_is_said_of_a_url_that_is_not_named_is_an_error() -> None:
    with pytest.raises(MessageError):
        found_of(Links(["http://a.test/"], 1, candidates={3: Candidate(1)}), NOW)
