"""The opt-in rules: their own examples, their order, and what all of them promise."""

from __future__ import annotations

import itertools
import time

import pytest
from hypothesis import given, settings

from crawler.url.urls.canonicaliser import Canonicaliser
from crawler.url.urls.opt_in_rules import RULES, Rule, settle
from crawler.url.urls.whatwg import Rejected
from tests.examples import TIMES
from tests.url.urls.made import absolute


@pytest.mark.parametrize("rule", RULES.values(), ids=list(RULES))
def test_example_holds(rule: Rule) -> None:
    before, after = rule.example
    assert rule.apply(before) == after
    assert RULES[rule.name] is rule


@settings(max_examples=82 * TIMES)
@given(absolute())
def test_no_rule_makes_a_key_longer_or_unsettled(text: str) -> None:
    got = Canonicaliser().canonicalise(text)
    if not isinstance(got, Rejected):
        for rule in RULES.values():
            after = rule.apply(got.key)
            assert len(after) <= len(got.key)
            assert rule.apply(after) == after
            assert Canonicaliser([rule.name]).canonicalise(after) == (after, after)


def test_order_of_naming_does_not_matter() -> None:
    text = "https://www.example.com/a/index.html/?utm_id=1&b&a&sid=2"
    keys = {
        Canonicaliser(names).canonicalise(text)
        for names in itertools.permutations(list(RULES), len(RULES))
        if names[0] in ("sort-query", "drop-trailing-slash")
    }
    assert keys == {(text, "http://example.com/a?a&b")}


def test_long_hostile_keys_take_linear_time() -> None:
    def seconds(repeats: int) -> float:
        began = time.process_time()
        for piece in ("/index.html", "/index.html/", ";jsessionid=1.", "www.", "?utm_a&", "/(S("):
            settle("http://www." + "www." * repeats + "a.b/" + piece * repeats + "x", tuple(RULES.values()))
            settle("http://a.b" + "/" + piece * repeats, tuple(RULES.values()))
        return time.process_time() - began

    seconds(100)
    # Quadratic would be 100 times as long.
    assert seconds(20_000) < 40 * max(seconds(2_000), 0.002)
