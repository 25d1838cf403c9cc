"""The benchmarks that are scripts, in ``benchmarks/`` of a checkout of the source. An installed package has none.

The name of ``benchmarks/frontier/take.py`` is ``frontier/take``; a script of ``studies`` goes by its last word alone.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

import crawler

CHECKOUT = Path(crawler.__file__).resolve().parent.parent / "benchmarks"
HELPERS = ("crawl/count-clock", "dashboard/scene")  # run by other scripts, and measure nothing themselves
STUDIES = ("hashes", "bits-per-key", "membership")  # known by name even without a checkout


class Script(Struct, frozen=True):
    """A benchmark that is a program of its own."""

    name: str
    path: Path
    about: str  # the first sentence of its docstring


def scripts(folder: Path = CHECKOUT) -> Iterator[Script]:
    """Yield all scripts but helpers, in the order of their names; none if the folder does not exist."""
    found = []
    for path in folder.rglob("*.py"):
        tree = ast.parse(path.read_text("utf-8"))
        if any(isinstance(node, ast.If) and "__main__" in ast.unparse(node.test) for node in tree.body):
            name = path.relative_to(folder).with_suffix("").as_posix().removeprefix("studies/").replace("_", "-")
            if name in HELPERS:
                continue
            text = (ast.get_docstring(tree) or "").partition("\n\n")[0]
            found.append(Script(name, path, " ".join(text.split())))
    yield from sorted(found, key=lambda script: script.name)
