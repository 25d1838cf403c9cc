"""The scripts in ``benchmarks/`` find what they import, and print their help."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.program import ROOT

# In one process: what they share is imported once.
CODE = """
import contextlib, io, pathlib, runpy, sys, traceback
root = pathlib.Path(sys.argv[1])
path, modules, failed = sys.path[1:], set(sys.modules), 0
for script in sorted(root.rglob("*.py")):
    text = script.read_text("utf-8")
    name = "__main__" if '"__main__"' in text and "ArgumentParser(" in text else "imported"
    found = path if name == "__main__" else [*path, str(root.parent)]  # a script finds what it needs by itself
    sys.path[:], sys.argv = [str(script.parent), *found], [str(script), "--help"]
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said):
            runpy.run_path(str(script), run_name=name)
    except SystemExit as end:
        failed += end.code not in (None, 0) or "usage: " not in said.getvalue()
    except BaseException:
        traceback.print_exc()
        failed += 1
    for each in set(sys.modules) - modules:
        if each.startswith("benchmarks") or str(getattr(sys.modules[each], "__file__", "")).startswith(str(root)):
            del sys.modules[each]
sys.exit(failed)
"""


@pytest.mark.timeout(300)
def test_every_script_can_be_imported_and_prints_its_help() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", CODE, str(ROOT / "benchmarks")], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
