"""A class or a call that is too wide is several things.

Files and functions may be of any length: one about one thing is better than two that reach into each other.
"""

from __future__ import annotations

import ast
import functools

from tests.test_repository import ROOT, modules

MOST_ATTRIBUTES = 13  # set on self, or fields, of a class that has methods
MOST_PARAMETERS = 6  # less self

# Records with one meaning, whose methods only store and load them.
RECORDS = {"Counters", "Snapshot"}

Function = ast.FunctionDef | ast.AsyncFunctionDef


@functools.cache
def nodes() -> list[tuple[str, ast.AST]]:
    return [
        (f"{path.relative_to(ROOT)}:{node.lineno} {node.name}", node)
        for path in modules()
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.ClassDef | Function)
    ]


def attributes(made: ast.ClassDef) -> set[str]:
    fields = {
        part.target.id for part in made.body if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name)
    }
    return fields | {
        part.attr
        for part in ast.walk(made)
        if isinstance(part, ast.Attribute)
        and isinstance(part.ctx, ast.Store)
        and isinstance(part.value, ast.Name)
        and part.value.id == "self"
    }


def parameters(made: Function) -> int:
    given = made.args
    count = len(given.posonlyargs + given.args + given.kwonlyargs)
    return count - (bool(given.args) and given.args[0].arg in ("self", "cls"))


def test_no_class_is_several() -> None:
    wide = {
        place: len(attributes(node))
        for place, node in nodes()
        if isinstance(node, ast.ClassDef)
        and node.name not in RECORDS
        and sum(isinstance(part, Function) for part in node.body) > 1
        and len(attributes(node)) > MOST_ATTRIBUTES
    }
    assert not wide, "cut it, or hand it parts"


def test_no_call_takes_more_than_can_be_told_apart() -> None:
    wide = {
        place: parameters(node)
        for place, node in nodes()
        if isinstance(node, Function) and parameters(node) > MOST_PARAMETERS
    }
    assert not wide, "what belongs together is one value"
