"""Compares `crawler check` with linkchecker: the broken links that each finds on the same site, and what that takes.

    pip install linkchecker
    python benchmarks/check.py URL... [--linkchecker PROGRAM] [--keep DIRECTORY]

Both check pages, and what these embed, on the hosts of the URLs alone: no other host is asked. Neither waits between
requests; linkchecker has ten threads, as by default.
"""

from __future__ import annotations

import argparse
import csv
import io
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from urllib.parse import urljoin

sys.path.append(str(Path(__file__).resolve().parents[1]))

from benchmarks.kit.machine import describe_machine
from crawler.url.urls.canonicaliser import Canonical, Canonicaliser

_RATE = "[checking]\nmaxrequestspersecond=100000\n"
_FLAGS = ("--no-external", "--images", "--delay", "0", "--per-host", "10", "--allow-private", "--quiet")
_SHOWN = 100


def ran(words: Sequence[str | Path], here: Path) -> str:
    """What a command prints; its times are printed here."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run([str(word) for word in words], cwd=here, capture_output=True, text=True, check=False)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime
    print(f"  {time.monotonic() - start:8.1f} s wall {cpu:8.1f} s CPU   exit code {done.returncode}")
    (here / f"{Path(words[0]).name}.err").write_text(done.stderr)
    return done.stdout


def ours(urls: list[str], here: Path) -> dict[str, str]:
    """The broken links by `crawler check`, with the reasons."""
    print("crawler check")
    words = (
        sys.executable,
        "-m",
        "crawler",
        "check",
        *urls,
        *_FLAGS,
        "--csv",
        here / "ours.csv",
        "--job",
        here / "job",
    )
    print(" ", ran(words, Path(__file__).resolve().parents[1]).splitlines()[-1])
    with open(here / "ours.csv", newline="") as stream:
        rows = list(csv.DictReader(stream))
    return {row["url"]: row["reason"] for row in rows if row["result"] == "broken"}


def theirs(urls: list[str], program: str, here: Path) -> dict[str, str]:
    """The same by linkchecker. A link is what the page has, as here, and not where it leads."""
    print("linkchecker")
    (here / "linkchecker.rc").write_text(_RATE)
    said = ran((program, "-f", here / "linkchecker.rc", "--no-status", "-o", "csv", *urls), here)
    (here / "theirs.csv").write_text(said)
    lines = [line for line in said.splitlines() if line and not line.startswith("#")]
    canonicaliser, found = Canonicaliser(), dict[str, str]()
    for row in csv.DictReader(io.StringIO("\n".join(lines)), delimiter=";"):
        if row["valid"] == "False":
            href = urljoin(row["baseref"] or row["parentname"], row["urlname"])
            url = canonicaliser.canonicalise(href)
            found[url.href if isinstance(url, Canonical) else href] = row["result"]
    return found


def show(title: str, urls: Iterable[str], reasons: dict[str, str]) -> None:
    """Print the URLs with the reasons."""
    ordered = sorted(urls)
    print(f"{title}: {len(ordered)}")
    for url in ordered[:_SHOWN]:
        print(f"  {url}  {reasons[url]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("urls", nargs="+", metavar="URL")
    parser.add_argument("--linkchecker", default="linkchecker", metavar="PROGRAM")
    parser.add_argument("--keep", type=Path, metavar="DIRECTORY", help="an empty directory for what both print")
    arguments = parser.parse_args()
    print("\n".join(describe_machine()))
    version = subprocess.run([arguments.linkchecker, "--version"], capture_output=True, text=True, check=True)
    print(f"peer      {version.stdout.splitlines()[0]}\n")
    with tempfile.TemporaryDirectory() as made:
        here = (arguments.keep or Path(made)).absolute()
        here.mkdir(exist_ok=True)
        mine = ours(arguments.urls, here)
        other = theirs(arguments.urls, arguments.linkchecker, here)
    print(f"\nbroken links of both: {len(mine.keys() & other.keys())}")
    show("of crawler check alone", mine.keys() - other.keys(), mine)
    show("of linkchecker alone", other.keys() - mine.keys(), other)


if __name__ == "__main__":
    main()
