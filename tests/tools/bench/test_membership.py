"""What the studies of seen-sets find at small size, and what they show of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.studies.bits_per_key import bits_table, study_bits
from benchmarks.studies.chance import poisson_range
from benchmarks.studies.membership import MembershipResult, study_membership
from benchmarks.studies.rivals import rivals
from benchmarks.studies.sample_keys import urls
from crawler.seen.filters import KINDS

KEYS = 3_000


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, MembershipResult]:
    directory = tmp_path_factory.mktemp("membership")
    return {result.name: result for result in study_membership(directory, KEYS)}


def test_present_and_absent_urls_never_meet() -> None:
    present, absent = set(urls(KEYS)), set(urls(KEYS, absent=True))
    assert len(present | absent) == 2 * KEYS


def test_more_bits_a_key_make_fewer_false_positives(tmp_path: Path) -> None:
    found = study_bits(tmp_path, keys=8_000, absent=50_000)
    assert [result.bits for result in found] == [10, 15, 20]
    assert [f"{result.expected:.2%}" for result in found[:2]] == ["0.82%", "0.07%"]
    assert found[2].expected == pytest.approx(0.000067, rel=0.02)
    for result in found:
        low, high = poisson_range(result.expected * result.absent)
        assert low - 0.3 * low <= result.false_positives <= high + 0.3 * high + 3
        assert result.false_negatives == 0
        assert result.file_bytes == pytest.approx(result.bits * 8_000 / 8, abs=300)
    lines = bits_table(found)
    assert len(lines) == 2 + 3
    assert lines[2].startswith("10")


def test_every_way_forgets_nothing_also_after_a_restart(results: dict[str, MembershipResult]) -> None:
    assert [*results] == [rival.name for rival in rivals()]
    assert {*KINDS} <= {*results}
    for result in results.values():
        assert result.false_negatives == 0, result.name
        assert result.kept > 0
        assert result.restart > 0


def test_exact_ways_err_never_and_one_hash_errs_most(results: dict[str, MembershipResult]) -> None:
    for name in ("sqlite", "rocksdb", "set of str", "set of md5", "set of sha1", "exact", "digest"):
        assert results[name].false_positives == results[name].skipped == 0, name
    # One bit a key in sixteen: 6% of absent keys fall on one.
    assert results["bitmap, 16 bits a key"].error_rate == pytest.approx(0.0606, abs=0.015)
    for name in ("scalable", "bloom", "counting", "cuckoo", "bitmap", "bloom, classic"):
        assert results[name].error_rate <= 0.004, name


def test_filters_take_a_fraction_of_the_space(results: dict[str, MembershipResult]) -> None:
    assert results["set of str"].kept > 100
    assert results["set of md5"].kept > 49
    assert results["bloom"].kept < 3
    # For the same errors, one hash needs a hundred times the bits of many.
    assert results["bitmap"].kept > 50 * results["bloom"].kept
