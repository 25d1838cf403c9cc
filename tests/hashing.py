"""One hash for tests: with the same secret every time, so that what depends on chance repeats."""

from __future__ import annotations

import numpy as np

from crawler.seen.filters import DIGEST_BYTES
from crawler.seen.slices.key_hash import Blake2b

HASH = Blake2b(b"the tests' secret")
digest_keys, digest_key = HASH.digest_keys, HASH.digest_one


def random_digests(seed: int, count: int) -> bytes:
    """Digests of so many keys, each another, where the keys say nothing: made in a hundredth of the time."""
    return np.random.default_rng(seed).bytes(DIGEST_BYTES * count)
