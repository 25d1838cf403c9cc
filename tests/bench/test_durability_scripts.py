"""The scripts behind docs/explanation/durability.md run, on small webs and for a short time."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.needs import need

# Each script makes several crawls.
pytestmark = pytest.mark.timeout(300)

SCRIPTS = Path(__file__).resolve().parents[2] / "benchmarks" / "durability"


def run(script: str, *words: str) -> str:
    ran = subprocess.run([sys.executable, str(SCRIPTS / script), *words], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def test_kills_at_random_moments_and_of_a_crawl_that_keeps_its_gaps() -> None:
    need("nginx", "nginx-light")
    out = run("kills.py", "--pages", "100", "--kills", "2", "--polite-kills", "1", "--points", "none")
    rows = re.findall(r"^(random moments|per host 1, gap [\d.]+ s) +(.+)$", out, re.MULTILINE)
    assert len(rows) == 2
    for _, figures in rows:
        jobs, kills, missing, twice, unsound, retried, _, most = map(int, figures.split())
        assert jobs
        assert kills
        assert missing == twice == unsound == retried == 0
        assert most <= 64
    assert ", 0 overlapping, 0 earlier" in out


def test_power_losses() -> None:
    out = run("power.py", "--rounds", "10", "--first", "5000")
    assert re.search(r"^missing +0$", out, re.MULTILINE)
    assert re.search(r"^twice +0$", out, re.MULTILINE)


def test_stalls() -> None:
    out = run("stall.py", "--megabytes", "8", "--seconds", "3", "--keys", "2000000")
    row = re.search(r"^one checkpoint after the other(.+)$", out, re.MULTILINE)
    assert row is not None
    _, _, pages, generations, _ = map(float, row[1].split())
    assert pages > 0
    assert generations >= 1


def test_generations_that_name_what_was_stored_before() -> None:
    out = run("renewal.py", "--megabytes", "8")
    for once in re.findall(r"after 1% new keys, \d times +([\d,]+) bytes", out):
        assert int(once.replace(",", "")) < 1_000_000, "the watched keys alone"
    each = re.findall(r"after 1% new keys, stored each time +([\d,]+) bytes", out)
    assert len(each) == 2
    assert min(int(one.replace(",", "")) for one in each) > 8_000_000
    assert len(re.findall(r"opened again, .+ to be replayed +[\d.]+ s", out)) == 6
