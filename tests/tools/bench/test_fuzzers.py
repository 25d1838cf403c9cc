"""A short run of the fuzzers over what reads the web: no exception, no hang, no difference from the oracles."""

from __future__ import annotations

import math
import random
import time

import pytest

from benchmarks.fuzz.run import FUZZERS, Found, Fuzzer, attempt, fuzz, main
from tests.examples import TIMES

BY_NAME = {fuzzer.name: fuzzer for fuzzer in FUZZERS}


@pytest.mark.parametrize("name", BY_NAME)
def test_nothing_differs(name: str) -> None:
    inputs = 200 * TIMES  # the same ones however fast the machine is
    found = fuzz(BY_NAME[name], math.inf, seed=7, inputs=inputs)
    assert found.differences == []
    assert found.answers.total() == inputs
    assert len(found.answers) > 1, "all inputs are of one kind: nothing was tried"


def fails(given: object) -> str:
    raise KeyError(given)


def hangs(given: object) -> str:
    while given:
        time.process_time()
    return "never"


def differs(given: object) -> str:
    assert given == 7, "it is not seven"
    return "seven"


@pytest.mark.parametrize(
    ("check", "said"),
    [(fails, "KeyError: 42"), (hangs, "s of processor time"), (differs, "AssertionError: it is not seven")],
)
def test_what_is_wrong_is_told_with_its_input(check: object, said: str) -> None:
    def make(chance: random.Random) -> int:
        return chance.randrange(42, 43)

    found = fuzz(Fuzzer("wrong", make, check), 60.0, seed=1)
    (told,) = found.differences
    assert told.startswith("wrong, input 0: ")
    assert said in told
    assert told.endswith("\n    42")


def test_an_input_is_made_again_from_its_number() -> None:
    fuzzer = BY_NAME["charsets"]
    seen: list[object] = []
    noting = Fuzzer("charsets", fuzzer.make, lambda given: seen.append(given) or "noted")
    for number in (5, 6, 5):
        attempt(noting, 3, number, Found())
    assert seen[0] == seen[2] != seen[1]


def test_the_script(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--only", "charsets", "--seconds", "0.1"]) == 0
    assert "charsets" in capsys.readouterr().out
