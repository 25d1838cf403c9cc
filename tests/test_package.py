"""The wheel: what `pip install` brings, and what the package index shows of it."""

from __future__ import annotations

import email
import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.documents import ROOT
from tests.needs import need, need_version

# A wheel is built and installed.
pytestmark = pytest.mark.timeout(300)

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def _tree(directory: Path) -> Path:
    """A copy of what a wheel is built from."""
    tree, unwanted = directory / "tree", shutil.ignore_patterns("__pycache__", "*.so")
    for name in ("crawler", "config", "native"):
        shutil.copytree(ROOT / name, tree / name, symlinks=True, ignore=unwanted)
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tree / name)
    return tree


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[zipfile.ZipFile]:
    """Built from a copy of the tree, without the network: a build leaves files in the tree it builds from."""
    need_version("setuptools", 77)
    tree, out = _tree(tmp_path_factory.mktemp("tree")), tmp_path_factory.mktemp("wheels")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, "--wheel-dir", out, tree], check=True)
    (built,) = out.iterdir()
    with zipfile.ZipFile(built) as opened:
        yield opened


def test_the_wheel_holds_the_program_and_the_files_for_others(wheel: zipfile.ZipFile) -> None:
    names = set(wheel.namelist())
    assert {
        "crawler/__main__.py",
        "crawler/py.typed",
        "crawler/service/dashboard/page/index.html",
        "crawler/job/metrics/charts/uplot/uPlot.iife.min.js",
        "crawler/job/metrics/charts/uplot/LICENSE",
        "crawler/inspect/export/report.css",
    } <= names
    pages = {str(path.relative_to(ROOT)) for path in (ROOT / "crawler/tools/demo/pages").rglob("*.*")}
    assert len(pages) > 50
    assert pages <= names
    files = {path.relative_to(ROOT): path for path in (ROOT / "config").rglob("*") if path.is_file()}
    assert len(files) > 4
    for name, path in files.items():
        shipped = "crawler/config_files" / name.relative_to("config")
        assert wheel.read(str(shipped)) == path.read_bytes()
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {"crawler"}


def test_the_wheel_holds_the_part_in_c_for_every_later_python(wheel: zipfile.ZipFile) -> None:
    need("gcc", "gcc")
    (built,) = (name for name in wheel.namelist() if name.startswith("crawler/_native") and name.endswith(".so"))
    assert built == "crawler/_native.abi3.so"
    (about,) = (name for name in wheel.namelist() if name.endswith(".dist-info/WHEEL"))
    assert b"Tag: cp311-abi3-" in wheel.read(about)


def test_without_a_compiler_the_program_is_installed_without_that_part(tmp_path: Path) -> None:
    need_version("setuptools", 77)
    tree = _tree(tmp_path)
    without = os.environ | {"CC": "/nowhere/cc"}
    command = [sys.executable, "setup.py", "--quiet", "build", "--build-base", tmp_path / "build"]
    subprocess.run(command, cwd=tree, env=without, check=True, capture_output=True)
    assert list((tmp_path / "build").rglob("crawler/__main__.py"))
    assert not list((tmp_path / "build").rglob("_native*.so"))


def test_the_metadata_are_complete(wheel: zipfile.ZipFile) -> None:
    (name,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    metadata = email.message_from_bytes(wheel.read(name))
    assert metadata["Name"] == PROJECT["name"] != "crawler", "that name is taken on PyPI"
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Author"]
    assert metadata["Keywords"]
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert sorted(metadata.get_all("Provides-Extra") or []) == [
        "bucket",
        "dev",
        "identity",
        "mcp",
        "parquet",
        "re2",
        "redis",
        "scrapy",
        "socks",
        "sql",
        "trafilatura",
        "warc",
    ]
    assert metadata.get_payload(decode=True) == (ROOT / "README.md").read_bytes()
    licence = name.replace("METADATA", "licenses/LICENSE")
    assert wheel.read(licence) == (ROOT / "LICENSE").read_bytes()


def test_the_console_script_is_the_module(wheel: zipfile.ZipFile) -> None:
    (name,) = (name for name in wheel.namelist() if name.endswith("entry_points.txt"))
    scripts = ["crawler = crawler.__main__:run", "frontier-crawler = crawler.__main__:run"]
    assert wheel.read(name).decode().split("\n")[:3] == ["[console_scripts]", *scripts]
