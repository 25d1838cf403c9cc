from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

import pytest

from tests.needs import need, need_version

ROOT = Path(__file__).resolve().parent.parent
ESSENTIAL = {"bash", "dash", "util-linux"}  # no Debian is without them


def test_a_program_that_is_there_is_found() -> None:
    assert need("sh", "dash").endswith("/sh")
    need_version("pytest", 9)


def test_a_missing_program_skips_and_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="apt-get install no-such-package"):
        need("no-such-program", "no-such-package")
    for name, least in (("no-such-distribution", 1), ("pytest", 1_000)):
        with pytest.raises(pytest.skip.Exception, match=f"pip install '{name}>={least}'"):
            need_version(name, least)


def test_in_ci_a_missing_program_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="apt-get install no-such-package"):
        need("no-such-program", "no-such-package")
    with pytest.raises(pytest.fail.Exception, match="pytest 1000 is missing"):
        need_version("pytest", 1_000)


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
