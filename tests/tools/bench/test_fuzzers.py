"""A short run of the fuzzers over what reads the web: no exception, no hang, no difference from the oracles."""

from __future__ import annotations

import math

import pytest

from benchmarks.fuzz.run import FUZZERS, fuzz
from tests.examples import TIMES

BY_NAME = {fuzzer.name: fuzzer for fuzzer in FUZZERS}


@pytest.mark.parametrize("name", BY_NAME)
def test_nothing_differs(name: str) -> None:
    inputs = 200 * TIMES  # the same ones however fast the machine is
    found = fuzz(BY_NAME[name], math.inf, seed=7, inputs=inputs)
    assert found.differences == []
    assert found.answers.total() == inputs
    assert len(found.answers) > 1, "all inputs are of one kind: nothing was tried"
