"""From a key to its row in the store.

    row  =  host hash (8 bytes)  digest (16 bytes)

    host hash   BLAKE2b, 64 bits, of the host key of the key
    digest      BLAKE2b, 128 bits, of the key's UTF-8

The host stands in front for two reasons. All rows of a host lie side by side, so that the links of a page, most of
which stay on its host, are looked up in a few neighbouring blocks; and a filter over the first eight bytes knows that
a host was never met. The host is read off the key, not off the address that is fetched: where a rule maps two
addresses to one key, they must meet in one row. Of a key that is no URL the same is done, with whatever stands where
a host would.

Two keys share a row only if both hashes agree. For n keys that happens by chance with probability below n**2 / 2**129,
at 10**9 keys 1.5 * 10**-21; and nobody who writes links can make it happen, since BLAKE2b is collision-resistant
(RFC 7693; 128 bits: 2**64 attempts). MurmurHash3, which the other kinds of seen-set use, can be inverted: for a given
URL another one with the same digest is computed in no time, and whoever gets the other one crawled first would hide the
given one.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

from crawler.slices.digests import join_keys
from crawler.urls import host_key

HOST_BYTES = 8
DIGEST_BYTES = 16
ROW_BYTES = HOST_BYTES + DIGEST_BYTES


def digest_exactly(keys: Sequence[str]) -> bytes:
    """The digests of ``keys``, 16 bytes each, in their order, concatenated. Lone surrogates count as code points.
    Raises ``TypeError`` for what is no sequence of ``str``, and for a ``str``."""
    join_keys(keys)
    return b"".join([blake2b(key.encode("utf-8", "surrogatepass"), digest_size=DIGEST_BYTES).digest() for key in keys])


def rows_of(keys: Sequence[str], digests: bytes) -> list[bytes]:
    """The row of each key, 24 bytes; ``digests`` are theirs."""
    hosts: dict[str, bytes] = {}
    rows = []
    for position, key in enumerate(keys):
        name = host_key(key)
        host = hosts.get(name)
        if host is None:
            host = blake2b(name.encode("utf-8", "surrogatepass"), digest_size=HOST_BYTES).digest()
            hosts[name] = host
        rows.append(host + digests[position * DIGEST_BYTES : position * DIGEST_BYTES + DIGEST_BYTES])
    return rows
