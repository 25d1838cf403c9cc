"""The source of secrets for hashes and of seeds for samples: the operating system.

This is the only source of randomness, so that a test can replace it. Call it through its module:
``entropy.random_bytes(16)``.
"""

from __future__ import annotations

import secrets


def random_bytes(size: int) -> bytes:
    """Return ``size`` unpredictable bytes."""
    return secrets.token_bytes(size)
