"""A short run of the fuzzer: every reader answers bytes that nobody wrote with its own errors, soon, in little room."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

FUZZ = Path(__file__).resolve().parents[2] / "benchmarks" / "durability" / "fuzz.py"


def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("fuzz", FUZZ)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["fuzz"] = module  # where its dataclasses look for their own names
    spec.loader.exec_module(module)
    return module


def test_no_reader_answers_anything_but_its_errors(tmp_path: Path) -> None:
    answers = script().fuzz(6, 7, tmp_path)
    assert len(answers) == 22
    for name, counts in answers.items():
        assert counts.total() > 50, name
        assert counts["read"] > 0, f"{name}: nothing gets through, so nothing was tried"


def test_what_no_reader_may_do_is_told(tmp_path: Path) -> None:
    fuzz = script()
    for wrong in (fails, hangs, hoards):
        with pytest.raises(AssertionError, match=r"reader: .* for 6279746573"):
            fuzz.attempt(fuzz.Reader("reader", wrong, (), (b"",)), b"bytes", traced=True)


def fails(data: bytes) -> None:
    raise KeyError(data)


def hangs(data: bytes) -> None:
    while data:
        pass


def hoards(data: bytes) -> bytes:
    return data * 2**25
