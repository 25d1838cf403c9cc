"""Kill a program that loops over a crawl, again and again, and ask whether each page came to it and has one record.

    python benchmarks/durability/loop.py [--pages 600] [--kills 400,700,900] [--seeds FILE] [--tasks 64] [--sleep 0.05]

Without ``--seeds``, a file with a URL a line, it serves a site of ``--pages`` pages on loopback. The program has
``--tasks`` tasks, each of which notes the page that it gets, sleeps, and asks for the next one. It kills itself after
so many pages, is started again, and goes on to the end the last time. Ends with 1 if a page did not come, came under
two names, has no record, two, or one without its data.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))

from benchmarks.kit.machine import describe_machine
from tests.site import Site, tree

PROGRAM = """
import asyncio, os, signal, sys
import crawler

OPTIONS = {"allow_private": True, "delay": 0.0, "per_host": 16, "concurrency": 64}


async def main(job, seeds, log, pages, tasks, sleep):
    out = open(log, "a", buffering=1)

    async def work(crawl):
        nonlocal pages
        async for page in crawl:
            out.write(f"{page.id} {page.url}\\n")
            await asyncio.sleep(sleep)
            page.data["size"] = len(page.body)
            pages -= 1
            if pages == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    with open(seeds) as lines:
        urls = [line.strip() for line in lines if line.strip()]
    everything = {"types": ["*/*"], "statuses": ["2xx", "4xx", "5xx"]}
    async with crawler.Crawl(job, urls, **everything, **OPTIONS) as crawl:
        await asyncio.gather(*(work(crawl) for _ in range(tasks)))


job, seeds, log, pages, tasks, sleep = sys.argv[1:]
asyncio.run(main(job, seeds, log, int(pages), int(tasks), float(sleep)))
"""


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pages", type=int, default=600, help="of the site that is served (600)")
    parser.add_argument("--kills", default="100,150,200", help="after so many pages each (100,150,200)")
    parser.add_argument("--seeds", type=Path, help="URLs of a web that is up, one a line")
    parser.add_argument("--tasks", type=int, default=64, help="(64)")
    parser.add_argument("--sleep", type=float, default=0.05, help="seconds that a task takes for a page (0.05)")
    chosen = parser.parse_args(words)
    for line in describe_machine():
        print(line)
    with tempfile.TemporaryDirectory(prefix="loop-") as name, contextlib.ExitStack() as stack:
        here = Path(name)
        seeds = chosen.seeds
        if seeds is None:
            seeds = here / "seeds.txt"
            seeds.write_text(stack.enter_context(Site(tree(chosen.pages))).url("/") + "\n")
        return judge(here, seeds, chosen)


def judge(here: Path, seeds: Path, chosen: argparse.Namespace) -> int:
    """Run it, and return how much was wrong."""
    program, job, log = here / "program.py", here / "job", here / "log"
    program.write_text(PROGRAM)
    for pages in (*map(int, chosen.kills.split(",")), 0):
        began = time.monotonic()
        words = [str(word) for word in (program, job, seeds, log, pages, chosen.tasks, chosen.sleep)]
        ran = subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False)
        wanted = -signal.SIGKILL if pages else 0
        said = f"killed after {pages:,} pages" if pages else "to the end"
        print(f"{said}: exit code {ran.returncode}, {time.monotonic() - began:.1f} s {ran.stderr[-300:]}")
        if ran.returncode != wanted:
            return 1
    names, came = defaultdict[str, set[str]](set), 0
    for line in log.read_text().splitlines():
        name, url = line.split()
        names[url].add(name)
        came += 1
    records = [json.loads(line) for line in (job / "pages.jsonl").read_bytes().splitlines()]
    fetched = {row["url"]: row for row in records if row["outcome"] == "fetched"}
    wrong = {
        "fetched and never delivered": len(fetched.keys() - names.keys()),
        "delivered and without a record": len(names.keys() - fetched.keys()),
        "under two names": sum(len(each) > 1 for each in names.values()),
        "records of another name": sum(row.get("id") not in names[url] for url, row in fetched.items()),
        "records without data": sum("data" not in row for row in fetched.values()),
        "URLs with two records": sum(count > 1 for count in Counter(row["url"] for row in records).values()),
    }
    print(f"{len(names):,} pages, delivered {came:,} times; {len(records):,} records")
    for words_of, count in wrong.items():
        print(f"{words_of:<34}{count:>6,}")
    return int(any(wrong.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
