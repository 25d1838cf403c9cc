"""Times and sizes with units: the same number from every spelling, in flags and in files."""

from __future__ import annotations

import argparse
import typing
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.base.settings.load import SettingsError, settings_from
from crawler.base.settings.parts import TABLES, SiteTable
from crawler.base.units import BYTES, HOURS, SECONDS, Quantity
from crawler.cli.options import quantity

TIMES = {"ms": Fraction(1, 1000), "s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
SIZES = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


@given(st.decimals(0, 10**6, places=3), st.sampled_from(list(TIMES)), st.sampled_from(["", " "]))
def test_a_time_is_its_number_times_its_unit(number: Any, unit: str, space: str) -> None:
    exact = Fraction(number) * TIMES[unit]
    assert SECONDS.read(f"{number}{space}{unit}") == float(exact)
    assert HOURS.read(f"{number}{unit}") == pytest.approx(float(exact / 3600), rel=1e-15)
    assert SECONDS.read(str(number)) == float(number)
    assert SECONDS.read(f"1h{space}{number}{unit}") == float(exact + 3600)


@given(st.decimals(0, 10**6, places=1), st.sampled_from(list(SIZES)), st.sampled_from([str.lower, str.upper, str]))
def test_a_size_is_whole_bytes_in_any_case(number: Any, unit: str, case: Any) -> None:
    value = BYTES.read(f"{number}{case(unit)}")
    assert isinstance(value, int)
    assert abs(value - Fraction(number) * SIZES[unit]) <= Fraction(1, 2)
    assert BYTES.read(str(int(number))) == int(number)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        *((SECONDS, text) for text in ("5x", "", "s", "1S", "2GB", "1h30", "1h30x", "1,5h", "-1s", "1e3s", "1  s")),
        *((BYTES, text) for text in ("5m", "", "kb", "1K", "1.5", "-1KB", "1e3KB", "1MB1KB", "10 10KB", "2h")),
    ],
)
def test_anything_else_is_refused_by_flags_and_by_files_with_what_may_be_written(kind: Quantity, text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=f"expected a .*{'KiB' if kind is BYTES else '500ms'}"):
        quantity(kind)(text)
    table, key = ("fetch", "max_body") if kind is BYTES else ("crawl", "max_time")
    with pytest.raises(SettingsError) as refused:
        settings_from({table: {key: text}}, "some.toml")
    assert f"some.toml: {table}.{key} must be {kind.expected}, not {text!r}" == str(refused.value)


def test_every_setting_that_counts_time_or_bytes_takes_units() -> None:
    plain = set()
    for table, part in [*TABLES.items(), ("site", SiteTable)]:
        for key, hint in typing.get_type_hints(part, include_extras=True).items():
            marks = [each for each in (hint, *typing.get_args(hint)) if hasattr(each, "__metadata__")]
            kinds = [mark for each in marks for mark in each.__metadata__ if isinstance(mark, Quantity)]
            if not kinds and (hint is float or any(word in key for word in ("bytes", "second", "memory", "size"))):
                plain.add(f"{table}.{key}")
    assert plain == set()


def test_tables_of_sites_and_bounds_hold_for_what_is_meant() -> None:
    settings = settings_from(
        {
            "site": [{"match": "a.test", "delay": "500ms", "host_bytes": "2gib", "interval": "1w"}],
            "schedule": {"every_hours": "1.5d"},
            "durability": {"min_free": "0.5 KiB"},
        }
    )
    (site,) = settings.site.tables
    assert (site.delay, site.host_bytes, site.interval) == (0.5, 2 * 2**30, 604_800.0)
    assert (settings.schedule.every_hours, settings.durability.min_free) == (36.0, 512)
    with pytest.raises(SettingsError, match=r"must be at most 4,294,967,296, not 5000000000"):
        settings_from({"fetch": {"max_body": "5GB"}})
    with pytest.raises(SettingsError, match=r"must be above 0, not 0.0"):
        settings_from({"crawl": {"max_time": "0s"}})
