"""The keyword arguments of a crawl have types, which type checkers and editors know."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from benchmarks.house.crawl_options import WRITTEN, made
from crawler.library.keyword_options import HOOKS
from tests.documents import ROOT

PROGRAM = """
import crawler

def size(page: crawler.Page) -> dict[str, int]:
    return {"size": len(page.body)}

def wanted(link: crawler.Link) -> bool:
    return bool(link.text)

"""
LIBRARY = ("__init__", "library/crawl_loop", "library/crawl_options", "library/blocking")
RIGHT = ['max_time="5m", output=["links", "text"], filter_link=wanted, types=["*/*"], progress=True, config=None', ""]
WRONG = {"delya": "3", "max_pages": "[3]", "scope": '"page"', "output": '["wacz"]', "on_page": "size"}


def test_the_file_of_types_is_that_of_the_flags() -> None:
    assert WRITTEN.read_text("utf-8") == made(), "run benchmarks/house/crawl_options.py --record"
    assert all(f"\n    {name}: " in made() for name in HOOKS)


def test_mypy_knows_the_arguments(tmp_path: Path) -> None:
    given = [*RIGHT, *(f"{name}={value}" for name, value in WRONG.items())]
    calls = [f'crawler.run(size, "job", "http://h.test/", threads=2, {each})\n' for each in given]
    (program := tmp_path / "program.py").write_text(PROGRAM + "".join(calls))
    files = [str(program), *(f"crawler/{name}.py" for name in LIBRARY)]
    # The rest of the package, whose types the arguments do not need, would take a minute.
    options = ["--config-file=", "--follow-imports=skip", "--explicit-package-bases", f"--cache-dir={tmp_path}"]
    command = [sys.executable, "-m", "mypy", *options, *files]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=110, check=False)
    first = PROGRAM.count("\n") + 1 + len(RIGHT)
    found = re.findall(r"^(.*):(\d+): error: ", ran.stdout, re.MULTILINE)
    assert found == [(str(program), str(first + number)) for number in range(len(WRONG))], ran.stdout
