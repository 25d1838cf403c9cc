"""The scripts that compare crawlers run, on a small made web, and count what there is."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.needs import need

# Each script makes several crawls.
pytestmark = pytest.mark.timeout(300)

SCRIPTS = Path(__file__).resolve().parents[3] / "benchmarks" / "crawl"


def table(script: str, *words: str) -> dict[str, list[str]]:
    """The figures of a script's table, by crawler."""
    need("nginx", "nginx-light")
    ran = subprocess.run([sys.executable, str(SCRIPTS / script), *words], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    rows = [line for line in ran.stdout.splitlines() if re.match(r"(crawler|floor) ", line)]
    return {words[0]: words[1:] for words in map(str.split, rows)}


@pytest.mark.parametrize("kind", [[], ["--small"]], ids=["manuals", "small pages"])
def test_cost_of_a_crawl(kind: list[str]) -> None:
    rows = table("run.py", "--pages", "100", "--rounds", "1", *kind)
    assert [*rows] == ["floor", "crawler"]
    for figures in rows.values():
        assert figures[-2:] == ["100", "1"], "every page of the made web, once"
        assert float(figures[0]) > 0
    assert rows["crawler"][4] == "1.00"


def test_a_killed_crawl_loses_nothing_and_repeats_only_what_was_in_flight() -> None:
    rows = table("kill.py", "--pages", "600", "--after", "150")
    served, never_asked, missing, again, twice = map(int, rows["crawler"][:5])
    assert served >= 150
    assert rows["crawler"][5:] == ["[-9,", "0]"], "the kill came too late to be one"
    assert never_asked == missing == twice == 0
    assert again <= 64
