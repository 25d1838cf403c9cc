"""Jitter without chance: what would be drawn at random follows from a name, so that a run can be repeated."""

from __future__ import annotations

from hashlib import blake2b


def jitter(name: str, number: int) -> float:
    """A number in [0, 1) that looks random and is always the same for the same name and number."""
    digest = blake2b(f"{number} {name}".encode(), digest_size=8).digest()
    return (int.from_bytes(digest, "big") >> 11) / 2**53
