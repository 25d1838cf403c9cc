"""Digests, dates and ids as the fields of a record write them."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta
from functools import lru_cache

ID_BYTES = 16  # random bytes that an id is made of

_DIGITS = 32  # of a SHA-1 digest in base32, five bits each
# Base32 without a step for each digit, since base64.b32encode takes three times as long: the 160 bits are cut into
# halves, which are moved apart, then the halves of each, until each digit has a byte of its own. For each cut: how far
# the upper halves move, and the masks of the lower and of the upper halves.
_CUTS = [
    (3 * half, lower, lower << 5 * half)
    for half in (16, 8, 4, 2, 1)
    for lower in [sum((1 << 5 * half) - 1 << 16 * half * part for part in range(_DIGITS // (2 * half)))]
]
_ALPHABET = (b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567" * 8)[:256]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def sha1(data: bytes) -> bytes:
    """The digest that archives agree on, so that payloads of several can be compared. It guards against accidents:
    whoever makes two payloads with one digest has them taken for one."""
    return hashlib.sha1(data, usedforsecurity=False).digest()


def digest_label(digest: bytes) -> str:
    """A SHA-1 digest as a field has it."""
    bits = int.from_bytes(digest, "big")
    for shift, lower, upper in _CUTS:
        bits = bits & lower | (bits & upper) << shift
    return "sha1:" + bits.to_bytes(_DIGITS, "big").translate(_ALPHABET).decode("ascii")


def milliseconds(seconds: float) -> int:
    """A time as dates are written: to the millisecond, so that what is read is what was written."""
    return int(seconds * 1000)


def date_label(at: int) -> str:
    """A time in milliseconds since the epoch as a field has it."""
    return f"{_second_label(at // 1000)}.{at % 1000:03}Z"


@lru_cache(maxsize=4)
def _second_label(seconds: int) -> str:
    return (_EPOCH + timedelta(seconds=seconds)).isoformat(timespec="seconds").removesuffix("+00:00")


def record_id(random: bytes) -> str:
    """The id of a record, made of ``ID_BYTES`` random bytes: a UUID of version 4."""
    digits = random.hex()
    variant = _VARIANTS[random[8] >> 4]
    return f"<urn:uuid:{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}>"


_VARIANTS = 4 * "89ab"  # the digit that says what kind of UUID it is, and has two random bits
