"""Tests get the same secrets in each run, and the product never does."""

from __future__ import annotations

import secrets
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.seen.filters import load
from crawler.seen.slices import entropy
from crawler.seen.slices.key_hash import KeyHash
from tests.chance import CHANCE
from tests.program import crawler


def test_a_test_gets_the_same_secrets_in_each_run(request: pytest.FixtureRequest) -> None:
    made = [KeyHash.new(), KeyHash.new()]
    assert made[0] != made[1]
    CHANCE.begin(request.node.nodeid)
    assert [KeyHash.new(), KeyHash.new()] == made
    CHANCE.begin("another test")
    assert KeyHash.new() not in made


OF_EXAMPLES: set[KeyHash] = set()


@given(st.integers())
def test_so_does_each_example(number: int) -> None:
    OF_EXAMPLES.add(KeyHash.new())
    assert len(OF_EXAMPLES) == 1, number


def test_so_do_the_programs_that_it_starts(tmp_path: Path) -> None:
    made: list[KeyHash] = []
    for name in ("one", "one", "two"):
        CHANCE.begin(name)
        assert crawler("dedup", "--filter", tmp_path / str(len(made)), stdin="http://a.test/\n").code == 0
        made.append(load(tmp_path / str(len(made))).hash)
    assert made[0] == made[1] != made[2]


@pytest.mark.real_secrets
def test_secrets_are_those_of_the_operating_system(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert crawler("dedup", "--filter", tmp_path / "one", stdin="http://a.test/\n").code == 0
    assert crawler("dedup", "--filter", tmp_path / "two", stdin="http://a.test/\n").code == 0
    assert load(tmp_path / "one").hash != load(tmp_path / "two").hash
    monkeypatch.setattr(secrets, "token_bytes", lambda size: bytes(range(size)))
    assert entropy.random_bytes(20) == bytes(range(20))
