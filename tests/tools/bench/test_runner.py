"""``crawler bench``: the benchmark that is part of the package, and the scripts that are not."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from xml.etree import ElementTree

import pytest

import crawler
from crawler.tools.bench.scripts import CHECKOUT, HELPERS, STUDIES, scripts
from tests import program
from tests.program import ROOT

PACKAGE = Path(crawler.__file__).resolve().parent


def bench(*words: str | Path, cwd: Path = ROOT) -> tuple[int, str, str]:
    ran = program.crawler("bench", *words, directory=cwd)
    return ran.code, ran.out, ran.err


def installed_bench(root: Path, *words: str, cwd: Path | None = None) -> tuple[int, str, str]:
    """By an interpreter of its own, which finds no package but the one in ``root``."""
    ran = subprocess.run(
        [sys.executable, "-P", "-m", "crawler", "bench", *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        env={"PYTHONPATH": str(root)},
    )
    return ran.returncode, ran.stdout, ran.stderr


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package alone, as where it is installed."""
    folder = tmp_path_factory.mktemp("installed")
    shutil.copytree(PACKAGE, folder / PACKAGE.name, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def test_a_crawl_of_the_made_web_is_measured_where_the_package_is_installed(installed: Path, tmp_path: Path) -> None:
    words = ("crawl", "--pages", "60", "--hosts", "2", "--no-peers")
    code, out, err = installed_bench(installed, *words, cwd=tmp_path)
    assert (code, err) == (0, "")
    assert out.startswith("machine ")
    table = out.partition("CPU a page\n")[0]
    for name in ("floor", "crawler"):
        (row,) = [line.split()[1:] for line in table.splitlines() if line.startswith(f"{name} ")]
        pages, missing, twice, *others = (float(cell.replace(",", "")) for cell in row)
        assert (pages, missing, twice) == (60, 0, 0)
        assert min(others[:4]) > 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("study", STUDIES)
def test_a_study_says_that_it_needs_the_source_where_the_package_is_installed(installed: Path, study: str) -> None:
    code, out, err = installed_bench(installed, study, "--keys", "500")
    assert (code, out) == (2, "")
    assert re.fullmatch(rf"crawler: error: {study} is a script in benchmarks/ .*\n", err)


def test_every_script_is_known_by_its_path() -> None:
    found = {script.name: script for script in scripts()}
    assert {*STUDIES, "frontier/take", "crawl/run", "start"} <= {*found}
    for name, script in found.items():
        assert script.about, name
        assert script.path.is_relative_to(CHECKOUT)
    assert "studies/chance" not in found, "a module that is no script"
    for helper in HELPERS:
        assert helper not in found
        assert (CHECKOUT / f"{helper.replace('-', '_')}.py").is_file()


def test_without_a_name_the_benchmarks_are_listed() -> None:
    code, out, _ = bench()
    assert code == 0
    assert all(f"    {name}" in out for name in ("crawl", "hashes", "bits-per-key", "membership", "frontier/take"))


@pytest.mark.parametrize(("study", "row"), [("hashes", "BP "), ("bits-per-key", "15 ")])
def test_a_study_prints_the_machine_and_its_table(study: str, row: str) -> None:
    code, out, err = bench(study, "--keys", "500")
    assert (code, err) == (0, "")
    assert out.startswith("machine ")
    assert f"\n{row}" in out


def test_a_study_writes_its_table_and_plot(tmp_path: Path) -> None:
    code, out, _ = bench("membership", "--keys", "400", "--out", "membership.svg", cwd=tmp_path)
    assert code == 0
    assert (tmp_path / "membership.txt").read_text("utf-8") == out
    assert "set of str" in out
    assert ElementTree.parse(tmp_path / "membership.svg").getroot().tag == "{http://www.w3.org/2000/svg}svg"


@pytest.mark.parametrize(
    "words",
    [
        ["nothing"],
        ["crawl", "--pages", "many"],
        ["crawl", "--pages", "1"],
        ["crawl", "--pages", "100000001"],
        ["crawl", "--hosts", "0"],
        ["crawl", "--mode", "ring"],
        ["crawl", "--plot", "no/such/directory/plot.svg"],
        ["crawl", "--plot", "."],
        ["start", "--rounds", "0"],
    ],
)
def test_bad_words_are_answered_in_one_line(words: Sequence[str]) -> None:
    code, out, err = bench(*words)
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 1


def test_a_number_outside_of_its_bounds_is_told_them() -> None:
    code, _, err = bench("crawl", "--page-size", "-5")
    assert (code, len(err.splitlines())) == (2, 1)
    assert "between 1 and 1,000,000" in err


@pytest.mark.parametrize(
    "words",
    [
        ["hashes", "--keys", "many"],
        ["hashes", "--keys", "1"],
        ["membership", "--out", "plot.png"],
        ["membership", "--out", "no/such/directory/plot.svg"],
    ],
)
def test_a_study_says_which_of_its_words_is_bad(words: Sequence[str], tmp_path: Path) -> None:
    code, out, err = bench(*words, cwd=tmp_path)
    assert (code, out) == (2, "")
    assert words[1] in err.splitlines()[-1]


@pytest.mark.parametrize("path", sorted(CHECKOUT.rglob("*.py")), ids=lambda path: str(path.relative_to(CHECKOUT)))
def test_the_help_of_a_script_can_be_printed(path: Path) -> None:
    """argparse fills in what follows a percent sign, and fails where that is nothing that it knows."""
    for call in ast.walk(ast.parse(path.read_text("utf-8"))):
        for keyword in call.keywords if isinstance(call, ast.Call) else ():
            for part in ast.walk(keyword.value) if keyword.arg == "help" else ():
                if isinstance(part, ast.Constant) and isinstance(part.value, str):
                    assert "%" not in re.sub(r"%%|%\(\w+\)s", "", part.value), f"{path}:{part.lineno}"


def test_the_help_of_a_script_is_printed() -> None:
    code, out, err = bench("crawl/instructions", "--help")
    assert (code, err) == (0, "")
    assert "more than 5% more" in out


@pytest.mark.parametrize("path", sorted(CHECKOUT.rglob("*.py")), ids=lambda path: str(path.relative_to(CHECKOUT)))
def test_what_a_script_imports_of_the_package_is_there(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "crawler":
            module = import_module(node.module or "")
            for alias in node.names:
                if not hasattr(module, alias.name):
                    import_module(f"{node.module}.{alias.name}")
