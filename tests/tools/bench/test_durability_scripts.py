"""The scripts behind docs/explanation/durability.md run, on small webs and for a short time."""

from __future__ import annotations

import io
import os
import re
import runpy
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, redirect_stdout
from pathlib import Path

import pytest

from tests.needs import need
from tests.program import PATIENCE, Started

# Each script makes several crawls.
pytestmark = pytest.mark.timeout(300)

SCRIPTS = Path(__file__).resolve().parents[3] / "benchmarks" / "durability"


SKIPPED = 77  # a script's exit code where the kernel forbids what it needs


def run(*words: str) -> str:
    """A program of its own, for what is not to reach this process or one that it has forked."""
    ran = subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False)
    if ran.returncode == SKIPPED:
        pytest.skip(ran.stderr.strip())
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def forked(script: str, *words: str) -> str:
    """The same, from a process that has loaded what the script imports: see ``tests/starter.py``."""
    name = f"benchmarks.durability.{script}"
    with closing(Started([*words], os.environ, subprocess.DEVNULL, module=name)) as process:
        out, err = process.communicate(timeout=2 * PATIENCE)
    assert process.returncode == 0, (out + err).decode()
    return out.decode()


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a script leaves in this process goes with the test: paths, words, and modules that lie beside it."""
    monkeypatch.setattr(sys, "path", [str(SCRIPTS), *sys.path])
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        path = getattr(sys.modules[name], "__file__", None)
        if path and Path(path).is_relative_to(SCRIPTS.parent):
            del sys.modules[name]


@pytest.mark.usefixtures("here")
def test_kills_at_random_moments_and_of_a_crawl_that_keeps_its_gaps(monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process: the crawls, and what is done beside them, are forked from the one that it has loaded already."""
    need("nginx", "nginx-light")
    words = ("--beside", "--pages", "60", "--kills", "1", "--polite-kills", "1", "--points", "none")
    monkeypatch.setattr(sys, "argv", ["kills.py", *words])
    with redirect_stdout(io.StringIO()) as said:
        runpy.run_path(str(SCRIPTS / "kills.py"), run_name="__main__")
    out = said.getvalue()
    rows = re.findall(r"^(random moments|per host 1, gap [\d.]+ s) +(.+)$", out, re.MULTILINE)
    assert len(rows) == 2
    for _, figures in rows:
        jobs, kills, missing, twice, unsound, retried, _, most = map(int, figures.split())
        assert jobs
        assert kills
        assert missing == twice == unsound == retried == 0
        assert most <= 128
    assert ", 0 overlapping, 0 earlier" in out
    assert re.search(r"^beside: \d+ URLs called safe, [1-9]\d* records shown by tail$", out, re.MULTILINE)


@pytest.mark.usefixtures("here")
def test_copies_of_a_web_that_changes_over_kills_of_both_sides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["mirror.py", "--kills", "2", "--pages", "6"])
    with redirect_stdout(io.StringIO()) as said:
        runpy.run_path(str(SCRIPTS / "mirror.py"), run_name="__main__")
    out = said.getvalue()
    for program in ("copy_sqlite.py", "copy_duckdb.py"):
        (figures,) = re.findall(rf"^{re.escape(program)} +(.+)$", out, re.MULTILINE)
        _, _, missing, stale, twice, undead, pages = map(int, figures.split())
        assert missing == stale == twice == undead == 0
        assert pages
    assert "each once and in order: yes" in out


def test_power_losses() -> None:
    out = forked("power", "--rounds", "6", "--first", "5000")
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
    out = run(str(SCRIPTS / "faults.py"), "--scenarios", "46", "--clocks", "1", "--only", *every)
    sums = dict(re.findall(r"^(scenarios|missing|twice|not whole|wrong) +(\d+)", out, re.MULTILINE))
    assert int(sums.pop("scenarios")) >= 7, out
    assert set(sums.values()) == {"0"}, out


def need_file_systems() -> None:
    """The programs; what the kernel forbids, the scripts say themselves."""
    need("mkfs.ext4", "e2fsprogs")
    need("mkfs.xfs", "xfsprogs")


BOTH = f"""
import sys
sys.path.insert(0, {str(SCRIPTS)!r})
import images, mounts
images.main(["--losses", "5", "--in-a-life", "1", "--pages", "40"])
mounts.main(["--rounds", "1", "--pages", "50"])
"""


def test_power_losses_on_images_of_file_systems_and_file_systems_taken_away() -> None:
    """One process for both scripts: it and what it forks its crawls from live in name spaces of their own."""
    need_file_systems()
    out = run("-c", BOTH)
    losses = re.findall(r"^(?:ext4|xfs).*, (?:written|flushed) +(.+)$", out, re.MULTILINE)
    assert len(losses) == 5
    for figures in losses:
        jobs, lost, missing, twice, unsound, _, _, _ = map(int, figures.split())
        assert jobs
        assert lost == 1
        assert missing == twice == unsound == 0
    taken = re.findall(r"^(?:ext4|xfs|tmpfs), [a-z -]+?(( +\d+){4})  1 x (\d)", out, re.MULTILINE)
    assert [(figures.split(), code) for figures, _, code in taken] == [
        (["1", "0", "0", "0"], code) for code in ("1", "1", "1", "0", "0", "0")
    ]


def test_soak() -> None:
    # In so short a time memory still grows: what is held to account here is the rest. With few hosts all connections
    # are open soon.
    out = forked("soak", "--seconds", "6", "--hosts", "8", "--interval", "0.5", "--allow", "500", "--last", "0.4")
    assert re.search(r"^SIGINT: exit 130", out, re.MULTILINE)
    assert re.search(r"^verify: exit 0", out, re.MULTILINE)
    assert re.search(r"^descriptors +\d", out, re.MULTILINE)


def test_a_large_job() -> None:
    out = forked("big", "--urls", "3000", "--finished", "1000")
    assert [int(code) for code in re.findall(r"^\D[^\n]+ (\d)$", out, re.MULTILINE)] == [3, 3, 0, 0, 0, 0, 0]


def test_stalls() -> None:
    out = forked("stall", "--megabytes", "2", "--seconds", "2", "--interval", "0.1", "--keys", "200000")
    row = re.search(r"^one checkpoint after the other(.+)$", out, re.MULTILINE)
    assert row is not None
    _, _, pages, generations, _ = map(float, row[1].split())
    assert pages > 0
    assert generations >= 1


def test_generations_that_name_what_was_stored_before() -> None:
    out = forked("renewal", "--megabytes", "3")
    for once in re.findall(r"after 1% new keys, \d times +([\d,]+) bytes", out):
        assert int(once.replace(",", "")) < 1_000_000, "the watched keys alone"
    each = re.findall(r"after 1% new keys, stored each time +([\d,]+) bytes", out)
    assert len(each) == 2
    assert min(int(one.replace(",", "")) for one in each) > 3_000_000
    assert len(re.findall(r"opened again, .+ to be replayed +[\d.]+ s", out)) == 6


def test_copies_for_replicas() -> None:
    out = forked("copy_cost", "--pages", "8", "--urls", "20", "--pairs", "1")
    figures = {name: float(value) for name, value in re.findall(r"^(\w+) +(\d+\.\d+) ", out, re.MULTILINE)}
    assert 0 < figures["carrier"] < 1
    assert figures["source"] > 0
    assert figures["loop"] > 0
    assert figures["process"] > 0
