"""What holds for the repository as a whole."""

from __future__ import annotations

import ast
import functools
import itertools
import re
import tomllib
from pathlib import Path

import pytest

from crawler.base.settings.load import as_tables, settings_from
from crawler.base.settings.parts import PriorityRule, Settings, SiteTable
from crawler.cli.options import FLAGS
from tests.layers import MODULES, SURFACE

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "crawler"

PURE = {
    "url",
    "frontier",
    "seen/slices",
    "seen/filters",
    "base/settings",
    "base/kv",
    "web/links",
    "web/archive",
    "job/records",
    "job/survey",
    "job/metrics",
}
# What would let a pure module touch the world.
WORLD = {"asyncio", "socket", "time", "threading", "subprocess", "aiohttp", "pathlib", "os", "random", "rocksdict"}
# The exceptions: a filter's lock, which starts no thread, the files that a filter is saved to, and the public suffixes.
ALLOWED = {"chain.py": {"threading"}, "filter_file.py": {"os", "pathlib"}, "domain.py": {"pathlib"}}


@functools.cache
def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


@functools.cache
def names_of_modules() -> frozenset[str]:
    return frozenset(name_of(module) for module in modules())


@functools.cache
def import_statements(path: Path) -> list[ast.Import | ast.ImportFrom]:
    return [
        node for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.Import | ast.ImportFrom)
    ]


def imports(path: Path) -> set[str]:
    """The modules and packages that it imports from."""
    found: set[str] = set()
    for node in import_statements(path):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        else:
            assert node.level == 0, f"{path}: relative import"
            found.add(node.module or "")
    return found


def test_the_surface_loads_nothing_by_itself() -> None:
    """It names modules of any height, for type checkers."""
    at_once = ast.parse((PACKAGE / "__init__.py").read_text("utf-8")).body
    assert not any(isinstance(node, ast.ImportFrom) and (node.module or "").startswith("crawler") for node in at_once)


def order() -> list[str]:
    return [f"crawler.{package}.{module}" for package, names in MODULES.items() for module in names.split()]


def test_every_module_has_one_place_in_the_order() -> None:
    there = {name_of(path) for path in modules() if path.name != "__init__.py"}
    assert sorted(order()) == sorted(there - {f"crawler.{name}" for name in SURFACE}), "tests/layers.py has the order"


@pytest.mark.parametrize("package", MODULES)
def test_imports_point_one_way(package: str) -> None:
    """A module imports what stands before it, the ``__init__`` of a package also its own modules."""
    places = {name: place for place, name in enumerate(order())}
    for path in sorted((PACKAGE / package).rglob("*.py")):
        mine = name_of(path)
        own = [place for name, place in places.items() if name == mine or name.startswith(f"{mine}.")]
        assert own, f"{mine} has no place in tests/layers.py"
        for name in imported_modules(path):
            if name == "crawler" or not name.startswith("crawler.") or name == "crawler._native":
                continue
            behind = [place for each, place in places.items() if each == name or each.startswith(f"{name}.")]
            assert behind, f"{mine} imports {name}, which has no place in tests/layers.py"
            assert not mine.startswith(f"{name}."), f"{mine} imports its own package: name the module"
            assert max(behind) < max(own) or name.startswith(f"{mine}."), f"{mine} imports {name}, which is above it"


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def imported_modules(path: Path) -> set[str]:
    """The same, down to the module that a name of a package is."""
    known = names_of_modules()
    found: set[str] = set()
    for node in import_statements(path):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        else:
            within = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= within & known or {node.module or ""}
    return found


def test_few_packages_import_each_other() -> None:
    inside = [path for path in modules() if path.parent != PACKAGE]
    names = {(name_of(path), name) for path in inside for name in imported_modules(path) if name.startswith("crawler.")}
    pairs = {(importing.split(".")[1], imported.split(".")[1]) for importing, imported in names}
    assert 40 < len({pair for pair in pairs if len(set(pair)) == 2 and (PACKAGE / pair[1]).is_dir()}) <= 60


@pytest.mark.parametrize("part", sorted(PURE))
def test_the_core_knows_no_socket_file_or_clock(part: str) -> None:
    place = PACKAGE / part
    paths = sorted(place.rglob("*.py")) if place.is_dir() else [place.with_suffix(".py")]
    for path in paths:
        may = ALLOWED.get(path.name, set())
        touched = ({name.split(".")[0] for name in imports(path)} & WORLD) - may
        assert not touched, f"{path.relative_to(ROOT)} imports {touched}"


def default_text() -> str:
    return (ROOT / "config" / "default.toml").read_text("utf-8")


def test_the_default_configuration_is_the_defaults() -> None:
    tables = tomllib.loads(default_text())
    assert as_tables(settings_from(tables)) == as_tables(Settings())


def test_every_setting_stands_in_the_default_configuration_with_its_reason() -> None:
    with_examples = tomllib.loads(default_text().replace("#: ", ""))
    settings_from(with_examples)
    keys = {key for site in with_examples.pop("site") for key in site}
    assert keys == set(SiteTable.__struct_fields__)
    (rule,) = with_examples.pop("priority")
    assert list(rule) == [name.rstrip("_") for name in PriorityRule.__struct_fields__]
    tables = as_tables(Settings())
    assert tables.pop("priority") == {"rules": []}
    assert tables.pop("site") == {"tables": []}
    known = {(table, key) for table, values in tables.items() for key in values}
    listed = {(table, key) for table, values in with_examples.items() for key in values}
    assert listed == known
    lines = default_text().splitlines()
    for before, line in itertools.pairwise(lines):
        if re.match(r"(#: )?[a-z_]+ = ", line):
            assert before.startswith("# "), f"no reason given for: {line}"


def test_flags_name_settings() -> None:
    tables = as_tables(Settings())
    for flag, (table, key, _) in FLAGS.items():
        assert key in tables[table], flag


def test_every_module_that_a_text_names_exists() -> None:
    texts = itertools.chain((ROOT / "tests").rglob("*.py"), modules(), (ROOT / "docs").rglob("*.md"), ROOT.glob("*.md"))
    named = {
        (name, path)
        for path in texts
        for name in re.findall(r"\b(?:benchmarks|crawler|tests)/[\w/]+\.py\b", path.read_text("utf-8"))
    }
    assert len({name for name, _ in named}) > 20, "they are found"
    assert {f"{path.relative_to(ROOT)}: {name}" for name, path in named if not (ROOT / name).is_file()} == set()
