"""``crawler filter export --format redis``: what plain GETBIT answers, asked by somebody who only read the page."""

from __future__ import annotations

import hashlib
import json
import re
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import mmh3
import pytest

from crawler.seen.filters import BloomFilter
from crawler.tools.dedup.exchange import redis_commands
from crawler.tools.dedup.store import read_filter
from tests.base.carrier.redis_server import RedisServer, redis_server
from tests.documents import page
from tests.hashing import HASH
from tests.needs import need
from tests.tools.dedup.commands import Commands

MASK = 2**64 - 1


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with redis_server(tmp_path_factory.mktemp("redis")) as made:
        yield made


def positions(digest: bytes, layout: str, bits: int, hashes: int) -> list[int]:
    """As the page says it, without the program."""
    h1, h2 = int.from_bytes(digest[:8], "little"), int.from_bytes(digest[8:], "little")
    if layout == "classic":
        return [(h1 + i * h2 + (i**3 - i) // 6 & MASK) % bits for i in range(hashes)]
    if layout == "guava":
        return [(h1 + i * h2 & 2**63 - 1) % bits for i in range(hashes)]
    low, high = h1 % 2**32, h1 >> 32
    sums = [(low + i * high) % 2**32 for i in range(1, hashes + 1)]
    return [(found if found < 2**31 else 2**32 - 1 - found) % bits for found in sums]


def piped(server: RedisServer, path: Path) -> None:
    """As the page says it."""
    words = [need("redis-cli", "redis-tools"), "-p", str(server.port), "--pipe"]
    with open(path, "rb") as commands:
        ended = subprocess.run(words, stdin=commands, capture_output=True, check=True)
    assert b"errors: 0" in ended.stdout


def getbits(server: RedisServer, asked: list[tuple[str, int]]) -> list[bool]:
    """By a client of four lines, which knows only GETBIT."""
    with socket.create_connection(("127.0.0.1", server.port)) as talk, talk.makefile("rb") as answers:
        found = []
        for start in range(0, len(asked), 20_000):
            some = asked[start : start + 20_000]
            talk.sendall(b"".join(b"GETBIT %b %d\r\n" % (key.encode(), at) for key, at in some))
            found += [answers.readline() == b":1\r\n" for _ in some]
    return found


def exported(run: Commands, folder: Path, layout: str, count: int) -> tuple[Callable[[bytes], bytes], Path]:
    """The digest of a line, and a filter with that many lines as commands."""
    (folder / "list").write_bytes(b"".join(b"line %d\n" % number for number in range(count)))
    assert run("filter", "build", folder / "seen", "--raw", "--layout", layout, "--from", folder / "list").code == 0
    out = folder / f"bits-{layout}"
    assert run("filter", "export", folder / "seen", out, "--format", "redis").code == 0
    secret = read_filter(folder / "seen").seen.hash.secret
    if layout == "classic":
        return lambda line: hashlib.blake2b(line, key=secret, digest_size=16).digest(), out
    return lambda line: mmh3.hash_bytes(line, 0), out


@pytest.mark.parametrize(("layout", "count"), [("classic", 100_000), ("guava", 2000), ("guava32", 2000)])
def test_getbit_answers_right_for_all_keys(
    run: Commands, server: RedisServer, tmp_path: Path, layout: str, count: int
) -> None:
    digest, out = exported(run, tmp_path, layout, count)
    piped(server, out)
    head = {key.decode(): value.decode() for key, value in dict_of(server.say("HGETALL", out.name)).items()}
    assert (head["format"], head["version"], head["layout"]) == ("crawler-bits", "1", layout)
    bits, hashes, split = int(head["bits"]), int(head["hashes"]), int(head["string_bits"])

    def held(lines: list[bytes]) -> list[bool]:
        places = [place for line in lines for place in positions(digest(line), layout, bits, hashes)]
        said = getbits(server, [(f"{out.name}:{place // split}", place % split) for place in places])
        return [all(said[at : at + hashes]) for at in range(0, len(said), hashes)]

    assert held([b"line %d" % number for number in range(count)]) == [True] * count
    absent = [b"absent %d" % number for number in range(10_000)]
    answers = held(absent)
    assert answers == read_filter(tmp_path / "seen").seen.contains_many(absent)
    assert sum(answers) < 35


def dict_of(said: object) -> dict[bytes, bytes]:
    if isinstance(said, dict):
        return said
    assert isinstance(said, list)
    return dict(zip(said[::2], said[1::2], strict=True))


def test_a_large_filter_is_split(server: RedisServer, tmp_path: Path) -> None:
    seen = BloomFilter(1_500_000, 0.001, layout="classic", hash=HASH)
    keys = [f"key {number}" for number in range(300)]
    seen.add_many(keys)
    (tmp_path / "big").write_bytes(b"".join(redis_commands(seen, "big", 2**23)))
    piped(server, tmp_path / "big")
    head = dict_of(server.say("HGETALL", "big"))
    bits, hashes = int(head[b"bits"]), int(head[b"hashes"])
    strings = -(-bits // 2**23)
    assert [server.say("STRLEN", f"big:{number}") for number in range(strings + 1)] == [
        *[2**20] * (strings - 1),
        bits // 8 - 2**20 * (strings - 1),
        0,
    ]
    places = [place for key in keys for place in positions(HASH.digest_keys([key]), "classic", bits, hashes)]
    assert all(getbits(server, [(f"big:{place >> 23}", place % 2**23) for place in places]))


def test_the_example_of_the_page(server: RedisServer, tmp_path: Path) -> None:
    """The filter, the key and the commands that the page shows."""
    text = page("dedup.md")
    told = json.loads(re.search(r"^    (\{\"bits\".*\})$", text, re.MULTILINE)[1])  # type: ignore[index]
    seen = BloomFilter(10, 0.01, layout="guava", bits=told["bits"], hashes=told["hashes"])
    seen.add("a")
    (tmp_path / "demo").write_bytes(b"".join(redis_commands(seen, "demo")))
    piped(server, tmp_path / "demo")
    asked = [int(offset) for offset in re.findall(r"GETBIT demo:0 (\d+)", text)]
    assert asked == positions(mmh3.hash_bytes("a", 0), "guava", told["bits"], told["hashes"])
    set_bits = getbits(server, [("demo:0", at) for at in range(told["bits"])])
    assert [at for at, is_set in enumerate(set_bits) if is_set] == sorted(set(asked))


def test_what_cannot_be_exported(run: Commands, tmp_path: Path) -> None:
    (tmp_path / "list").write_bytes(b"a\n")
    assert run("filter", "build", tmp_path / "seen", "--raw", "--from", tmp_path / "list").code == 0
    out = tmp_path / "out"
    run.refused("filter", "export", tmp_path / "seen", out, "--format", "redis", told=("layout paired", "--layout"))
    run.refused("filter", "export", tmp_path / "seen", out, "--format", "guava", "--key", "x", told=("--key",))
    run.refused("filter", "import", tmp_path / "seen", out, "--format", "redis", told=("redis",))
    assert not out.exists()
