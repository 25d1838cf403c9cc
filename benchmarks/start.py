"""The cost of starting: CPU time of commands that have almost nothing to do.

    python benchmarks/start.py [--rounds 15] [--before DIR] [--peer-python PYTHON]

CPU time of the process, user and system, medians; the commands take turns, so that a busy machine slows all of them
alike. ``DIR`` is another checkout, compared in the same run. The floor is Python itself; the peer is Scrapy's
cheapest command, in an interpreter that has it.

"crawl (1 page)" crawls a site of one page, from nothing to a finished job. "its libraries" imports what that crawl has
imported when it ends, less our own modules, and does nothing else: the difference is what starting and ending cost
above the libraries.
"""

from __future__ import annotations

import argparse
import contextlib
import http.server
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))

from benchmarks.kit.machine import describe_machine
from crawler.service.progress.text_table import text_table

ROOT = Path(__file__).resolve().parents[1]
LINE = b"http://example.com/\n"
PAGE = b"<!doctype html><title>One page</title><p>It has <a href='/'>one link</a>, to itself."

# Runs the program and notes which modules it has loaded at its end, in the order in which it loaded them.
NOTE = """
import atexit, pathlib, runpy, sys
notes = pathlib.Path(sys.argv.pop(1))
atexit.register(lambda: notes.write_text("\\n".join(sys.modules)))
runpy.run_module("crawler", run_name="__main__", alter_sys=True)
"""
# Imports them again, without ours: as the program does it, with no collector and one thread of OpenBLAS.
IMPORT = """
import gc, os, sys
gc.disable()
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
for name in open(sys.argv[1]).read().split():
    try:
        __import__(name)
    except ImportError:
        pass  # made by another module, not found by its name
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=15, metavar="N", help="runs of each command (15)")
    parser.add_argument("--before", type=Path, metavar="DIR", help="another checkout")
    parser.add_argument("--peer-python", metavar="PYTHON", help="an interpreter that has Scrapy")
    chosen = parser.parse_args()
    if chosen.rounds < 1:
        print(f"error: --rounds must be at least 1, not {chosen.rounds}", file=sys.stderr)
        return 2
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed program starts from compiled modules
    trees = {"now": ROOT} if chosen.before is None else {"now": ROOT, "before": chosen.before.resolve()}
    with tempfile.TemporaryDirectory() as scratch, _site() as address:
        runs: dict[tuple[str, str], tuple[list[str], Path]] = {}
        for when, tree in trees.items():
            for name, words in _commands(Path(scratch) / when, tree).items():
                runs[name, when] = [sys.executable, "-m", "crawler", *words], tree
            job, notes = str(Path(scratch) / when / "site"), str(Path(scratch) / when / "modules")
            crawl = [address, "--job", job, "--allow-private", "--quiet"]
            runs["crawl (1 page)", when] = [sys.executable, "-m", "crawler", *crawl], tree
            subprocess.run([sys.executable, "-c", NOTE, notes, *crawl], cwd=tree, check=True)
            shutil.rmtree(job)
            Path(notes).write_text("\n".join(filter(_is_library, Path(notes).read_text().split())))
            runs["its libraries", when] = [sys.executable, "-c", IMPORT, notes], tree
        runs["python -c pass", "now"] = ([sys.executable, "-c", "pass"], ROOT)
        if chosen.peer_python is not None:
            runs["scrapy version", "now"] = ([chosen.peer_python, "-m", "scrapy", "version"], ROOT)
        spent: dict[tuple[str, str], list[float]] = {run: [] for run in runs}
        for _ in range(chosen.rounds):
            for run, (command, directory) in runs.items():
                spent[run].append(_cpu(command, directory))
                shutil.rmtree(Path(scratch) / run[1] / "site", ignore_errors=True)
    print("\n".join(describe_machine(["aiohttp", "numpy", "rich"])))
    print(f"rounds    {chosen.rounds}, medians of CPU time in ms\n")
    names = dict.fromkeys(name for name, _ in runs)
    rows = [[name, *(_median(spent.get((name, when), [])) for when in ("before", "now"))] for name in names]
    above = {
        when: [
            whole - floor
            for whole, floor in zip(spent["crawl (1 page)", when], spent["its libraries", when], strict=True)
        ]
        for when in trees
    }
    rows.append(["crawl (1 page), above its libraries", *(_median(above.get(when, [])) for when in ("before", "now"))])
    print("\n".join(text_table(["command", "before", "now"], rows)))
    return 0


def _commands(scratch: Path, tree: Path) -> dict[str, list[str]]:
    """Commands that have little to do, with what they read."""
    scratch.mkdir()
    job, seen = scratch / "job", str(scratch / "seen")
    # A job of one URL, which cannot be fetched.
    _run(tree, "-", "--job", str(job), "--capacity", "1000", "--max-time", "1", data=b"http://127.0.0.1:1/\n")
    _run(tree, "dedup", "--filter", seen, "--capacity", "1000", data=LINE)
    return {
        "--help": ["--help"],
        "canon": ["canon"],
        "dedup": ["dedup"],
        "filter info FILE": ["filter", "info", seen],
        "plan": ["plan", "--urls", "1000000"],
        "stats JOB": ["stats", str(job)],
        "crawl (no seeds)": ["crawl", str(scratch / "nowhere"), "--job", str(job)],
    }


def _is_library(module: str) -> bool:
    return module.partition(".")[0] not in ("crawler", "__main__")


class _OnePage(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        found = self.path == "/"
        self.send_response(200 if found else 404)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(PAGE)))
        self.end_headers()
        self.wfile.write(PAGE)

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextlib.contextmanager
def _site() -> Iterator[str]:
    """Serve a site of one page, in a thread: its CPU time is not that of a command. Yield its address."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _OnePage) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/"
        server.shutdown()


def _median(seconds: list[float]) -> str:
    return f"{1000 * statistics.median(seconds):.0f}" if seconds else ""


def _cpu(command: list[str], directory: Path) -> float:
    """Seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, cwd=directory, input=LINE, capture_output=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _run(tree: Path, *words: str, data: bytes = b"") -> None:
    subprocess.run(
        [sys.executable, "-m", "crawler", *words], cwd=tree, input=data, capture_output=True, check=False, timeout=60
    )


if __name__ == "__main__":
    sys.exit(main())
