"""Filters of Guava: read and written as the real library does, and from bytes that it wrote."""

from __future__ import annotations

import math
import random
import struct
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.seen.filters import SEED_ZERO, FilterError, FormatError
from crawler.seen.filters import guava as module
from crawler.seen.filters.guava import GuavaBloomFilter, guava_size
from crawler.seen.slices.digest_batch import Batch
from crawler.seen.slices.digests import digest_words
from crawler.seen.slices.guava_slice import GuavaSlice, GuavaSlice32
from tests.needs import miss, need

HERE = Path(__file__).resolve().parent / "guava"
JAR = Path("/usr/share/java/guava.jar")

Peer = Callable[[Sequence[str], Sequence[str]], str]

STRINGS = [
    "",
    "a",
    "http://a.test/",
    "http://www.example.org/path?query=1&other=%20",
    "h\u00e9llo \u4e16\u754c",
    "\U0001f600 outside the basic plane",
    "\ud83d\ude00 a pair of surrogates",
    "\ud800 a lone one",
    "lone at the end \udc00",
    "\udc00\ud800 the wrong way round",
    "nul \0 inside",
    "x" * 100,
]
BYTES = [b"", b"a", b"\0", b"\xff\xfe\xfd", bytes(range(256)), b"http://a.test/"]
texts = st.text(st.characters(min_codepoint=0, max_codepoint=0x10FFFF, exclude_categories=()), max_size=20)


def made(keys: Sequence[str | bytes], expected: int, fpp: float, *, narrow: bool = False) -> GuavaBloomFilter:
    filter_ = GuavaBloomFilter.sized(expected, fpp, narrow=narrow)
    filter_.put_many(keys)
    return filter_


# -- without the library -------------------------------------------------------------------------------------------


def test_the_example_of_the_docstring() -> None:
    lines = (line.strip() for line in (module.__doc__ or "").splitlines())
    (example,) = (line for line in lines if line.startswith("01 05"))
    data = bytes.fromhex(example)
    read = GuavaBloomFilter.from_bytes(data)
    assert (read.slice.hashes, read.slice.bits) == (5, 64)
    assert read.might_contain_many(["a", "b"]) == [True, False]
    assert made(["a"], 1, 0.03).to_bytes() == data


@pytest.mark.parametrize(("name", "keys"), [("strings", STRINGS), ("bytes", BYTES)])
def test_bytes_that_guava_wrote(name: str, keys: Sequence[str | bytes]) -> None:
    """Written by Guava 31.1 (``Peer put`` with the keys above, 200 expected, 1%)."""
    data = (HERE / f"{name}.bloom").read_bytes()
    read = GuavaBloomFilter.from_bytes(data)
    assert read.might_contain_many(keys) == [True] * len(keys)
    assert not any(read.might_contain_many([f"absent {n}" for n in range(500)]))
    assert read.to_bytes() == data
    assert made(keys, 200, 0.01).to_bytes() == data


@given(st.lists(texts | st.binary(max_size=20), max_size=30), st.integers(0, 200), st.floats(1e-6, 0.5))
def test_what_was_put_is_there_and_comes_back(keys: list[str | bytes], expected: int, fpp: float) -> None:
    filter_ = GuavaBloomFilter.sized(expected, fpp)
    for key in keys:
        filter_.put_many([key])
        assert filter_.might_contain_many([key]) == [True]
    assert filter_.to_bytes() == made(keys, expected, fpp).to_bytes()
    again = GuavaBloomFilter.from_bytes(filter_.to_bytes())
    assert again.to_bytes() == filter_.to_bytes()
    assert again.might_contain_many(keys) == [True] * len(keys)


@pytest.mark.parametrize("layout", [GuavaSlice, GuavaSlice32])
@given(st.lists(st.text(), max_size=30), st.integers(1, 3000), st.integers(1, 255))
def test_each_strategy_is_the_same_in_a_seen_set(layout: Any, keys: list[str], words: int, hashes: int) -> None:
    by_keys = GuavaBloomFilter(layout(words * 64, hashes))
    at_once = layout(words * 64, hashes)
    by_keys.put_many(keys)
    digests = SEED_ZERO.digest_keys(keys)
    at_once.put(Batch(digest_words(digests)))
    assert by_keys.slice.words.tolist() == at_once.words.tolist()
    again = GuavaBloomFilter.from_bytes(by_keys.to_bytes())
    assert type(again.slice) is layout
    assert again.might_contain_many(keys) == [True] * len(keys)


@pytest.mark.parametrize(("expected", "fpp"), [(-1, 0.01), (1, 0.0), (1, 1.0), (1, math.nan), (1, 0.9), (10**12, 0.01)])
def test_sizes_that_guava_has_not(expected: int, fpp: float) -> None:
    with pytest.raises(FilterError):
        guava_size(expected, fpp)


GOOD = made(["a"], 30, 0.03).to_bytes()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        GOOD[:-1],
        GOOD + b"\0",
        b"\x02" + GOOD[1:],
        GOOD[:1] + b"\0" + GOOD[2:],
        *(GOOD[:2] + struct.pack(">i", words) + GOOD[6:] for words in (0, -4, 3, 2**31 - 1)),
    ],
)
def test_bytes_that_are_no_filter(data: bytes) -> None:
    with pytest.raises(FormatError):
        GuavaBloomFilter.from_bytes(data)


# -- beside the library --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Peer:
    javac, java = (need(program, "default-jdk-headless") for program in ("javac", "java"))
    if not JAR.exists():
        miss(str(JAR), "libguava-java")
    classes = tmp_path_factory.mktemp("classes")
    subprocess.run([javac, "-cp", JAR, "-d", classes, HERE / "Peer.java"], check=True)

    def ask(words: Sequence[str], lines: Sequence[str]) -> str:
        text = "".join(f"{line}\n" for line in lines)
        command = [java, "-XX:TieredStopAtLevel=1", "-cp", f"{JAR}:{classes}", "Peer", *words]
        return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout.strip()

    return ask


def as_hex(keys: Sequence[str | bytes]) -> list[str]:
    raw = [key if isinstance(key, bytes) else key.encode("utf-16-be", "surrogatepass") for key in keys]
    return [key.hex() for key in raw]


def many(name: str, seed: int) -> list[str | bytes]:
    chance = random.Random(seed)
    if name == "bytes":
        return [*BYTES, *(chance.randbytes(chance.randrange(40)) for _ in range(1_500))]
    alphabet = [*"abc/.?%", "\u00e9", "\u4e16", "\U0001f600", "\ud83d", "\ude00"]
    return [*STRINGS, *("".join(chance.choices(alphabet, k=chance.randrange(30))) for _ in range(1_500))]


@pytest.mark.parametrize(
    ("strategy", "name", "expected", "fpp"),
    [
        ("MURMUR128_MITZ_64", "strings", 3_000, 1e-4),
        ("MURMUR128_MITZ_64", "bytes", 0, 0.5),
        ("MURMUR128_MITZ_32", "strings", 400, 1e-9),
        ("MURMUR128_MITZ_32", "bytes", 200, 0.01),
    ],
)
def test_both_write_the_same_bytes(
    tmp_path: Path, peer: Peer, strategy: str, name: str, expected: int, fpp: float
) -> None:
    keys = many(name, 1)[: max(expected, 30)]
    theirs = tmp_path / "theirs"
    figures = peer(["put", name, str(expected), str(fpp), str(theirs), strategy], as_hex(keys)).split()
    mine = made(keys, expected, fpp, narrow=strategy.endswith("32"))
    assert mine.to_bytes() == theirs.read_bytes()
    assert mine.slice.fpp_estimated() == pytest.approx(float(figures[0]))
    if mine.slice.fill() < 1:
        assert round(mine.slice.count_estimated()) == int(figures[1])


@pytest.mark.parametrize(("strategy", "name"), [("MURMUR128_MITZ_64", "strings"), ("MURMUR128_MITZ_32", "bytes")])
def test_each_answers_for_the_other(tmp_path: Path, peer: Peer, name: str, strategy: str) -> None:
    keys = many(name, 2)
    inside, probe = keys[::2], many(name, 3)
    theirs, mine = tmp_path / "theirs", tmp_path / "mine"
    # So small that many of the absent keys are taken for present: also these answers must agree.
    peer(["put", name, "300", "0.05", str(theirs), strategy], as_hex(inside))
    read = GuavaBloomFilter.from_bytes(theirs.read_bytes())
    assert read.might_contain_many(inside) == [True] * len(inside)
    filter_ = made(inside, 300, 0.05, narrow=strategy.endswith("32"))
    mine.write_bytes(filter_.to_bytes())
    answers = [answer == "1" for answer in peer(["ask", name, str(mine)], as_hex([*inside, *probe]))]
    assert answers[: len(inside)] == [True] * len(inside)
    assert answers[len(inside) :] == read.might_contain_many(probe) == filter_.might_contain_many(probe)
    assert 0 < sum(answers[len(inside) :]) < len(probe)


def test_both_choose_the_same_size(peer: Peer) -> None:
    wanted = [(n, p) for n in (0, 1, 7, 1_000, 12_345, 3_000_000) for p in (0.5, 0.1, 0.03, 0.01, 1e-3, 1e-9)]
    heads = peer(["size"], [f"{n} {p}" for n, p in wanted]).split()
    for (expected, fpp), head in zip(wanted, heads, strict=True):
        words, hashes = guava_size(expected, fpp)
        assert bytes.fromhex(head)[2:] == words.to_bytes(4, "big")
        if expected >= 1_000:
            assert bytes.fromhex(head)[1] == hashes, "few keys: see the docstring on older releases"
