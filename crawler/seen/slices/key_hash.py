"""The hash of a seen-set, which makes the digest of a key, and its secret.

A key is hashed once for all filters. Filters see only its *digest* of 16 bytes, and every position in every slice is
derived from the digest. The journal stores the same 16 bytes, so a filter can be rebuilt without the keys.

    blake2b   BLAKE2b (RFC 7693) with a secret key of 16 bytes, 128 bits of output. Without the secret, an attacker
              can make neither a key with the digest of another one, nor keys that collide in the same places.
    mmh3      MurmurHash3 x64 128 with a seed of 32 bits. Several times faster, but insecure: it can be inverted,
              and pairs of keys that collide for every seed are known. For keys from trusted sources.

Two different keys share a digest by chance with probability 2**-128 per pair: for 10**9 keys about 1.5 * 10**-21 in
total, far below the fpp of any filter.

Filters can use each other's digests only if they have the same hash with the same secret. So every filter is stored
with its hash, and filters that will be united are created with one hash.

The compiled code hashes a batch in one call (``compiled``).
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from itertools import repeat
from typing import TypedDict

import mmh3

from crawler.base import entropy
from crawler.seen.slices import compiled
from crawler.seen.slices.digests import DIGEST_BYTES, Key, encode_key, list_keys
from crawler.seen.slices.errors import JSON, FilterError
from crawler.seen.slices.sampling import Sampling

BLAKE2B, MMH3 = "blake2b", "mmh3"
ALGORITHMS = (BLAKE2B, MMH3)

_KEY_BYTES = 16
_MOST_KEY_BYTES = 64  # the limit of BLAKE2b
_SEED_BYTES = 4
_halves_of = struct.Struct("<QQ").unpack


class HashDescription(TypedDict):
    """The public description of a hash: everything but its secret."""

    algorithm: str
    keyed: bool  # True if it has a secret
    forgeable: bool  # True if an attacker can make a key with the digest of another one


class KeyHash(ABC):
    """A hash with its secret. Immutable; equal hashes give equal digests."""

    __slots__ = ("_hasher", "secret")

    algorithm: str

    def __init__(self, secret: bytes) -> None:
        self.secret = secret
        self._hasher = compiled.key_hasher(self.algorithm, secret)

    @staticmethod
    def new(algorithm: str = BLAKE2B) -> KeyHash:
        """Return a hash with a random secret. Raises ``FilterError`` for an unknown algorithm."""
        return _made(algorithm, entropy.random_bytes(_SEED_BYTES if algorithm == MMH3 else _KEY_BYTES))

    @staticmethod
    def from_json(stored: object) -> KeyHash:
        """Load a hash from the output of ``as_json``. Raises ``FilterError``."""
        if not isinstance(stored, Mapping):
            raise FilterError(f"the stored hash is of type {type(stored).__name__}, not an object")
        secret = stored.get("secret")
        try:
            return _made(stored.get("algorithm"), bytes.fromhex(secret))  # type: ignore[arg-type]
        except (TypeError, ValueError) as problem:
            if isinstance(problem, FilterError):
                raise
            raise FilterError("the secret of the stored hash is not hexadecimal") from None

    def as_json(self) -> dict[str, JSON]:
        """Return the stored form. It contains the secret; use ``describe`` for display."""
        return {"algorithm": self.algorithm, "secret": self.secret.hex()}

    # -- digests

    def digest_one(self, key: Key) -> tuple[int, int]:
        """Return the two little-endian 64-bit halves of the digest of one key. Raises ``TypeError`` unless the key is a
        ``str`` or ``bytes``."""
        halves: tuple[int, int] = _halves_of(self.digest_keys((key,)))
        return halves

    def digest_keys(self, keys: Iterable[Key]) -> bytes:
        """Return the concatenated digests of ``keys``, 16 bytes each, in order.

        Raises ``TypeError`` unless ``keys`` is an iterable of ``str`` and ``bytes``."""
        keys = list_keys(keys)
        if self._hasher is not None:
            return self._hasher.digest_keys(keys)
        return self._digests_of(map(encode_key, keys))

    @abstractmethod
    def _digests_of(self, texts: Iterable[bytes]) -> bytes:
        """Return the digests of ``texts`` without the compiled code."""

    # -- public properties

    @property
    def keyed(self) -> bool:
        """True if the hash has a secret."""
        return any(self.secret)

    @property
    @abstractmethod
    def forgeable(self) -> bool:
        """True if an attacker can make a key with the digest of another one."""

    def multiplier(self) -> int:
        """Return the multiplier that a slice applies to digests to compute their places: a secret odd number, which
        spreads digests that an attacker chose, or 1 if digests cannot be chosen."""
        if not self.forgeable:
            return 1
        found = blake2b(b"places", key=self.secret, digest_size=8).digest() if self.keyed else entropy.random_bytes(8)
        return int.from_bytes(found, "little") | 1

    def sampling(self) -> Sampling:
        """Return the page sampling for the statistics of a filter with this hash. Outsiders cannot predict the
        pages."""
        return Sampling(blake2b(b"sampling", key=self.secret, digest_size=16).digest() if self.keyed else None)

    def describe(self) -> HashDescription:
        """Return the public description of the hash: everything but its secret."""
        return {"algorithm": self.algorithm, "keyed": self.keyed, "forgeable": self.forgeable}

    def __str__(self) -> str:
        return self.algorithm

    def __repr__(self) -> str:
        return f"<{type(self).__name__} keyed={self.keyed}>"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, KeyHash):
            return NotImplemented
        return self.algorithm == other.algorithm and self.secret == other.secret

    def __hash__(self) -> int:
        return hash((self.algorithm, self.secret))


class Blake2b(KeyHash):
    """Keyed BLAKE2b; with an empty secret, BLAKE2b without a key."""

    __slots__ = ()

    algorithm = BLAKE2B

    def __init__(self, secret: bytes) -> None:
        """Raises ``FilterError`` if the secret is too long."""
        if len(secret) > _MOST_KEY_BYTES:
            raise FilterError(f"the secret of {BLAKE2B} may have at most {_MOST_KEY_BYTES} bytes, not {len(secret)}")
        super().__init__(secret)

    @property
    def forgeable(self) -> bool:
        return False

    def _digests_of(self, texts: Iterable[bytes]) -> bytes:
        return b"".join([blake2b(text, key=self.secret, digest_size=DIGEST_BYTES).digest() for text in texts])


class Murmur3(KeyHash):
    """MurmurHash3 x64 128; the secret is its seed, little-endian."""

    __slots__ = ("_seed",)

    algorithm = MMH3

    def __init__(self, secret: bytes) -> None:
        """Raises ``FilterError`` unless the secret has four bytes."""
        if len(secret) != _SEED_BYTES:
            raise FilterError(f"the seed of {MMH3} must have {_SEED_BYTES} bytes, not {len(secret)}")
        super().__init__(secret)
        self._seed = int.from_bytes(secret, "little")

    @property
    def forgeable(self) -> bool:
        return True

    def _digests_of(self, texts: Iterable[bytes]) -> bytes:
        return b"".join(map(mmh3.hash_bytes, texts, repeat(self._seed)))


def _made(algorithm: object, secret: bytes) -> KeyHash:
    if algorithm == BLAKE2B:
        return Blake2b(secret)
    if algorithm == MMH3:
        return Murmur3(secret)
    raise FilterError(f"unknown hash {algorithm!r}: use one of {', '.join(ALGORITHMS)}")


SEED_ZERO = Murmur3(bytes(_SEED_BYTES))  # the hash of Guava's filters, and of filters from earlier versions
