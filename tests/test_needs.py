from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
ESSENTIAL = {"bash", "dash", "util-linux"}  # no Debian is without them


@functools.cache
def packages_named_in_tests() -> frozenset[str]:
    """Those of each ``need`` and ``miss``. What installs a program must be a literal, or a constant of its module."""
    found: set[str] = set()
    for path in (ROOT / "tests").rglob("*.py"):
        tree = ast.parse(path.read_text("utf-8"))
        constants = {
            target.id: node.value.value
            for node in tree.body
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        for call in ast.walk(tree):
            if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name)) or path.name.endswith("needs.py"):
                continue
            if call.func.id in {"need", "miss"}:
                package = call.args[1]
                text = package.value if isinstance(package, ast.Constant) else constants.get(ast.unparse(package))
                assert isinstance(text, str), f"{path}:{call.lineno}: {ast.unparse(call)}"
                found.update(text.split())
    return frozenset(found - ESSENTIAL)


@pytest.mark.parametrize(
    ("file", "names"),
    [
        (".ci/run", r"packages=\(([^)]*)\)"),
        ("CONTRIBUTING.md", r"PyPI does not have \(Debian: `([^`]*)`"),
    ],
)
def test_what_tests_need_is_installed_by_ci_and_named_where_they_are_described(file: str, names: str) -> None:
    (listed,) = re.findall(names, (ROOT / file).read_text("utf-8"))
    assert packages_named_in_tests() <= set(listed.split())
