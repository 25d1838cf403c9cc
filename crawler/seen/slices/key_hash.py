"""From a key to its digest: the hash of a seen-set, and the secret in it.

A key is hashed once for all filters: the *digest* of 16 bytes is all that a filter sees of it, and every position in
every slice is derived from it. A journal stores the same 16 bytes, so a filter can be rebuilt without the keys.

    blake2b   BLAKE2b (RFC 7693) with a secret key of 16 bytes, 128 bits of output. Whoever does not know the secret
              can neither make a key with the digest of another, nor keys that meet in the same places.
    mmh3      MurmurHash3 x64 128 with a seed of 32 bits. Several times faster, and no protection: it can be inverted,
              and pairs of keys that collide for every seed can be written down. For keys that nobody hostile wrote.

Two different keys share a digest by chance with probability 2**-128 a pair: for 10**9 keys about 1.5 * 10**-21 in all,
far below anything a filter does.

Filters understand each other's digests only if they have the same hash with the same secret. So the hash is stored with
every filter, and filters that will be united are made with one hash.

Cost. The compiled part hashes a batch in one call (``compiled``). Without it, a BLAKE2b state that has taken the key is
copied for each key, which is cheaper than setting up another.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
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
_MOST_KEY_BYTES = 64  # that BLAKE2b takes
_SEED_BYTES = 4
_halves_of = struct.Struct("<QQ").unpack


class HashDescription(TypedDict):
    """What may be told of a hash: everything but its secret."""

    algorithm: str
    keyed: bool  # there is a secret that nobody else knows
    forgeable: bool  # a key with the digest of another one can be made


class KeyHash(ABC):
    """A hash with its secret. Immutable; equal ones give the same digests."""

    __slots__ = ("_hasher", "secret")

    algorithm: str

    def __init__(self, secret: bytes) -> None:
        self.secret = secret
        self._hasher = compiled.key_hasher(self.algorithm, secret)

    @staticmethod
    def new(algorithm: str = BLAKE2B) -> KeyHash:
        """A hash with a random secret. Raises ``FilterError`` for an unknown algorithm."""
        return _made(algorithm, entropy.random_bytes(_SEED_BYTES if algorithm == MMH3 else _KEY_BYTES))

    @staticmethod
    def from_json(stored: object) -> KeyHash:
        """The inverse of ``as_json``. Raises ``FilterError``."""
        if not isinstance(stored, Mapping):
            raise FilterError(f"the stored hash is {type(stored).__name__}, not an object")
        secret = stored.get("secret")
        try:
            return _made(stored.get("algorithm"), bytes.fromhex(secret))  # type: ignore[arg-type]
        except (TypeError, ValueError) as problem:
            if isinstance(problem, FilterError):
                raise
            raise FilterError("the secret of the stored hash is not hexadecimal") from None

    def as_json(self) -> dict[str, JSON]:
        """What is stored. It contains the secret: show ``describe`` to people."""
        return {"algorithm": self.algorithm, "secret": self.secret.hex()}

    # -- digests

    def digest_one(self, key: Key) -> tuple[int, int]:
        """The two little-endian 64-bit halves of the digest of one key. Raises ``TypeError`` for anything but ``str``
        and ``bytes``."""
        halves: tuple[int, int] = _halves_of(self.digest_keys((key,)))
        return halves

    def digest_lines(self, lines: Iterable[bytes]) -> bytes:
        """The digests of keys that are all ``bytes``, such as the raw lines of a file; 16 bytes each, in order,
        concatenated."""
        return self._digests_of(lines) if self._hasher is None else self._hasher.digest_keys(list_keys(lines))

    def digest_keys(self, keys: Iterable[Key]) -> bytes:
        """The digests of ``keys``, 16 bytes each, in order, concatenated.

        Raises ``TypeError`` for anything but an iterable of ``str`` and ``bytes``."""
        keys = list_keys(keys)
        if self._hasher is not None:
            return self._hasher.digest_keys(keys)
        return self._digests_of(self._texts(keys))

    def _texts(self, keys: Sequence[Key]) -> Iterable[bytes]:
        try:
            return [key.encode() for key in keys]  # type: ignore[union-attr]
        except (AttributeError, UnicodeEncodeError):
            return [encode_key(key) for key in keys]

    @abstractmethod
    def _digests_of(self, texts: Iterable[bytes]) -> bytes:
        """The digests of ``texts``, without the compiled part."""

    # -- what may be known of it

    @property
    def keyed(self) -> bool:
        """Whether there is a secret that nobody else knows."""
        return any(self.secret)

    @property
    @abstractmethod
    def forgeable(self) -> bool:
        """Whether a key with the digest of another one can be made."""

    def multiplier(self) -> int:
        """What a slice multiplies digests with before it looks for their places: an odd number that spreads them if
        somebody chose them, and 1 where nobody can."""
        if not self.forgeable:
            return 1
        found = blake2b(b"places", key=self.secret, digest_size=8).digest() if self.keyed else entropy.random_bytes(8)
        return int.from_bytes(found, "little") | 1

    def sampling(self) -> Sampling:
        """Which part of a filter with this hash is read for its figures: nobody else can foretell it."""
        return Sampling(blake2b(b"sampling", key=self.secret, digest_size=16).digest() if self.keyed else None)

    def describe(self) -> HashDescription:
        """All but the secret."""
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

    __slots__ = ("_begun",)

    algorithm = BLAKE2B

    def __init__(self, secret: bytes) -> None:
        """Raises ``FilterError`` when the secret is too long."""
        if len(secret) > _MOST_KEY_BYTES:
            raise FilterError(f"the secret of {BLAKE2B} has at most {_MOST_KEY_BYTES} bytes, not {len(secret)}")
        super().__init__(secret)
        self._begun = blake2b(key=secret, digest_size=DIGEST_BYTES).copy

    @property
    def forgeable(self) -> bool:
        return False

    def _digests_of(self, texts: Iterable[bytes]) -> bytes:
        digests: list[bytes] = []
        begun, add = self._begun, digests.append
        for text in texts:
            state = begun()
            state.update(text)
            add(state.digest())
        return b"".join(digests)


class Murmur3(KeyHash):
    """MurmurHash3 x64 128; the secret is its seed, little-endian."""

    __slots__ = ("_seed",)

    algorithm = MMH3

    def __init__(self, secret: bytes) -> None:
        """Raises ``FilterError`` unless the secret has four bytes."""
        if len(secret) != _SEED_BYTES:
            raise FilterError(f"the seed of {MMH3} has {_SEED_BYTES} bytes, not {len(secret)}")
        super().__init__(secret)
        self._seed = int.from_bytes(secret, "little")

    @property
    def forgeable(self) -> bool:
        return True

    def _texts(self, keys: Sequence[Key]) -> Iterable[bytes]:
        try:
            # Looking at the join once is cheaper than encoding every key, and ASCII text cannot hold a surrogate: mmh3
            # 5.3.1 crashes on lone ones.
            if "".join(keys).isascii():  # type: ignore[arg-type]
                return keys  # type: ignore[return-value]
        except TypeError:
            pass  # there are bytes among them
        return [encode_key(key) for key in keys]

    def _digests_of(self, texts: Iterable[bytes]) -> bytes:
        return b"".join(map(mmh3.hash_bytes, texts, repeat(self._seed)))


def _made(algorithm: object, secret: bytes) -> KeyHash:
    if algorithm == BLAKE2B:
        return Blake2b(secret)
    if algorithm == MMH3:
        return Murmur3(secret)
    raise FilterError(f"unknown hash {algorithm!r}: the known ones are {', '.join(ALGORITHMS)}")


SEED_ZERO = Murmur3(bytes(_SEED_BYTES))  # of Guava's filters, and of all that earlier versions of the program made
