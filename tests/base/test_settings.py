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

from crawler.base.settings.load import SettingsError, as_tables, has_key, settings_from
from crawler.base.settings.parts import TABLES, PriorityRule, Settings
from crawler.base.settings.removed import REMOVED

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


WRONG: list[tuple[Any, list[object], str]] = [
    (int, ["x", 1.5, True, [1], {}], "a whole number"),
    (float, ["5x", True, [1.0], {}], "a number"),
    (bool, [0, 1, "true", []], "true or false"),
    (str, [1, 1.5, True, ["a"]], "a string"),
    (tuple[str, ...], ["a", 1, {"a": 1}], "a list of strings"),
    (tuple[int, ...], [500, "501", {}], "a list of whole numbers"),
]


@pytest.mark.parametrize(("of", "values", "words"), WRONG)
def test_a_value_of_another_type_is_refused_for_every_key(of: Any, values: list[object], words: str) -> None:
    assert OF_KIND[of]
    for table, key in OF_KIND[of]:
        for value in values:
            refused({table: {key: value}}, f"{table}.{key} must be {words}", f", not {value!r}")


@pytest.mark.parametrize(("of", "items"), [(tuple[str, ...], [1, ["a"]]), (tuple[int, ...], ["501", -1, 65_536, True])])
def test_an_item_of_another_type_is_refused_for_every_list(of: Any, items: list[object]) -> None:
    for table, key in OF_KIND[of]:
        for item in items:
            refused({table: {key: [item]}}, f"{table}.{key} ", f", not {item!r}")


@pytest.mark.parametrize(("table", "key"), OF_KIND[int] + OF_KIND[float])
def test_no_number_may_be_negative(table: str, key: str) -> None:
    refused({table: {key: -1}}, f"{table}.{key} must ")


@pytest.mark.parametrize(("table", "key"), OF_KIND[float])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_every_number_is_finite(table: str, key: str, value: float) -> None:
    refused({table: {key: value}}, f"{table}.{key} must be finite")


@pytest.mark.parametrize(
    ("table", "key", "value"),
    [
        ("crawl", "concurrency", 0),
        ("seen", "fpp", 0),
        ("seen", "fpp", 1.0),
        ("seen", "capacity", 2**40 + 1),
        ("retry", "tries", 256),
        ("politeness", "delay", 10**400),
        ("crawl", "scope", "hosts"),
        ("fetch", "user_agent", "a\r\nHost: b"),
        ("fetch", "contact", "m\u00fcller@example.org"),
    ],
)
def test_a_value_out_of_its_range_is_refused(table: str, key: str, value: object) -> None:
    refused({table: {key: value}}, f"{table}.{key}")


@pytest.mark.parametrize(
    ("table", "key", "value"),
    [
        ("politeness", "delay", 0),
        ("crawl", "max_depth", 0),
        ("retry", "first_wait", 0.0),
        ("seen", "capacity", 2**40),
        ("retry", "tries", 255),
        ("politeness", "delay", 10**9),
    ],
)
def test_the_ends_of_the_ranges_may_be_used(table: str, key: str, value: float) -> None:
    assert getattr(getattr(settings_from({table: {key: value}}), table), key) == value


def test_a_removed_key_is_refused_with_what_holds_now() -> None:
    for place, instead in REMOVED.items():
        table, _, key = place.partition(".")
        assert not has_key(table, key) or table == "site", place
        refused({table: [{"match": "a.org", key: 1}] if table == "site" else {key: 1}}, place, instead)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=4,
)


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
    ("rules", "named"),
    [
        ([{"pattern": "/a"}], "class"),
        ([{"class": 8}], "priority.class"),
        ([{"class": 1, "patern": "/a"}], "priority.patern"),
        ([{"class": 1, "max_sitemap_priority": 1.5}], "priority.max_sitemap_priority"),
        ({"class": 1}, "[[priority]]"),
    ],
)
def test_a_priority_rule_that_cannot_be_used_is_refused(rules: Any, named: str) -> None:
    refused({"priority": rules}, named)


def test_a_key_outside_of_its_table_is_told_where_it_belongs() -> None:
    refused({"max_pages": 5}, "max_pages is outside of any table: it belongs in [crawl]")
