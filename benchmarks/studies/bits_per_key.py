"""How many bits per key does a Bloom filter need? Space against false positives, measured on real filters.

With m/n bits a key and the best number of hashes, k = m/n ln 2, an absent key is called present with probability
(1 - exp(-kn/m))**k, about 0.6185**(m/n): every five bits more a key make it eleven times rarer.

    python benchmarks/studies/bits_per_key.py [--keys N] [--absent N]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))

from benchmarks.kit.machine import describe_machine
from benchmarks.studies.chance import poisson_range, rate_range
from benchmarks.studies.sample_keys import urls
from benchmarks.studies.words import PACKAGES, count, show
from crawler.seen.filters import BloomFilter, write_segment
from crawler.seen.slices.classic_slice import classic_fpp
from crawler.service.progress.text_table import text_table

KEYS = 80_000
ABSENT = 100_000
BITS = (10, 15, 20)


@dataclass(frozen=True, slots=True)
class BitsResult:
    """A filter of ``bits`` bits a key as a file, asked for ``absent`` keys that are not in."""

    bits: int
    hashes: int
    file_bytes: int
    raw_bytes: int  # the keys as lines of text
    expected: float  # false-positive probability
    false_positives: int
    false_negatives: int
    absent: int


def study_bits(directory: Path, keys: int = KEYS, absent: int = ABSENT) -> list[BitsResult]:
    """Build each filter, store it in ``directory``, and ask it. Raises OSError when the files cannot be written."""
    present, others = urls(keys), urls(absent, absent=True)
    raw = sum(len(url) + 1 for url in present)
    results = []
    for bits in BITS:
        seen = BloomFilter.with_bits_per_key(keys, bits)
        seen.add_many(present)
        path = directory / f"bits-{bits}"
        with path.open("wb") as out:
            # The filter alone, as a checkpoint stores it: without the keys that the seen-set watches.
            for segment in seen.snapshot().segments:
                if segment.name.startswith("slice"):
                    write_segment(out, segment.header, segment.buffer)
        part = seen.statistics()["slices"][0]
        results.append(
            BitsResult(
                bits=bits,
                hashes=part["hashes"],
                file_bytes=path.stat().st_size,
                raw_bytes=raw,
                expected=classic_fpp(keys, part["bits"], part["hashes"]),
                false_positives=sum(seen.contains_many(others)),
                false_negatives=keys - sum(seen.contains_many(present)),
                absent=absent,
            )
        )
    return results


def bits_table(results: Sequence[BitsResult]) -> list[str]:
    """A row a filter; the range is where 95% of such counts of false positives lie."""
    rows = []
    for result in results:
        low, high = rate_range(result.false_positives, result.absent)
        rows.append(
            [
                str(result.bits),
                str(result.hashes),
                f"{result.file_bytes:,}",
                f"{result.file_bytes / result.raw_bytes:.2%}",
                f"{result.expected:.4%}",
                f"{result.false_positives / result.absent:.4%}",
                f"{low:.4%} to {high:.4%}",
                f"{result.false_positives:,}",
                "{:,} to {:,}".format(*poisson_range(result.expected * result.absent)),
                f"{result.false_negatives:,}",
            ]
        )
    heads = ["bits/key", "hashes", "file bytes", "of raw", "expected", "measured", "95% interval", "false positives"]
    return text_table([*heads, "95% range", "false negatives"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--keys", type=count, default=KEYS, metavar="N", help=f"keys in the filter ({KEYS:,})")
    parser.add_argument(
        "--absent", type=count, default=ABSENT, metavar="N", help=f"keys asked that are not in ({ABSENT:,})"
    )
    chosen = parser.parse_args()
    show([*describe_machine(PACKAGES), f"keys      {chosen.keys:,} in, {chosen.absent:,} absent", ""])
    with tempfile.TemporaryDirectory() as directory:
        show(bits_table(study_bits(Path(directory), chosen.keys, chosen.absent)))


if __name__ == "__main__":
    main()
