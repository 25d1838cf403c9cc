"""Filters that the memory of the machine cannot hold are refused, and nothing else changes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from crawler.seen.filters import NoMemoryError
from crawler.seen.slices.bit_storage import zeroed

ROOT = Path(__file__).resolve().parents[3]

# A limit on the process's memory, ``more`` bytes above what it uses now.
LIMITED = """
import resource, sys
from crawler.seen.filters import *

def limit(more):
    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + more if more else resource.RLIM_INFINITY, resource.RLIM_INFINITY))
"""

EVERY_KIND = """
limit(8_000_000)
for make in (
    lambda keys: BloomFilter(keys),
    lambda keys: BloomFilter(keys, layout="classic"),
    lambda keys: BloomFilter.with_geometry(keys * 14, 7),
    lambda keys: BloomFilter.with_bits_per_key(keys, 10),
    lambda keys: Bitmap(keys // 10),
    lambda keys: CountingFilter(capacity=keys),
    lambda keys: CuckooFilter(capacity=keys),
    lambda keys: DigestTable(capacity=keys),
    lambda keys: ScalableBloomFilter(capacity=keys),
):
    try:
        make(10**7)
    except NoMemoryError as error:
        print(error)
    assert len(make(1_000)) == 0
"""

GROWING = """
seen = ScalableBloomFilter(capacity=100_000, growth=64)
keys = [f"key {number}" for number in range(110_000)]
seen.add_many(keys[:99_000])
limit(8_000_000)
try:
    seen.add_many(keys[99_000:])
except NoMemoryError as error:
    problem = str(error)
limit(None)
print(problem)
assert all(seen.contains_many(keys[:99_000]))
seen.add_many(keys[99_000:])
assert all(seen.contains_many(keys))
"""


def run(program: str) -> list[str]:
    command = [sys.executable, "-c", LIMITED + program]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_what_is_free_is_looked_at_before_memory_is_taken() -> None:
    with pytest.raises(NoMemoryError, match="20,000,000"):
        zeroed(20_000_000, lambda: 10_000_000)
    assert not zeroed(20_000_000, lambda: 30_000_000).any()
    assert not zeroed(20_000_000, lambda: None).any(), "a machine that does not say may have enough"
    assert not zeroed(1_000, lambda: 0).any(), "any machine has as little as that"
    with pytest.raises(NoMemoryError):
        zeroed(2**61, lambda: None)


def test_a_filter_that_does_not_fit_is_refused_whatever_its_kind() -> None:
    lines = run(EVERY_KIND)
    assert len(lines) == 9


def test_a_chain_that_has_no_memory_to_grow_says_so_and_is_as_it_was() -> None:
    assert len(run(GROWING)) == 1
