"""The page about the stored form, held to the code."""

from __future__ import annotations

import re
from hashlib import blake2b

from crawler.base.settings.parts import SeenSettings
from crawler.seen.filters import ScalableBloomFilter
from crawler.seen.shared import shard_scripts as scripts
from crawler.seen.shared.open_set import Producer, new_head
from crawler.seen.shared.shard_geometry import BLOCK, SetParameters, divide, geometry_of, shards_for, unpack_all
from tests.documents import page
from tests.seen.shared.kits import HASH, SECRET
from tests.seen.shared.shard import places

FORMAT = page("format-shared.md")


def field(name: str) -> bytes:
    found = re.search(
        rf"^    {name} +((?:[0-9a-f]{{2}} ?)+)$((?:\n {{10,}}(?:[0-9a-f]{{2}} ?)+$)*)", FORMAT, re.MULTILINE
    )
    assert found is not None
    return bytes.fromhex(found[1] + found[2])


def test_the_example() -> None:
    assert SECRET in FORMAT
    usual = SeenSettings()
    made = SetParameters(usual.fpp, usual.capacity, 2.0, 0.85, shards_for(usual.capacity))
    assert made.shards == 64
    digest = HASH.digest_keys([b"a"])
    assert field("digest") == digest
    (part,) = divide(digest, made.shards)
    fraction = int.from_bytes(part.records[:4], "little")
    assert f"a         0x{fraction:08x}, shard {part.shard}\n" in FORMAT
    (geometry,) = unpack_all(field("slice 1"))
    assert geometry == geometry_of(made, 0, part.shard)
    start, bits = places(geometry, part.records)
    assert f"block     {start // BLOCK} of {geometry.blocks}: bytes {start} to {start + 63} of the string" in FORMAT
    (first, mask), (second, other) = bits[:2]
    told = (
        f"byte {first}, bit {mask.bit_length() - 1} by its first hash, and byte {second}, bit {other.bit_length() - 1}"
    )
    assert told in FORMAT
    local = ScalableBloomFilter(layout="blocked").statistics()["slices"][0]
    assert geometry.whole * BLOCK * 8 == local["bits"]


def test_the_check_of_a_head() -> None:
    head = new_head(Producer(HASH), SetParameters(0.001, 1000, 2.0, 0.85, 16), {"from": "lines"}, stage="filling")
    text = head.text().replace(b"filling", b"begun").replace(head.check.encode(), b"")
    key = bytes.fromhex(SECRET)
    assert blake2b(text, key=key, digest_size=16, person=b"shared seen-set").hexdigest() == head.check


def test_the_rights_that_a_user_needs() -> None:
    """Every command of the scripts, and of the program, is named."""
    used = {name.lower() for script in scripts.HASHES for name in re.findall(r"call\('([A-Z]+)'", script)}
    named = set(re.findall(r"\+([a-z|]+)", FORMAT))
    assert used <= named
    assert {"get", "set", "getrange", "setrange", "hset", "eval", "evalsha"} <= named
