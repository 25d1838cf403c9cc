"""Forges keys: another text with the digest that MurmurHash3 (x64, 128 bits) of a known seed gives a victim's key.

Every step of MurmurHash3 can be inverted: its mixing of a block is a product with an odd number, a rotation and another
product; its state takes a block by exclusive or, rotation, sum and a product with 5. So from a digest and a length
follows the state before the last block, for any last block.

Two blocks A and B of 16 bytes follow a prefix of whole blocks. Given A, one block B leads to the digest; it only has to
consist of characters that a URL may have. The second half of B depends on the second half of the state between, which
many A give at once; few are left of which the first half is looked at. With an alphabet of 88 letters, about
26 million A are tried in a second.
"""

from __future__ import annotations

import string

import mmh3
import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint64]

# What a query may contain as it is; "%" might be taken for an escape.
ALPHABET = "".join(sorted(set(string.printable[:94]) - set("\"#<>'%")))

_MASK = 2**64 - 1
_C1, _C2 = 0x87C37B91114253D5, 0x4CF5AD432745937F
_ADD1, _ADD2 = 0x52DCE729, 0x38495AB5
_MIX1, _MIX2 = 0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53
_ROUND = 2**19
_MOST_ROUNDS = 2_000


def _inverse(factor: int) -> int:
    return pow(factor, -1, 2**64)


def _left(word: int, by: int) -> int:
    return (word << by | word >> (64 - by)) & _MASK


def _right(word: int, by: int) -> int:
    return _left(word, 64 - by)


def _unfinished(word: int) -> int:
    """The inverse of MurmurHash3's last mixing of a half."""
    for factor in (_MIX2, _MIX1):
        word ^= word >> 33
        word = word * _inverse(factor) & _MASK
    return word ^ word >> 33


def state_before_the_end(digest: bytes, length: int) -> tuple[int, int]:
    """The state after the last whole block of a text of ``length`` bytes, a multiple of 16, with that digest."""
    h1, h2 = int.from_bytes(digest[:8], "little"), int.from_bytes(digest[8:], "little")
    h2 = h2 - h1 & _MASK
    h1 = h1 - h2 & _MASK
    h1, h2 = _unfinished(h1), _unfinished(h2)
    h2 = h2 - h1 & _MASK
    h1 = h1 - h2 & _MASK
    return h1 ^ length, h2 ^ length


def _first_mixed(word: int) -> int:
    return _left(word * _C1 & _MASK, 31) * _C2 & _MASK


def _second_mixed(word: int) -> int:
    return _left(word * _C2 & _MASK, 33) * _C1 & _MASK


def _first_taken(h1: int, h2: int, word: int) -> int:
    """The first half of the state after the first word of a block."""
    return ((_left(h1 ^ _first_mixed(word), 27) + h2) * 5 + _ADD1) & _MASK


def state_after(text: bytes, seed: int) -> tuple[int, int]:
    """The state after ``text``, a whole number of blocks."""
    h1 = h2 = seed
    for start in range(0, len(text), 16):
        k1, k2 = (int.from_bytes(text[at : at + 8], "little") for at in (start, start + 8))
        h1 = _first_taken(h1, h2, k1)
        h2 = ((_left(h2 ^ _second_mixed(k2), 31) + h1) * 5 + _ADD2) & _MASK
    return h1, h2


def _lefts(words: Words, by: int) -> Words:
    return words << np.uint64(by) | words >> np.uint64(64 - by)


def _texts(rng: np.random.Generator, letters: npt.NDArray[np.uint8], count: int) -> Words:
    return rng.choice(letters, (count, 8)).view("<u8").reshape(-1)


def _printable(words: Words, pairs: npt.NDArray[np.bool_]) -> npt.NDArray[np.intp]:
    """Which words consist of letters; ``pairs`` says it of two bytes."""
    left = np.flatnonzero(pairs[(words & np.uint64(0xFFFF)).astype(np.intp)])
    for part in (16, 32, 48):
        left = left[pairs[(words[left] >> np.uint64(part) & np.uint64(0xFFFF)).astype(np.intp)]]
    return left


def forge(victim: str | bytes, prefix: str = "http://forger.test/?", *, seed: int = 0, rng_seed: int = 0) -> str:
    """A text that begins with ``prefix`` and has the digest of ``victim``, and is made of letters of ``ALPHABET``."""
    key = victim.encode() if isinstance(victim, str) else victim
    begun = prefix.encode()
    begun += b"x" * (-len(begun) % 16)
    rng = np.random.default_rng(rng_seed)
    letters = np.frombuffer(ALPHABET.encode(), np.uint8)
    is_letter = np.zeros(256, np.bool_)
    is_letter[letters] = True
    pairs = np.asarray(np.logical_and.outer(is_letter, is_letter)).reshape(-1)
    h1, h2 = state_after(begun, seed)
    end1, end2 = state_before_the_end(mmh3.hash_bytes(key, seed), len(begun) + 32)
    # What the halves of B must be mixed to: see `_first_taken`, solved for the word.
    fifth = _inverse(5)
    wanted2 = np.uint64(_right(((end2 - _ADD2) * fifth - end1) & _MASK, 31))
    wanted1 = np.uint64((end1 - _ADD1) * fifth & _MASK)
    un1, un2 = np.uint64(_inverse(_C1)), np.uint64(_inverse(_C2))
    seconds = _texts(rng, letters, _ROUND)
    mixed = _lefts(seconds * np.uint64(_C2), 33) * np.uint64(_C1)
    taken = _lefts(np.uint64(h2) ^ mixed, 31)
    for _ in range(_MOST_ROUNDS):
        first = int(_texts(rng, letters, 1)[0])
        between1 = _first_taken(h1, h2, first)
        between2 = (taken + np.uint64(between1)) * np.uint64(5) + np.uint64(_ADD2)
        last2 = _lefts((between2 ^ wanted2) * un1, 31) * un2
        found = _printable(last2, pairs)
        needed = _lefts(wanted1 - between2[found], 37) ^ np.uint64(between1)
        last1 = _lefts(needed * un2, 33) * un1
        for at in _printable(last1, pairs).tolist():
            words = (first, int(seconds[found[at]]), int(last1[at]), int(last2[found[at]]))
            forged = begun + b"".join([word.to_bytes(8, "little") for word in words])
            if mmh3.hash_bytes(forged, seed) == mmh3.hash_bytes(key, seed):
                return forged.decode("ascii")
            raise AssertionError("the inversion is wrong")
    raise AssertionError(f"nothing found in {_MOST_ROUNDS} rounds")
