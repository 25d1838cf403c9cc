"""Rows: the layout by its own example, and what two addresses of one key share."""

from __future__ import annotations

from hashlib import blake2b

from crawler.seen.exact.rows import rows_of
from crawler.seen.slices.key_hash import Blake2b
from tests.documents import page

HASH = Blake2b(b"")  # without a key, as in the example of the page


def rows(*keys: str) -> list[bytes]:
    return rows_of(keys, HASH.digest_keys(keys))


def test_a_row_is_the_hash_of_its_host_and_the_digest_of_its_key() -> None:
    (row,) = rows("https://www.example.org/a")
    assert row.hex(" ", 8) == "28fef46d3b10c00d e65542b2f3fc5510 4fc0a698ff129179"
    assert row.hex() in "".join(page("exact.md").split())
    assert row[:8] == blake2b(b"www.example.org:443", digest_size=8).digest()
    assert row[8:] == blake2b(b"https://www.example.org/a", digest_size=16).digest()


def test_keys_of_one_host_and_port_share_the_first_eight_bytes() -> None:
    same = rows("http://h.test/", "http://h.test/a?b", "http://h.test:80/c", "http://user@h.test/")
    assert len({row[:8] for row in same}) == 1
    assert len(set(same)) == 4
    others = rows("https://h.test/", "http://h.test:8080/", "http://i.test/", "http://[::1]/")
    assert len({row[:8] for row in [*same, *others]}) == 5
