"""The part in C under the sanitizers of the compiler, without a warning: it reads and writes nothing that is not its
own, whatever a page holds, and wherever a seen-set lies."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.documents import ROOT
from tests.needs import miss, need

FLAGS = ("-std=c11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-DPy_LIMITED_API=0x030B0000", "-fPIC", "-shared")
SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer")
TESTS = (
    "tests/web/links/test_tokens.py",
    "tests/web/links/test_extract.py",
    "tests/web/links/test_encoding.py",
    "tests/seen/filters/test_compiled.py",
    "tests/seen/filters/test_digests.py",
    "tests/seen/exact/test_recent.py",
    "tests/frontier/traps/test_copies.py",
)
# The tests run with this build of the module in the place of the usual one.
RUN = """
import importlib.machinery, importlib.util, sys
import crawler, pytest
loader = importlib.machinery.ExtensionFileLoader("crawler._native", sys.argv[1])
module = importlib.util.module_from_spec(importlib.util.spec_from_loader("crawler._native", loader))
loader.exec_module(module)
sys.modules["crawler._native"] = crawler._native = module
left_out = (
    "time", "without_the_module", "burden", "thirty_thousand", "cheap", "as_long_as", "other_sources", "reference",
    "simhash", "blake2b and both", "misread",
)
wanted = " and ".join(f"not ({each})" for each in left_out)
sys.exit(pytest.main(["-q", "-n", "0", "-p", "no:cacheprovider", "--timeout=0", "-k", wanted, *sys.argv[2:]]))
"""


def build(directory: Path) -> Path:
    """The module with the sanitizers."""
    compiler, headers = need("gcc", "gcc"), Path(sysconfig.get_paths()["include"])
    if not (headers / "Python.h").exists():
        miss("Python.h", "python3-dev")
    built = directory / "_native.abi3.so"
    sources = sorted((ROOT / "native").glob("*.c"))
    subprocess.run([compiler, *FLAGS, *SANITIZERS, f"-I{headers}", *sources, "-o", built], check=True)
    return built


@pytest.mark.timeout(300)
def test_nothing_is_read_or_written_out_of_bounds(tmp_path: Path) -> None:
    library = subprocess.run(
        [need("gcc", "gcc"), "-print-file-name=libasan.so"], capture_output=True, text=True, check=True
    ).stdout.strip()
    if not Path(library).is_absolute():
        miss("libasan.so", "gcc")
    environment = os.environ | {
        "LD_PRELOAD": library,
        "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1",  # the interpreter itself leaves memory behind
        "PYTHONMALLOC": "malloc",  # so that a page has bounds that the sanitizer sees
        "PYTHONPATH": str(ROOT),
        "CRAWLER_NATIVE": "on",  # also where the tests around this one are told to do without the module
    }
    run = subprocess.run(
        [sys.executable, "-c", RUN, build(tmp_path), *TESTS],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, (run.stdout + run.stderr)[-8_000:]
    assert " passed" in run.stdout
