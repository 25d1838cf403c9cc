"""Which hashes spread keys well? Collisions of 32-bit hashes, compared with chance.

A hash of 32 bits that spreads keys like chance makes some collisions: of n keys about n**2 / 2**33, the birthday
paradox. For 1,000,000 keys that is 116, and 95 of 100 such hashes lie between 96 and 138. More says that a hash maps
keys of that kind together; fewer than chance, on regular keys, says that it keeps their regularity, which does no harm
to a set and none to a Bloom filter as long as the second hash value is not cut from it.

    python benchmarks/studies/hashes.py [--keys N]
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))

import numpy as np

from benchmarks.kit.machine import describe_machine
from benchmarks.studies.chance import expected_collisions, poisson_range
from benchmarks.studies.hash_functions import HASHES, Hash
from benchmarks.studies.sample_keys import account_names, random_digits, random_strings, short_integers
from benchmarks.studies.words import PACKAGES, count, show
from crawler.service.progress.text_table import text_table

RANDOM = 1_000_000
INTEGERS = 40_000
ACCOUNTS = 45_000

# Collisions of 1,000,000 random strings in the comparison that later ones were copied from. It does not say
# what they were made of; BP keeps no more than the last five characters, so 920,005 speaks for some ten different ones.
CLASSIC = {
    "mmh3": "129 (MurmurHash2)",
    "FNV-1a": "109 (FNV)",
    "DJB2": "97",
    "SDBM": "180",
    "BKDR": "258",
    "RS": "240",
    "AP": "245",
    "JS": "230",
    "ELF": "3,901",
    "PJW": "3,901",
    "BP": "920,005",
}


@dataclass(frozen=True, slots=True)
class KeySet:
    """Keys of one sort, and the collisions that chance gives them."""

    name: str
    keys: Sequence[bytes]

    @property
    def expected(self) -> float:
        return expected_collisions(len(self.keys))

    @property
    def usual(self) -> tuple[int, int]:
        """95% of hashes that are like chance make so many collisions."""
        return poisson_range(self.expected)


@dataclass(frozen=True, slots=True)
class HashResult:
    """``nanoseconds`` of CPU time a key of the first set; ``collisions`` in each set."""

    hash: Hash
    nanoseconds: float
    collisions: tuple[int, ...]


def key_sets(keys: int = RANDOM) -> list[KeySet]:
    """``keys`` random strings of letters and digits and of digits alone, and at most as many of the others."""
    return [
        KeySet("random", random_strings(keys)),
        KeySet("digits", random_digits(keys)),
        KeySet("integers", short_integers(min(INTEGERS, keys))),
        KeySet("accounts", account_names(min(ACCOUNTS, keys))),
    ]


def study_hashes(sets: Sequence[KeySet]) -> list[HashResult]:
    """Every hash on every set."""
    return [_result(each, sets) for each in HASHES]


def _result(each: Hash, sets: Sequence[KeySet]) -> HashResult:
    first, *others = sets
    began = time.process_time_ns()
    found = each.of(first.keys)
    spent = time.process_time_ns() - began
    collisions = [_collisions(found), *(_collisions(each.of(other.keys)) for other in others)]
    return HashResult(each, spent / len(first.keys), tuple(collisions))


def _collisions(hashes: np.ndarray[tuple[int], np.dtype[np.uint32]]) -> int:
    return len(hashes) - len(np.unique(hashes))


def hash_table(results: Sequence[HashResult], sets: Sequence[KeySet]) -> list[str]:
    """A row a hash, the rows of chance below; ``*`` marks more collisions than chance gives 97.5 of 100 times."""
    rows = [
        [
            result.hash.name,
            "arrays" if result.hash.arrays else "calls",
            f"{result.nanoseconds:,.0f}",
            *(
                f"{count:,}{'*' if count > each.usual[1] else ' '}"
                for count, each in zip(result.collisions, sets, strict=True)
            ),
            CLASSIC.get(result.hash.name, ""),
        ]
        for result in results
    ]
    rows.append(["expected", "", "", *(f"{each.expected:,.1f} " for each in sets), ""])
    rows.append(["95% range", "", "", *("{:,} to {:,} ".format(*each.usual) for each in sets), ""])
    heads = ["hash", "how", "ns/key", *(f"{each.name} {len(each.keys):,} " for each in sets), "classic study"]
    return text_table(heads, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--keys", type=count, default=RANDOM, metavar="N", help=f"random strings ({RANDOM:,})")
    chosen = parser.parse_args()
    show([*describe_machine(PACKAGES), ""])
    sets = key_sets(chosen.keys)
    show(hash_table(study_hashes(sets), sets))


if __name__ == "__main__":
    main()
