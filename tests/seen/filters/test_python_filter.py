"""Filters as a Python program uses them: operators, copies, files, sizes of any integer type."""

from __future__ import annotations

import copy
import io
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawler.seen.filters import (
    Bitmap,
    BloomFilter,
    CountingFilter,
    CuckooFilter,
    DigestTable,
    Filter,
    FilterError,
    ForgettingFilter,
    FormatError,
    ScalableBloomFilter,
    load,
    read_seen,
    write_seen,
)
from crawler.tools.dedup.key_spec import KeySpec
from crawler.tools.dedup.store import StoredFilter, read_filter, write_stored
from tests.examples import TIMES
from tests.hashing import HASH
from tests.seen.filters.kinds import FORGETTING, MAKERS, Maker, told, urls

ROOT = Path(__file__).resolve().parents[3]
every_kind = pytest.mark.parametrize("name", MAKERS)


def filled(name: str, start: int, stop: int) -> Filter:
    seen = MAKERS[name]()
    seen.update(urls(start, stop))
    return seen


# -- copies and unions


@every_kind
@pytest.mark.parametrize("how", [Filter.copy, copy.copy, copy.deepcopy])
def test_a_copy_shares_nothing(name: str, how: Any) -> None:
    seen = filled(name, 0, 150)
    before, answers = told(seen), seen.contains_many(urls(0, 2000))
    twin = how(seen)
    assert type(twin) is type(seen)
    assert told(twin) == before
    assert twin.statistics()["fpp_measured"] == seen.statistics()["fpp_measured"]
    twin.update(urls(1000, 1300))
    if isinstance(twin, ForgettingFilter):
        twin.forget_digests(twin.digests(urls(0, 100)))
    assert told(seen) == before
    assert seen.contains_many(urls(0, 2000)) == answers
    twin = how(seen)
    seen.update(urls(1000, 1300))
    assert told(twin) == before
    assert twin.contains_many(urls(0, 2000)) == answers


@pytest.mark.parametrize("name", FORGETTING)
def test_a_copy_forgets_for_itself_when_a_snapshot_holds_the_original(name: str) -> None:
    seen = filled(name, 0, 150)
    shot = seen.snapshot()
    twin = seen.copy()
    stored = [bytes(segment.buffer) for segment in shot.segments]
    assert isinstance(twin, ForgettingFilter)
    twin.forget_digests(twin.digests(urls(0, 150)))
    assert [bytes(segment.buffer) for segment in shot.segments] == stored
    assert all(seen.contains_many(urls(0, 150)))


@every_kind
def test_the_union_knows_the_keys_of_both_and_leaves_both_as_they_were(name: str) -> None:
    left, right = filled(name, 0, 100), filled(name, 50, 150)
    before = told(left), told(right)
    both = left | right
    assert (told(left), told(right)) == before
    assert all(both.contains_many(urls(0, 150)))
    left |= right
    assert told(left) == told(both)
    assert told(right) == before[1]
    right.update(urls(1000, 1100))
    assert told(left) == told(both), "they share no memory"
    assert told(both.copy()) == told(both)


@every_kind
def test_a_union_gives_what_taking_the_other_over_gives(name: str) -> None:
    left, right = filled(name, 0, 100), filled(name, 50, 150)
    both = left | right
    left.unite(right)
    assert told(both) == told(left)
    assert both.contains_many(urls(0, 2000)) == left.contains_many(urls(0, 2000))


@pytest.mark.parametrize("kind", [Bitmap, BloomFilter, CountingFilter, CuckooFilter, DigestTable, ScalableBloomFilter])
@given(one=st.sets(st.integers(0, 120), max_size=60), other=st.sets(st.integers(0, 120), max_size=60))
def test_what_a_union_counts_is_an_upper_bound_where_it_is_no_estimate(
    kind: Callable[..., Filter], one: set[int], other: set[int]
) -> None:
    left, right = kind(capacity=1000, hash=HASH), kind(capacity=1000, hash=HASH)
    left.update(map(str, one))
    right.update(map(str, other))
    count, both, twice = len(left | right), len(one | other), len(left) + len(right)
    assert max(len(left), len(right)) <= count <= twice
    if kind is DigestTable:
        assert count == both
    elif kind in (Bitmap, BloomFilter):
        assert abs(count - both) <= 5 + both * 0.05, "estimated from the bits"
    else:
        assert count == twice, "a key of both counts twice"


def test_a_union_with_itself_changes_nothing() -> None:
    seen = filled("counting 8 fixed", 0, 100)
    before = told(seen)
    seen |= seen
    assert told(seen) == before
    with pytest.raises(FilterError, match="united with itself"):
        seen.unite(seen)


def test_only_filters_made_alike_have_a_union() -> None:
    with pytest.raises(FilterError, match=r"differ in fpp \(0\.01 and 0\.001\)"):
        ScalableBloomFilter(0.01, hash=HASH) | ScalableBloomFilter(0.001, hash=HASH)
    with pytest.raises(TypeError, match="unsupported operand"):
        ScalableBloomFilter(hash=HASH) | {"a"}  # type: ignore[operator]
    seen = ScalableBloomFilter(hash=HASH)
    with pytest.raises(TypeError, match="unsupported operand"):
        seen |= {"a"}  # type: ignore[operator]


# -- files


@every_kind
@settings(max_examples=6 * TIMES)
@given(stored=st.integers(0, 300), after=st.integers(0, 60))
def test_a_stored_file_is_the_same_filter(name: str, stored: int, after: int) -> None:
    seen = filled(name, 0, stored)
    file = io.BytesIO()
    write_seen(file, seen)
    file.seek(0)
    again = read_seen(file, limit=10**6)
    assert again.parameters() == seen.parameters()
    assert again.statistics() == seen.statistics()
    assert again.contains_many(urls(0, 2000)) == seen.contains_many(urls(0, 2000))
    more = urls(stored, stored + after)
    assert again.add_many(more) == seen.add_many(more)
    assert told(again) == told(seen)


@every_kind
def test_a_filter_is_saved_to_a_path_and_loaded(name: str, tmp_path: Path) -> None:
    seen = filled(name, 0, 200)
    path = tmp_path / "seen.filter"
    path.write_bytes(b"something older")
    seen.save(path)
    assert os.listdir(tmp_path) == ["seen.filter"]
    again, same = load(path), type(seen).load(str(path))
    assert type(again) is type(same) is type(seen)
    assert again.statistics() == same.statistics() == seen.statistics()
    assert again.contains_many(urls(0, 2000)) == seen.contains_many(urls(0, 2000))


def test_the_commands_read_what_was_saved_and_programs_load_what_the_commands_wrote(tmp_path: Path) -> None:
    seen = filled("scalable", 0, 200)
    seen.save(tmp_path / "saved")
    found = read_filter(tmp_path / "saved")
    assert found.keys is None
    assert found.seen.statistics() == seen.statistics()
    with open(tmp_path / "written", "wb") as out:
        write_stored(out, StoredFilter(seen, KeySpec(raw=True)))
    assert load(tmp_path / "written").statistics() == seen.statistics()
    assert read_filter(tmp_path / "written").keys == KeySpec(raw=True)


def test_a_save_that_fails_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "seen.filter"
    filled("bloom", 0, 10).save(path)
    before = path.read_bytes()
    (tmp_path / "seen.filter.part").mkdir()
    with pytest.raises(IsADirectoryError):
        filled("bloom", 0, 20).save(path)
    assert path.read_bytes() == before
    with pytest.raises(FileNotFoundError):
        filled("bloom", 0, 20).save(tmp_path / "no such directory" / "seen.filter")


def test_a_file_of_another_kind_or_none_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "seen.filter"
    filled("cuckoo", 0, 10).save(path)
    with pytest.raises(FilterError, match="of kind cuckoo, not bloom"):
        BloomFilter.load(path)
    with open(path, "ab") as out:
        out.write(b"!")
    with pytest.raises(FormatError, match="more data after its last segment"):
        load(path)
    path.write_bytes(b"no filter")
    with pytest.raises(FormatError):
        load(path)
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "no such file")


# -- sizes


@pytest.mark.parametrize("integer", [np.int64, np.uint32, np.int16])
def test_sizes_are_any_integers_and_rates_any_reals(integer: Any, tmp_path: Path) -> None:
    rate, growth, ten = np.float32(0.01), np.float64(2), np.float32(10)
    made: list[tuple[Maker, Maker]] = [
        (lambda: BloomFilter(integer(300), rate, hash=HASH), lambda: BloomFilter(300, float(rate), hash=HASH)),
        (
            lambda: BloomFilter.with_geometry(integer(640), integer(7), hash=HASH),
            lambda: BloomFilter.with_geometry(640, 7, hash=HASH),
        ),
        (
            lambda: BloomFilter.with_bits_per_key(integer(64), ten, hash=HASH),
            lambda: BloomFilter.with_bits_per_key(64, 10, hash=HASH),
        ),
        (lambda: Bitmap(integer(300), rate, hash=HASH), lambda: Bitmap(300, float(rate), hash=HASH)),
        (
            lambda: ScalableBloomFilter(rate, integer(60), growth=growth, tightening=np.float32(0.5), hash=HASH),
            lambda: ScalableBloomFilter(float(rate), 60, tightening=0.5, hash=HASH),
        ),
        (
            lambda: CountingFilter(rate, integer(60), counter_bits=integer(8), hash=HASH),
            lambda: CountingFilter(float(rate), 60, counter_bits=8, hash=HASH),
        ),
        (
            lambda: CuckooFilter(rate, integer(60), growth=integer(2), hash=HASH),
            lambda: CuckooFilter(float(rate), 60, hash=HASH),
        ),
        (
            lambda: DigestTable(integer(60), digest_bits=integer(64), hash=HASH),
            lambda: DigestTable(60, digest_bits=64, hash=HASH),
        ),
    ]
    for theirs, plain in made:
        seen, same = theirs(), plain()
        for each in (seen, same):
            each.update(urls(0, 150))
        assert seen.parameters() == same.parameters()
        assert all(type(value) in (int, float, str, type(None)) for value in seen.parameters().values())
        seen.save(tmp_path / "seen.filter")
        assert told(load(tmp_path / "seen.filter")) == told(same)


# -- what an import costs


def test_importing_the_filters_loads_four_small_libraries_and_nothing_else() -> None:
    program = """
import sys
before = set(sys.modules)
import crawler.seen.filters
loaded = {name.partition(".")[0] for name in set(sys.modules) - before}
optional = {"typing_extensions"}  # which msgspec takes if it is there
print(*sorted(loaded - set(sys.stdlib_module_names) - {"crawler"} - optional))
print(*sorted(name for name in sys.modules if name.startswith("crawler.")))
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    libraries, modules = done.stdout.splitlines()
    assert libraries.split() == ["bitarray", "mmh3", "msgspec", "numpy"]
    packages = {name.split(".")[1] for name in modules.split()}
    assert packages - {"_native"} == {
        "figures",
        "filters",
        "slices",
        "settings",
        "kv",
        "memory",
        "native",
        "native_switch",
    }
