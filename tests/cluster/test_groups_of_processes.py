"""The gap of addresses over the partitions of several processes, one of which is killed, judged by the servers;
``benchmarks/partitions/groups.py`` has the long form."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "benchmarks" / "partitions" / "groups.py"


def test_the_gap_of_an_address_holds_over_processes(tmp_path: Path) -> None:
    size = ("--names", "48", "--addresses", "6", "--delay", "0.2", "--partitions", "2", "--kills", "1")
    ran = subprocess.run(
        [sys.executable, SCRIPT, *size, "--least", "0", "--keep", tmp_path / "run"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "exit codes of first {0: 1}" in ran.stdout, ran.stdout
    assert "1 kills" in ran.stdout, ran.stdout
    figures = re.search(r"\n +(\d+) +(\d+) +(\d+) +(\d+) +\S+%", ran.stdout)
    assert figures is not None, ran.stdout
    missing, twice, _, short = map(int, figures.groups())
    assert (missing, twice, short) == (0, 0, 0)
