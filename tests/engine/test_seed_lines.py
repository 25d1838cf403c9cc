"""Lists of seeds, compressed or not."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import resource
import sys
import tracemalloc
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.engine.seed_lines import DamagedListError, coding_of, urls_of

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

CODINGS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "zstd": lambda data: zstd.compress(data, options={zstd.CompressionParameter.checksum_flag: 1}),
    "bzip2": bz2.compress,
    "xz": lzma.compress,
}
TEXT = "".join(f"https://h{number % 97}.example.org/{number}\n" for number in range(20_000))


class Slow(io.BytesIO):
    """A pipe whose writer writes byte by byte."""

    def read1(self, size: int | None = -1, /) -> bytes:
        return super().read1(1)


@pytest.mark.parametrize("name", CODINGS)
def test_a_compressed_list_is_the_list(name: str) -> None:
    packed = CODINGS[name](TEXT.encode())
    assert coding_of(packed) == name
    assert list(urls_of(io.BytesIO(packed))) == TEXT.splitlines()
    assert list(urls_of(io.BytesIO(packed + packed))) == TEXT.splitlines() * 2, "as `cat` of two files"
    short = TEXT[:2_000]
    assert list(urls_of(Slow(CODINGS[name](short.encode())))) == short.splitlines()
    assert list(urls_of(io.BytesIO(CODINGS[name](b"")))) == []


@pytest.mark.parametrize("name", CODINGS)
def test_a_list_that_is_damaged_or_cut_is_told_from_a_whole_one(name: str) -> None:
    packed = CODINGS[name](TEXT.encode())
    middle = len(packed) // 2
    with pytest.raises(DamagedListError, match=name):
        list(urls_of(io.BytesIO(packed[:-3])))
    with pytest.raises(DamagedListError, match=f"{name} data"):
        list(urls_of(io.BytesIO(packed[:middle] + bytes(each ^ 255 for each in packed[middle:]))))


@pytest.mark.parametrize(
    ("data", "urls"),
    [
        *(
            (text, ["a", "b"])
            for text in (b"a\nb\n", b"a\r\nb\r\n", b"a\rb\r", b"\xef\xbb\xbfa\nb", b"\n# c\na #b\n b")
        ),
        (b"a\n\ncaf\xe9 #\nb\n\xff", ["a", "(line 3 is not UTF-8) caf\\xe9", "b", "(line 5 is not UTF-8) \\xff"]),
        (b"# caf\xe9\na # caf\xe9\n", ["a"]),
        ("é\n\ufffd".encode(), ["é", "\ufffd"]),
        *(("\ufeffa\r\né\n".encode(f"utf-16-{order}"), ["a", "é"]) for order in ("le", "be")),
    ],
)
def test_the_urls_of_a_list(data: bytes, urls: list[str]) -> None:
    assert list(urls_of(io.BytesIO(data))) == urls


def test_zeros_after_the_end_are_padding() -> None:
    assert list(urls_of(io.BytesIO(gzip.compress(b"a\nb") + b"\0" * 100_000 + gzip.compress(b"c")))) == ["a", "bc"]


@pytest.mark.parametrize("name", ["gzip", "zstd"] if "zstd" in CODINGS else CODINGS)
def test_what_expands_without_end_is_read_in_bounded_memory(name: str) -> None:
    packed = CODINGS[name](b"\n" * 10 + b"x" * 20_000_000)
    tracemalloc.start()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    last = list(urls_of(io.BytesIO(packed)))[-1]
    assert "65,536" in last
    assert tracemalloc.get_traced_memory()[1] < 8_000_000
    tracemalloc.stop()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 14_000, "kilobytes"


@given(st.binary(max_size=300), st.sampled_from(sorted(CODINGS)))
def test_any_bytes_are_the_same_lines_compressed_or_not(data: bytes, name: str) -> None:
    if coding_of(data) is None:
        assert list(urls_of(io.BytesIO(CODINGS[name](data)))) == list(urls_of(io.BytesIO(data)))
