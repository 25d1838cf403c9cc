"""Settings from tables: what is right comes through, what is not is one line that names the key."""

from __future__ import annotations

import json
import math
import types
import typing
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.base.settings import TABLES, PriorityRule, Settings, SettingsError, as_tables, nearest, settings_from

DEFAULTS = as_tables(Settings())
LISTED = (("priority", "rules"), ("site", "tables"))  # lists of tables, with tests of their own
KEYS = [(table, key) for table, values in DEFAULTS.items() for key in values if (table, key) not in LISTED]
HINTS = {(table, key): hint for table, part in TABLES.items() for key, hint in typing.get_type_hints(part).items()}


LISTS: tuple[Any, ...] = (tuple[str, ...], tuple[int, ...])


def kind(table: str, key: str) -> Any:
    """What a key holds when it holds something."""
    if HINTS[table, key] in LISTS:
        return HINTS[table, key]
    kinds = [k for k in typing.get_args(HINTS[table, key]) or (HINTS[table, key],) if k is not types.NoneType]
    return kinds[0]


OF_KIND: dict[Any, list[tuple[str, str]]] = {
    k: [key for key in KEYS if kind(*key) == k] for k in (int, float, bool, str, *LISTS)
}


def refused(tables: dict[str, Any], *words: str) -> None:
    with pytest.raises(SettingsError) as error:
        settings_from(tables, "some.toml")
    text = str(error.value)
    assert text.startswith("some.toml: ")
    assert "\n" not in text
    for word in words:
        assert word in text


def test_nothing_given_is_the_defaults() -> None:
    assert settings_from({}) == Settings()
    assert settings_from({"crawl": {}, "fetch": {}}) == Settings()


def test_the_defaults_come_back_from_their_tables() -> None:
    assert settings_from(DEFAULTS) == Settings()
    assert settings_from(as_tables(settings_from(DEFAULTS))) == Settings()


def test_what_is_given_lies_over_the_defaults_and_nothing_else_changes() -> None:
    settings = settings_from({"politeness": {"delay": 3, "rate": 2.5}, "canonical": {"rules": ["a", "b"]}})
    assert (settings.politeness.delay, settings.politeness.rate) == (3.0, 2.5)
    assert isinstance(settings.politeness.delay, float), "a whole number is a number"
    assert settings.canonical.rules == ("a", "b")
    assert as_tables(settings) == {
        **DEFAULTS,
        "politeness": {**DEFAULTS["politeness"], "delay": 3.0, "rate": 2.5},
        "canonical": {"rules": ["a", "b"]},
    }


@pytest.mark.parametrize(("table", "key"), KEYS)
def test_a_misspelt_key_is_answered_with_the_right_one(table: str, key: str) -> None:
    for wrong in (key[:-1] + "_", key + "s"):
        if wrong not in DEFAULTS[table]:
            refused({table: {wrong: 1}}, f"unknown key {table}.{wrong} (did you mean ")


@pytest.mark.parametrize("table", DEFAULTS)
def test_a_misspelt_table_is_answered_with_the_right_one(table: str) -> None:
    refused({table + "s": {}}, f"unknown table [{table}s] (did you mean {table!r}?)")
    refused({table: 1}, f"[{table}] must be a table")


def test_what_is_near_nothing_gets_no_hint() -> None:
    refused({"zzz": {}}, "unknown table [zzz]")
    assert nearest("zzz", DEFAULTS) == ""
    assert nearest("fetsh", DEFAULTS) == " (did you mean 'fetch'?)"


WRONG: list[tuple[Any, list[object], str]] = [
    (int, ["1", 1.5, True, [1], {}], "a whole number"),
    (float, ["1", True, [1.0], {}], "a number"),
    (bool, [0, 1, "true", []], "true or false"),
    (str, [1, 1.5, True, ["a"]], "a string"),
    (tuple[str, ...], ["a", 1, [1], [["a"]], {"a": 1}], "a list of strings"),
    (tuple[int, ...], [500, "501", ["501"], [-1], [65_536], [True], {}], "a list of "),
]


@pytest.mark.parametrize(("of", "values", "words"), WRONG)
def test_a_value_of_another_type_is_refused_for_every_key(of: Any, values: list[object], words: str) -> None:
    assert OF_KIND[of]
    for table, key in OF_KIND[of]:
        for value in values:
            refused({table: {key: value}}, f"{table}.{key} must be {words}", f", not {value!r}")


@pytest.mark.parametrize(("table", "key"), OF_KIND[int] + OF_KIND[float])
def test_no_number_may_be_negative(table: str, key: str) -> None:
    refused({table: {key: -1}}, f"{table}.{key} must ")


@pytest.mark.parametrize(("table", "key"), OF_KIND[float])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_every_number_is_finite(table: str, key: str, value: float) -> None:
    refused({table: {key: value}}, f"{table}.{key} must be finite")


@pytest.mark.parametrize(
    ("table", "key", "value", "words"),
    [
        ("crawl", "concurrency", 0, "above 0"),
        ("crawl", "max_pages", 0, "above 0"),
        ("politeness", "rate", 0, "above 0"),
        ("fetch", "max_body", 0, "above 0"),
        ("seen", "fpp", 0, "between 0 and 1"),
        ("seen", "fpp", 1.0, "between 0 and 1"),
        ("seen", "tightening", 1, "between 0 and 1"),
        ("seen", "growth", 0.5, "at least 1"),
        ("seen", "growth", 17, "at most 16"),
        ("seen", "capacity", 2**40 + 1, "at most 1,099,511,627,776"),
        ("retry", "tries", 256, "at most 255"),
        ("retry", "throttled_tries", 256, "at most 255"),
        ("fetch", "max_redirects", 256, "at most 255"),
        ("politeness", "delay", 10**400, "at most 1,000,000,000"),
        ("crawl", "max_time", 2e9, "at most 1,000,000,000"),
        ("durability", "generations", 1, "at least 2"),
        ("retry", "growth", 0.5, "at least 1.0"),
        ("crawl", "scope", "hosts", "unknown 'hosts' (did you mean 'host'?)"),
        ("seen", "kind", "scalabel", "unknown 'scalabel' (did you mean 'scalable'?)"),
        ("fetch", "user_agent", " ", "must not be empty"),
        ("fetch", "user_agent", "a\r\nHost: b", "printable ASCII"),
        ("fetch", "contact", "m\u00fcller@example.org", "printable ASCII"),
    ],
)
def test_a_value_out_of_its_range_is_refused(table: str, key: str, value: object, words: str) -> None:
    refused({table: {key: value}}, f"{table}.{key}", words)


@pytest.mark.parametrize(
    ("table", "key", "value"),
    [
        ("politeness", "delay", 0),
        ("crawl", "max_depth", 0),
        ("retry", "first_wait", 0.0),
        ("seen", "capacity", 2**40),
        ("seen", "growth", 16),
        ("durability", "generations", 2),
        ("retry", "tries", 255),
        ("retry", "growth", 1_000),
        ("politeness", "delay", 10**9),
    ],
)
def test_the_ends_of_the_ranges_may_be_used(table: str, key: str, value: float) -> None:
    assert getattr(getattr(settings_from({table: {key: value}}), table), key) == value


@pytest.mark.parametrize(("table", "key"), [key for key in KEYS if type(None) in typing.get_args(HINTS[key])])
def test_what_may_be_left_out_may_be_none(table: str, key: str) -> None:
    assert getattr(getattr(settings_from({table: {key: None}}), table), key) is None


def test_a_number_too_long_to_be_written_out_is_refused() -> None:
    refused({"crawl": {"max_pages": 16**5000}}, "crawl.max_pages", "at most 9,007,199,254,740,992")
    refused({"crawl": {"max_pages": -(16**5000)}}, "crawl.max_pages", "above 0")
    refused({"fetch": {"user_agent": 16**5000}}, "fetch.user_agent must be a string")


def test_more_slots_a_host_than_in_all_are_refused() -> None:
    refused({"politeness": {"per_host": 9}, "crawl": {"concurrency": 8}}, "per_host (9)", "concurrency (8)")


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=4,
)


@given(st.sampled_from(KEYS), values)
def test_any_value_is_a_setting_or_a_settings_error_of_one_line(place: tuple[str, str], value: Any) -> None:
    table, key = place
    try:
        settings = settings_from({table: {key: value}})
    except SettingsError as error:
        line = str(error)
    else:
        line = ""
        assert settings_from(as_tables(settings)) == settings
    assert "\n" not in line


@given(st.dictionaries(st.text(max_size=8), values, max_size=3))
def test_any_tables_are_settings_or_a_settings_error(tables: dict[str, Any]) -> None:
    try:
        settings = settings_from(tables)
    except SettingsError:
        return
    assert settings == Settings()


def test_priority_rules_come_from_tables_of_their_own() -> None:
    settings = settings_from({"priority": [{"class": 2, "pattern": "/a*"}, {"class": 0, "min_sitemap_priority": 1}]})
    assert settings.priority.rules == (
        PriorityRule(class_=2, pattern="/a*"),
        PriorityRule(class_=0, min_sitemap_priority=1.0),
    )
    assert settings_from(as_tables(settings)) == settings
    assert settings_from(json.loads(json.dumps(as_tables(settings)))) == settings


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        ([{"pattern": "/a"}], "has no class"),
        ([{"class": 8}], "priority.class must be at most 7"),
        ([{"class": -1}], "priority.class must be at least 0"),
        ([{"class": "first"}], "priority.class must be a whole number"),
        ([{"class": 1, "patern": "/a"}], "unknown key priority.patern (did you mean 'pattern'?)"),
        ([{"class": 1, "min_depth": -1}], "priority.min_depth must be at least 0"),
        ([{"class": 1, "max_sitemap_priority": 1.5}], "priority.max_sitemap_priority must be at most 1"),
        ([{"class": 1, "seed": 1}], "priority.seed must be true or false"),
        ([1], "must be a table of keys"),
        (1, "must be a table of keys"),
        ({"class": 1}, "write each rule as a table of its own, [[priority]]"),
        ({"rules": 1}, "[[priority]]"),
    ],
)
def test_a_priority_rule_that_cannot_be_used_is_refused(rules: Any, words: str) -> None:
    refused({"priority": rules}, words)


def test_a_default_gives_way_to_a_bound_that_is_set() -> None:
    tables: dict[str, dict[str, float]] = {"retry": {"max_wait": 3}, "recrawl": {"max_interval": 7_200}}
    kept = settings_from(tables)
    assert (kept.retry.first_wait, kept.recrawl.first_interval) == (5.0, 86_400.0)
    assert settings_from(as_tables(kept)) == kept, "as the next run reads what this one had"


def test_a_key_outside_of_its_table_is_told_where_it_belongs() -> None:
    refused({"max_pages": 5}, "max_pages stands outside of a table: it belongs into [crawl]")
