"""Content codings: all that servers use, in all combinations, however the bytes are cut; what lies is bounded."""

from __future__ import annotations

import asyncio
import gzip
import itertools
import random
import sys
import zlib
from collections.abc import Callable
from functools import partial

import brotli  # type: ignore[import-untyped]
import pytest

from crawler.web.fetch import Failure, FailureKind, Fetcher
from crawler.web.fetch.content_coding import PIECE, Overlong, Undecodable, decoder, salvage
from tests.web.fetch.sites import LOCAL, page, site

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

BODY = b"<a href=x>hello</a>" * 100


def raw_deflate(body: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(body) + packer.flush()


CODINGS: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "gzip": ("gzip", gzip.compress),
    "x-gzip": ("x-gzip", gzip.compress),
    "capitals": ("GZip", gzip.compress),
    "deflate": ("deflate", zlib.compress),
    "deflate without header": ("deflate", raw_deflate),
    "br": ("br", partial(brotli.compress, quality=4)),
    "zstd": ("zstd", zstd.compress),
    "identity": ("identity", bytes),
    "a charset": ("UTF-8", bytes),
}


def decode(header: str, sent: bytes, step: int = 2**20, limit: int = 2**30) -> tuple[bytes, str | None]:
    undo, note = decoder(header, limit)
    if undo is None:
        return sent, note
    pieces = []
    for at in range(0, len(sent), step):
        for piece in undo.pieces(sent[at : at + step]):
            assert len(piece) <= 2 * PIECE
            pieces.append(piece)
    undo.end()
    return b"".join(pieces), undo.note


@pytest.mark.parametrize("names", [*itertools.product(CODINGS, repeat=2)], ids=",".join)
def test_combinations(names: tuple[str, str]) -> None:
    inner, outer = CODINGS[names[0]], CODINGS[names[1]]
    header = f"{inner[0]} ,{outer[0]}"
    for body in (b"", b"a", BODY):
        sent = outer[1](inner[1](body))
        for step in (1, 7, len(sent) + 1):
            assert decode(header, sent, step) == (body, None), step


@pytest.mark.parametrize("name", CODINGS)
def test_large_bodies_come_in_pieces(name: str) -> None:
    header, encode = CODINGS[name]
    body = random.Random(1).randbytes(PIECE) + bytes(3 * PIECE + 17)
    assert decode(header, encode(body), 65_536)[0] == body


@pytest.mark.parametrize("step", [1, 2, 1000])
@pytest.mark.parametrize("garbage", [b"\0" * 100, b"garbage", b"\x1f\0", b"\n"])
@pytest.mark.parametrize("name", ["gzip", "zstd", "deflate", "deflate without header"])
def test_what_follows_the_end_is_left_out(name: str, garbage: bytes, step: int) -> None:
    header, encode = CODINGS[name]
    note = f"the data after the end of the {header} stream was ignored"
    assert decode(header, encode(BODY) + garbage, step) == (BODY, note)


@pytest.mark.parametrize("body", [b"", random.Random(3).randbytes(40_000), bytes(3 * PIECE + 17)], ids=len)
def test_what_follows_the_end_of_brotli(body: bytes) -> None:
    sent = brotli.compress(body, quality=4)
    assert salvage("br", sent + bytes(1_500), 2**30) == (body, True)
    assert decode("br", sent) == (body, None)


@pytest.mark.parametrize("step", [1, 1000])
@pytest.mark.parametrize("name", ["gzip", "zstd"])
def test_members_follow_one_another(name: str, step: int) -> None:
    header, encode = CODINGS[name]
    assert decode(header, encode(BODY) * 3, step) == (BODY * 3, None)


@pytest.mark.parametrize("name", ["gzip", "zstd"])
def test_members_are_counted(name: str) -> None:
    header, encode = CODINGS[name]
    with pytest.raises(Undecodable):
        decode(header, encode(b"") * 2000)


@pytest.mark.parametrize("step", [1, 1000])
@pytest.mark.parametrize("sent", [b"<html>hello", b"<", b"hi"])
@pytest.mark.parametrize("header", ["gzip", "zstd"])
def test_what_is_not_coded_is_taken_as_it_came(header: str, sent: bytes, step: int) -> None:
    assert decode(header, sent, step)[0] == sent


@pytest.mark.parametrize("name", ["gzip", "br", "zstd"])
def test_a_body_may_end_early(name: str) -> None:
    header, encode = CODINGS[name]
    body = random.Random(2).randbytes(2000)
    assert body.startswith(decode(header, encode(body)[:-10])[0])
    for data, short in ((encode(body)[:-10], header), (encode(body), None)):
        made, _ = decoder(header, 10_000)
        assert made is not None
        assert body.startswith(b"".join(made.pieces(data)))
        assert made.short == short


@pytest.mark.parametrize(("header", "begin"), [("gzip", b"\x1f"), ("zstd", b"\x28\xb5\x2f"), ("zstd", b"\x5a\x2a")])
def test_the_first_bytes_of_a_member_are_a_cut(header: str, begin: bytes) -> None:
    for before in (b"", BODY):
        undo, _ = decoder(header, 10_000)
        assert undo is not None
        sent = CODINGS[header][1](before) if before else b""
        assert b"".join(undo.pieces(sent + begin)) == before
        assert (undo.short, undo.note) == (header, None)


BROKEN = {
    "deflate that ends early": ("deflate", zlib.compress(BODY)[:-5]),
    "one byte of deflate": ("deflate", b"x"),
    "gzip broken inside": ("gzip", gzip.compress(BODY)[:10] + b"\xff" * 30),
    "no brotli": ("br", b"<html>"),
    "too many": ("gzip," * 6, gzip.compress(BODY)),
    "an unknown one among others": ("gzip, klingon", gzip.compress(BODY)),
    "a window of 128 MiB": ("zstd", b"\x28\xb5\x2f\xfd\x00\x88\x01\x00\x00"),
}


@pytest.mark.parametrize(("header", "sent"), BROKEN.values(), ids=BROKEN.keys())
def test_broken(header: str, sent: bytes) -> None:
    with pytest.raises(Undecodable):
        decode(header, sent)


def test_an_unknown_coding_is_told() -> None:
    assert decode("klingon", b"hello") == (
        b"hello",
        "the content coding 'klingon' is unknown, so the body was not decoded",
    )


@pytest.mark.parametrize(
    ("header", "sent"),
    [
        ("gzip, gzip", gzip.compress(gzip.compress(bytes(2**24)) * 100)),
        ("deflate, gzip", gzip.compress(b"\x78\x9c" + b"\0\0\0\xff\xff" * 2**20)),
        ("deflate", b"\x78\x9c" + b"\0\0\0\xff\xff" * 2**20),
        ("br", b"\x6b" + b"\x06" * 2**21),
    ],
    ids=["bombs in a bomb", "nothing from a bomb", "nothing from deflate", "nothing from brotli"],
)
def test_no_form_of_a_body_is_endless(header: str, sent: bytes) -> None:
    limit = 2**20
    assert unpacked(header, sent, limit) <= limit + 2 * PIECE


def unpacked(header: str, sent: bytes, limit: int) -> int:
    """Return how many bytes come out before it is too much."""
    undo, _ = decoder(header, limit)
    assert undo is not None
    size = 0
    try:
        for piece in undo.pieces(sent):
            size += len(piece)
            if size > limit:
                return size
    except (Overlong, Undecodable):
        return size
    raise AssertionError("all of it was taken")


async def test_the_loop_turns_while_a_bomb_is_unpacked() -> None:
    bomb = gzip.compress(bytes(2**24))
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with (
        site(page(bomb, "Content-Encoding: gzip")) as served,
        Fetcher(LOCAL, concurrency=1, per_host=1) as fetcher,
    ):
        counting = asyncio.create_task(count())
        answer = await fetcher.fetch(served.url, max_body=2**24 - 1)
        counting.cancel()
    assert isinstance(answer, Failure)
    assert answer.kind is FailureKind.TOO_LARGE
    assert turns >= 15
