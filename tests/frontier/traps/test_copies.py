"""Copies: which pages count as the same, in what time, and what stands in the store."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from hashlib import blake2b
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.base.kv import Batch, Family
from crawler.base.settings.parts import TrapSettings
from crawler.frontier.traps.copies import (
    DISTANCE,
    Content,
    Copies,
    CopyRecordError,
    check_content,
    content_digest,
    driven,
    remember,
    simhash,
)
from tests.documents import ROOT
from tests.memory_store import MemoryStore

WORDS = [f"word{n}" for n in range(2_000)]


def text(seed: int, words: int = 400) -> list[str]:
    return random.Random(seed).choices(WORDS, k=words)


def page(words: list[str]) -> bytes:
    return ("<html><body><p>" + " ".join(words) + "</p></body></html>").encode()


class Site:
    def __init__(self, **settings: Any) -> None:
        self.store = MemoryStore()
        self.copies = Copies(TrapSettings(**settings), self.store)

    def finish(self, href: str, body: bytes) -> Content | None:
        """Take the marks of a page and store them."""
        content = driven(self.copies.measure(body))
        if content is not None:
            content = self.copies.compare(href, content)
            batch = Batch()
            remember(href, content, batch)
            self.store.write(batch)
        for row in self.store.scan(Family.CONTENT, b""):
            check_content(*row)
        return content

    def original(self, href: str, body: bytes) -> str | None:
        content = self.finish(href, body)
        assert content is not None
        return content.duplicate_of


def digest_as_stored(body: bytes) -> bytes:
    return blake2b(bytes(byte for byte in body if byte not in b" \t\n\r\f"), digest_size=16).digest()


def test_pages_of_all_sizes_have_the_digests_of_their_words() -> None:
    for around in (128, 4_096, 8_192, 2**20):
        spaced = bytes(random.Random(around).choices(b"<a href=x> \n\t\r\f\v\0\xff", k=around + 300))
        assert content_digest(spaced) == digest_as_stored(spaced)
        for size in range(around - 1, around + 2):
            assert content_digest(bytes(size)) == blake2b(bytes(size), digest_size=16).digest()


@pytest.mark.parametrize("native", ["on", "off"])
def test_the_digest_is_the_same_without_the_module(native: str) -> None:
    program = (
        "from crawler.frontier.traps.copies import content_digest; print(content_digest(b'a b\\tc' * 1_000).hex())"
    )
    environment = os.environ | {"CRAWLER_NATIVE": native}
    run = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == digest_as_stored(b"abc" * 1_000).hex()


def test_the_first_page_of_a_host_is_the_original() -> None:
    site = Site()
    assert site.original("http://h.test/a", b"one") is None
    assert site.original("http://h.test/b", b"two") is None
    assert site.original("http://h.test/c", b" one\n") == "http://h.test/a"
    assert site.original("http://h.test/d", b"one") == "http://h.test/a"
    assert site.original("http://other.test/c", b"one") is None
    assert site.original("http://h.test/a", b"one") is None, "it is fetched once more"


@given(st.integers(0, 2**64 - 1), st.sets(st.integers(0, 63), max_size=6))
def test_whatever_bits_differ_near_is_three_at_most(simhash: int, bits: set[int]) -> None:
    site = Site(near_duplicates=True)
    batch = Batch()
    remember("http://h.test/a", Content(b"d" * 16, simhash), batch)
    site.store.write(batch)
    other = simhash
    for bit in bits:
        other ^= 1 << bit
    found = site.copies.near(b"h.test:80\0", other)
    assert (found is not None) == (len(bits) <= DISTANCE)


def test_the_simhash_is_near_for_texts_that_are_near_and_only_for_these() -> None:
    rng = random.Random(5)
    for seed in range(20):
        words = text(seed, 2_000)
        mine = driven(simhash(page(words)))
        words[rng.randrange(2_000)] = "changed"
        near, far = driven(simhash(page(words))), driven(simhash(page(text(1_000 + seed, 2_000))))
        assert mine is not None
        assert near is not None
        assert far is not None
        assert (mine ^ near).bit_count() <= DISTANCE
        assert (mine ^ far).bit_count() > 3 * DISTANCE


def test_a_hostile_page_is_not_compared_with_all_others() -> None:
    """A thousand pages that share a band and are not near: the store is asked for a bounded number."""
    site = Site(near_duplicates=True)
    batch = Batch()
    for n in range(1_000):
        remember(f"http://h.test/{n}", Content(n.to_bytes(16, "big"), (7 << 48) | (0x1010101 * (n + 1))), batch)
    site.store.write(batch)
    asked: list[int | None] = []
    scan = site.store.scan

    def counted(*words: Any) -> list[tuple[bytes, bytes]]:
        asked.append(words[3])
        return scan(*words)

    site.store.scan = counted  # type: ignore[method-assign]
    site.copies.near(b"h.test:80\0", 7 << 48 | 0xFFFF_FFFF_FFFF)
    assert len(asked) == 4
    assert sum(limit or 10**9 for limit in asked) <= 256


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"d" * 17, b"http://h.test/"),
        (b"h\0d" + bytes(15), b"http://h.test/"),
        (b"h\0x" + bytes(16), b"http://h.test/"),
        (b"h\0d" + bytes(16), b"no url"),
        (b"h\0d" + bytes(16), b"http://\xff"),
        (b"h\0b" + bytes(11), b"http://h.test/"),
        (b"\0d" + bytes(16), b"http://h.test/"),
    ],
)
def test_other_bytes_are_no_marks(key: bytes, value: bytes) -> None:
    with pytest.raises(CopyRecordError):
        check_content(key, value)
