"""Deterministic jitter: derived from a name instead of drawn at random, so that a run can be repeated."""

from __future__ import annotations

from hashlib import blake2b


def jitter(name: str, number: int) -> float:
    """Return a number in [0, 1) that looks random and is always the same for a name and a number."""
    digest = blake2b(f"{number} {name}".encode(), digest_size=8).digest()
    return (int.from_bytes(digest, "big") >> 11) / 2**53
