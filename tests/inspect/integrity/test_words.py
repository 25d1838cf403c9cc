"""Every finding and every change has words and a line in the reference, with the same details."""

from __future__ import annotations

import re
from string import Formatter

import pytest

from crawler.base.kv import Family
from crawler.inspect.explanation import Explanation, LedgerAnswer, NextTry, Place, RobotsState, Wait
from crawler.inspect.integrity.finding import Change, Done, Finding, Kind
from tests.documents import page

PAGE = "format-inspection.md"
# What a row's key says, and what becomes a word.
MADE = {"family", "key", "number", "source"}


def documented(section: str) -> dict[str, set[str]]:
    """Of each name in the block under that heading, its details."""
    text = page(PAGE).partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    found = re.findall(r"^    ([\w-]+) *(.*)$", text, re.MULTILINE)
    return {name: set(re.findall(r"\w+", details)) for name, details in found}


def asked(text: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(text) if name} - MADE


@pytest.mark.parametrize("kind", Kind)
def test_a_finding(kind: Kind) -> None:
    details = documented("verify")[kind]
    assert asked(kind.words) <= details
    finding = Finding(kind, "store", dict.fromkeys(details, 7), Family.META, b"\0\0\0\0\0\0\0\x09")
    assert "{" not in finding.text
    assert finding.as_json().keys() == {"kind", "severity", "place", "family", "key", *details}


@pytest.mark.parametrize("done", Done)
def test_a_change(done: Done) -> None:
    details = documented("repair")[done]
    assert asked(done.words) <= details
    change = Change(done, {name: "store" if name == "source" else 7 for name in details})
    assert "{" not in change.text
    assert change.as_json().keys() == {"done", *details}


def test_what_is_documented_is_there() -> None:
    assert list(documented("verify")) == [kind.value for kind in Kind]
    assert list(documented("repair")) == [done.value for done in Done]


def test_every_part_of_an_explanation_is_documented() -> None:
    text = page(PAGE).partition("\n## explain\n")[2].partition("\n## hosts")[0]
    _, *lists, words = re.split(r":\n\n(?=- )", text)
    for part, keys in zip((Explanation, Place, NextTry), lists, strict=True):
        named = " ".join(re.findall(r"^- (.*?):", keys, re.MULTILINE))
        assert set(re.findall(r"`(\w+)`", named)) == set(part.__struct_fields__)
    assert re.findall(r"^- `([\w-]+)`:", words, re.MULTILINE) == [*map(str, Wait)]
    for word in (*Wait, *RobotsState, *LedgerAnswer):
        assert f"`{word}`" in text
