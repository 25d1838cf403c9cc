"""Where the secrets of hashes and the seeds of samples come from: the operating system.

It is the one place that asks for chance, so that a test can say what chance is. Call it through its module:
``entropy.random_bytes(16)``.
"""

from __future__ import annotations

import secrets


def random_bytes(size: int) -> bytes:
    """So many bytes that nobody can foretell."""
    return secrets.token_bytes(size)
