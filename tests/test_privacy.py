"""Tests use what anybody can use: nothing whose name begins with an underscore, unless it is their own."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent
PRIVATE = re.compile(r"_[^_]\w*")
# Public all the same: of named tuples, where the underscore keeps them from the fields' names, of the system, and of
# asyncio's handles, which have ``get_context`` only since Python 3.12.
PUBLIC = {"_replace", "_asdict", "_fields", "_make", "_exit", "_getframe", "_context"}
PATCHES = {"setattr", "delattr", "getattr", "patch", "object"}


def private(name: str) -> bool:
    return PRIVATE.fullmatch(name) is not None and name not in PUBLIC


def reached(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and name of each private thing that is not asked of ``self``, ``cls`` or ``super()``."""
    nodes = list(ast.walk(tree))
    own = {
        attribute.attr
        for attribute in nodes
        if isinstance(attribute, ast.Attribute) and isinstance(attribute.ctx, ast.Store) and _is_own(attribute.value)
    }
    own |= {each.name for each in nodes if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef))}
    for node in nodes:
        if isinstance(node, ast.Attribute) and private(node.attr) and not _is_own(node.value):
            if node.attr not in own:
                yield node.lineno, node.attr
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] != "tests":
            for alias in node.names:
                if private(alias.name):
                    yield node.lineno, alias.name
        elif isinstance(node, ast.Call) and _called(node.func) in PATCHES:
            for word in node.args[:2]:
                if isinstance(word, ast.Constant) and isinstance(word.value, str):
                    for part in word.value.split("."):
                        if private(part):
                            yield node.lineno, part


def _is_own(value: ast.expr) -> bool:
    if isinstance(value, ast.Call):
        return _called(value.func) == "super"
    return isinstance(value, ast.Name) and value.id in ("self", "cls")


def _called(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


@pytest.mark.parametrize("path", sorted(TESTS.rglob("*.py")), ids=lambda path: str(path.relative_to(TESTS)))
def test_nothing_private_is_reached_for(path: Path) -> None:
    found = [f"{path.relative_to(TESTS)}:{line}: {name}" for line, name in reached(ast.parse(path.read_text("utf-8")))]
    assert found == []
