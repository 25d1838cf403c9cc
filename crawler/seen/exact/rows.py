"""The row of a key in the store.

    row  =  host hash (8 bytes)  digest (16 bytes)

    host hash   64-bit BLAKE2b of the key's host key
    digest      the key's digest by the hash of the seen-set: keyed BLAKE2b, 128 bits

The host comes first because the rows of a host are then adjacent: the links of a page, most of which stay on its host,
are looked up in a few neighbouring blocks. The host is taken from the key, not from the fetched address: if a rule maps
two addresses to one key, they must share a row. For a key that is not a URL, the part of the text at the same place is
used.

Two keys share a row only if both hashes agree. For n keys that happens by chance with probability below n**2 / 2**129,
which is 1.5 * 10**-21 for 10**9 keys. An author of links cannot force it, because the digest has a secret. The host
hash needs none: if two hosts share one, their rows are merely adjacent.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

from crawler.frontier.entry import queue_of
from crawler.seen.slices.digests import Key

HOST_BYTES = 8
DIGEST_BYTES = 16
ROW_BYTES = HOST_BYTES + DIGEST_BYTES


def rows_of(keys: Iterable[Key], digests: bytes) -> list[bytes]:
    """Return the 24-byte row of each key. ``digests`` are the concatenated digests of ``keys``."""
    hosts: dict[str, bytes] = {}
    rows = []
    for position, key in enumerate(keys):
        name = queue_of(key if isinstance(key, str) else _as_text(key))
        host = hosts.get(name)
        if host is None:
            host = blake2b(name.encode("utf-8", "surrogatepass"), digest_size=HOST_BYTES).digest()
            hosts[name] = host
        rows.append(host + digests[position * DIGEST_BYTES : position * DIGEST_BYTES + DIGEST_BYTES])
    return rows


def _as_text(key: bytes) -> str:
    """Decode a key from UTF-8, or from Latin-1 if it is not UTF-8, so that the result is always the same."""
    try:
        return key.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return key.decode("latin-1")
