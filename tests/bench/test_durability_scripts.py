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


SKIPPED = 77  # a script's exit code where the kernel forbids what it needs


def run(script: str, *words: str) -> str:
    ran = subprocess.run([sys.executable, str(SCRIPTS / script), *words], capture_output=True, text=True, check=False)
    if ran.returncode == SKIPPED:
        pytest.skip(ran.stderr.strip())
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def test_kills_at_random_moments_and_of_a_crawl_that_keeps_its_gaps() -> None:
    need("nginx", "nginx-light")
    out = run("kills.py", "--beside", "--pages", "60", "--kills", "1", "--polite-kills", "1", "--points", "none")
    rows = re.findall(r"^(random moments|per host 1, gap [\d.]+ s) +(.+)$", out, re.MULTILINE)
    assert len(rows) == 2
    for _, figures in rows:
        jobs, kills, missing, twice, unsound, retried, _, most = map(int, figures.split())
        assert jobs
        assert kills
        assert missing == twice == unsound == retried == 0
        assert most <= 64
    assert ", 0 overlapping, 0 earlier" in out
    assert re.search(r"^beside: \d+ URLs called safe, [1-9]\d* records shown by tail$", out, re.MULTILINE)


def test_power_losses() -> None:
    out = run("power.py", "--rounds", "6", "--first", "5000")
    assert re.search(r"^missing +0$", out, re.MULTILINE)
    assert re.search(r"^twice +0$", out, re.MULTILINE)


def test_faults_of_every_kind_of_call() -> None:
    need("gcc", "gcc libc6-dev")
    every = (
        "write half",
        "pwrite ENOSPC",
        "fdatasync EIO",
        "open EMFILE",
        "rename EROFS",
        "all EIO",
        "clock +1 h during",
    )
    out = run("faults.py", "--scenarios", "46", "--clocks", "1", "--only", *every)
    sums = dict(re.findall(r"^(scenarios|missing|twice|not whole|wrong) +(\d+)", out, re.MULTILINE))
    assert int(sums.pop("scenarios")) >= 7, out
    assert set(sums.values()) == {"0"}, out


def need_file_systems() -> None:
    """The programs; what the kernel forbids, the scripts say themselves."""
    need("mkfs.ext4", "e2fsprogs")
    need("mkfs.xfs", "xfsprogs")


def test_power_losses_on_images_of_file_systems() -> None:
    need_file_systems()
    out = run("images.py", "--losses", "5", "--in-a-life", "1", "--pages", "100")
    rows = re.findall(r"^(?:ext4|xfs).*, (?:written|flushed) +(.+)$", out, re.MULTILINE)
    assert len(rows) == 5
    for figures in rows:
        jobs, losses, missing, twice, unsound, _, _, _ = map(int, figures.split())
        assert jobs
        assert losses == 1
        assert missing == twice == unsound == 0


def test_file_systems_taken_away() -> None:
    need_file_systems()
    out = run("mounts.py", "--rounds", "1")
    rows = re.findall(r"^(?:ext4|xfs|tmpfs), [a-z -]+?(( +\d+){4})  1 x (\d)", out, re.MULTILINE)
    assert [(figures.split(), code) for figures, _, code in rows] == [
        (["1", "0", "0", "0"], code) for code in ("1", "1", "1", "0", "0", "0")
    ]


def test_soak() -> None:
    # In so short a time memory still grows: what is held to account here is the rest. With few hosts all connections
    # are open soon.
    out = run("soak.py", "--seconds", "6", "--hosts", "60", "--interval", "0.5", "--allow", "500", "--last", "0.4")
    assert re.search(r"^SIGINT: exit 130", out, re.MULTILINE)
    assert re.search(r"^verify: exit 0", out, re.MULTILINE)
    assert re.search(r"^descriptors +\d", out, re.MULTILINE)


def test_a_large_job() -> None:
    out = run("big.py", "--urls", "3000", "--finished", "1000")
    assert [int(code) for code in re.findall(r"^\D[^\n]+ (\d)$", out, re.MULTILINE)] == [3, 3, 0, 0, 0, 0, 0]


def test_stalls() -> None:
    out = run("stall.py", "--megabytes", "8", "--seconds", "2", "--keys", "200000")
    row = re.search(r"^one checkpoint after the other(.+)$", out, re.MULTILINE)
    assert row is not None
    _, _, pages, generations, _ = map(float, row[1].split())
    assert pages > 0
    assert generations >= 1


def test_generations_that_name_what_was_stored_before() -> None:
    out = run("renewal.py", "--megabytes", "3")
    for once in re.findall(r"after 1% new keys, \d times +([\d,]+) bytes", out):
        assert int(once.replace(",", "")) < 1_000_000, "the watched keys alone"
    each = re.findall(r"after 1% new keys, stored each time +([\d,]+) bytes", out)
    assert len(each) == 2
    assert min(int(one.replace(",", "")) for one in each) > 3_000_000
    assert len(re.findall(r"opened again, .+ to be replayed +[\d.]+ s", out)) == 6
