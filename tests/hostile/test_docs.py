"""The page on security: each trap has a test, and the test is there."""

from __future__ import annotations

import ast
import re

from tests.documents import DOCS
from tests.program import ROOT

HEAD = "| trap | limit | outcome | test |"
TEST = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")


def rows() -> list[list[str]]:
    found = []
    inside = False
    for line in (DOCS / "security.md").read_text("utf-8").splitlines():
        inside = line == HEAD or (inside and line.startswith("|"))
        if inside and line != HEAD and not line.startswith("|---"):
            found.append([cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]])
    return found


def functions_of(file: str) -> set[str]:
    tree = ast.parse((ROOT / file).read_text("utf-8"))
    return {each.name for each in ast.walk(tree) if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef))}


def test_every_trap_has_a_limit_an_outcome_and_a_test_that_exists() -> None:
    assert rows()
    for row in rows():
        trap, limit, outcome, test = row
        assert trap, row
        assert limit, row
        assert outcome, row
        named = TEST.findall(test)
        assert named, f"no test is named for: {trap}"
        for file, name in named:
            assert name in functions_of(file), f"{file} has no {name}"
