"""Digests, dates and ids as the fields of a record write them."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta
from functools import lru_cache

ID_BYTES = 16  # random bytes that an id is made of

# Base32, two characters at a time: base64.b32encode takes twice as long, and a page has three digests.
_ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
_PAIRS = [one + other for one in _ALPHABET for other in _ALPHABET]
_SHIFTS = range(150, -1, -10)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def sha1(data: bytes) -> bytes:
    """The digest that archives agree on, so that payloads of several can be compared. It guards against accidents:
    whoever makes two payloads with one digest has them taken for one."""
    return hashlib.sha1(data, usedforsecurity=False).digest()


def digest_label(digest: bytes) -> str:
    """A SHA-1 digest as a field has it."""
    number = int.from_bytes(digest, "big")
    return "sha1:" + "".join([_PAIRS[number >> shift & 1023] for shift in _SHIFTS])


def milliseconds(seconds: float) -> int:
    """A time as dates are written: to the millisecond, so that what is read is what was written."""
    return int(seconds * 1000)


def date_label(at: int) -> str:
    """A time in milliseconds since the epoch as a field has it."""
    seconds, left = divmod(at, 1000)
    return f"{_second_label(seconds)}.{left:03}Z"


@lru_cache(maxsize=4)
def _second_label(seconds: int) -> str:
    return (_EPOCH + timedelta(seconds=seconds)).isoformat(timespec="seconds").removesuffix("+00:00")


def record_id(random: bytes) -> str:
    """The id of a record, made of ``ID_BYTES`` random bytes: a UUID of version 4."""
    digits = random.hex()
    variant = _VARIANTS[random[8] >> 4]
    return f"<urn:uuid:{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}>"


_VARIANTS = 4 * "89ab"  # the digit that says what kind of UUID it is, and has two random bits
