"""The cost of starting: CPU time of commands that have almost nothing to do.

    python benchmarks/start.py [--rounds 15] [--before DIR] [--peer-python PYTHON]

CPU time of the process, user and system, medians; the commands take turns, so that a busy machine slows all of them
alike. ``DIR`` is another checkout, compared in the same run. The floor is Python itself; the peer is Scrapy's
cheapest command, in an interpreter that has it.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from crawler.bench.machine import describe_machine
from crawler.progress.text_table import text_table

ROOT = Path(__file__).resolve().parents[1]
LINE = b"http://example.com/\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--before", type=Path, metavar="DIR", help="another checkout")
    parser.add_argument("--peer-python", metavar="PYTHON", help="an interpreter that has Scrapy")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        job = Path(scratch) / "job"
        _stopped_job(job)
        commands = {
            "--help": ["--help"],
            "canon": ["canon"],
            "dedup": ["dedup"],
            "filter info FILE": ["filter", "info", _filter(Path(scratch))],
            "plan": ["plan", "--urls", "1000000"],
            "stats JOB": ["stats", str(job)],
            "crawl (no seeds)": ["crawl", str(Path(scratch) / "nowhere"), "--job", str(job)],
        }
        runs = {(name, "now"): ([sys.executable, "-m", "crawler", *words], ROOT) for name, words in commands.items()}
        if chosen.before is not None:
            for name, words in commands.items():
                runs[name, "before"] = ([sys.executable, "-m", "crawler", *words], chosen.before)
        runs["python -c pass", "now"] = ([sys.executable, "-c", "pass"], ROOT)
        if chosen.peer_python is not None:
            runs["scrapy version", "now"] = ([chosen.peer_python, "-m", "scrapy", "version"], ROOT)
        spent: dict[tuple[str, str], list[float]] = {run: [] for run in runs}
        for _ in range(chosen.rounds):
            for run, (command, directory) in runs.items():
                spent[run].append(_cpu(command, directory))
    print("\n".join(describe_machine(["aiohttp", "numpy", "rich"])))
    print(f"rounds    {chosen.rounds}, medians of CPU time in ms\n")
    rows = []
    for name in dict.fromkeys(name for name, _ in runs):
        cells = [
            f"{1000 * statistics.median(spent[name, when]):.0f}" if (name, when) in spent else ""
            for when in ("before", "now")
        ]
        rows.append([name, *cells])
    print("\n".join(text_table(["command", "before", "now"], rows)))


def _cpu(command: list[str], directory: Path) -> float:
    """Seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, cwd=directory, input=LINE, capture_output=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _run(*words: str, data: bytes = b"") -> None:
    subprocess.run(
        [sys.executable, "-m", "crawler", *words], cwd=ROOT, input=data, capture_output=True, check=False, timeout=60
    )


def _stopped_job(job: Path) -> None:
    """A job of one URL, which cannot be fetched."""
    _run("-", "--job", str(job), "--capacity", "1000", "--max-time", "1", data=b"http://127.0.0.1:1/\n")


def _filter(directory: Path) -> str:
    path = str(directory / "seen")
    _run("dedup", "--filter", path, "--capacity", "1000", data=LINE)
    return path


if __name__ == "__main__":
    main()
