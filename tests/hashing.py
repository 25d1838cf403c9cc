"""One hash for tests: with the same secret every time, so that what depends on chance repeats."""

from __future__ import annotations

from crawler.slices.key_hash import Blake2b

HASH = Blake2b(b"the tests' secret")
digest_keys, digest_lines, digest_key = HASH.digest_keys, HASH.digest_lines, HASH.digest_one
