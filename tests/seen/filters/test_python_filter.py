"""Filters as a Python program uses them: operators, copies, files."""

from __future__ import annotations

import copy
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from crawler.seen.filters import (
    BloomFilter,
    Filter,
    FilterError,
    ForgettingFilter,
    FormatError,
    load,
)
from tests.seen.filters.kinds import MAKERS, told, urls

ROOT = Path(__file__).resolve().parents[3]
every_kind = pytest.mark.parametrize("name", MAKERS)


def filled(name: str, start: int, stop: int) -> Filter:
    seen = MAKERS[name]()
    seen.update(urls(start, stop))
    return seen


# -- copies and unions


@every_kind
@pytest.mark.parametrize("how", [Filter.copy, copy.deepcopy])
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


# -- files


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
    with pytest.raises(FilterError):
        BloomFilter.load(path)
    with open(path, "ab") as out:
        out.write(b"!")
    with pytest.raises(FormatError):
        load(path)
    path.write_bytes(b"no filter")
    with pytest.raises(FormatError):
        load(path)
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "no such file")


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
    assert packages - {"_native"} == {"base", "seen"}
