"""Digests, dates and ids in the notation of record fields."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta
from functools import lru_cache

ID_BYTES = 16  # random bytes per id

_DIGITS = 32  # digits of a SHA-1 digest in base32, five bits each
# Base32 is encoded without a step per digit, because base64.b32encode takes three times as long: the 160 bits are split
# into halves, which are moved apart; each half is then split in the same way, until each digit has its own byte. The
# list has, for each split, the shift of the upper halves, and the masks of the lower and the upper halves.
_CUTS = [
    (3 * half, lower, lower << 5 * half)
    for half in (16, 8, 4, 2, 1)
    for lower in [sum((1 << 5 * half) - 1 << 16 * half * part for part in range(_DIGITS // (2 * half)))]
]
_ALPHABET = (b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567" * 8)[:256]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def sha1(data: bytes) -> bytes:
    """Return the SHA-1 digest. All archives use SHA-1, so their payloads can be compared. The digest only guards
    against accidental damage: an attacker can make two payloads with the same digest."""
    return hashlib.sha1(data, usedforsecurity=False).digest()


def digest_label(digest: bytes) -> str:
    """Return a SHA-1 digest in the notation of record fields."""
    bits = int.from_bytes(digest, "big")
    for shift, lower, upper in _CUTS:
        bits = bits & lower | (bits & upper) << shift
    return "sha1:" + bits.to_bytes(_DIGITS, "big").translate(_ALPHABET).decode("ascii")


def milliseconds(seconds: float) -> int:
    """Return a time in whole milliseconds, the precision of stored dates."""
    return int(seconds * 1000)


def date_label(at: int) -> str:
    """Return a time, in milliseconds since the epoch, in the notation of record fields."""
    return f"{_second_label(at // 1000)}.{at % 1000:03}Z"


@lru_cache(maxsize=4)
def _second_label(seconds: int) -> str:
    return (_EPOCH + timedelta(seconds=seconds)).isoformat(timespec="seconds").removesuffix("+00:00")


def record_id(random: bytes) -> str:
    """Return a record id, a version 4 UUID, made from ``ID_BYTES`` random bytes."""
    digits = random.hex()
    variant = _VARIANTS[random[8] >> 4]
    return f"<urn:uuid:{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}>"


_VARIANTS = 4 * "89ab"  # values of the digit that holds the UUID's variant and two random bits
