"""A program that loops over a crawl is killed: no page is missing, and each has one id and one record."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path

from tests.jobs import rows
from tests.program import PATIENCE
from tests.site import Site, tree

PAGES = 60
AT_ONCE = 8
PROGRAM = f"""
import asyncio, os, signal, sys
import crawler

async def main(job, seed, log, pages):
    options = {{"allow_private": True, "delay": 0.0, "per_host": 4, "concurrency": {AT_ONCE}, "capacity": 4096}}
    async with crawler.Crawl(job, [seed], **options) as crawl:
        async for page in crawl:
            with open(log, "a") as out:
                out.write(f"{{page.id}} {{page.url}}\\n")
            page.data["size"] = len(page.body)
            pages -= 1
            if not pages:
                os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])))
"""


def test_a_program_that_is_killed_again_and_again(tmp_path: Path) -> None:
    program, log, job = tmp_path / "program.py", tmp_path / "log", tmp_path / "job"
    program.write_text(PROGRAM)
    with Site(tree(PAGES)) as site:
        for pages in (5, 17, 0):
            words = [sys.executable, str(program), str(job), site.url("/"), str(log), str(pages)]
            ran = subprocess.run(words, capture_output=True, text=True, check=False, timeout=PATIENCE)
            assert ran.returncode == (-signal.SIGKILL if pages else 0), ran.stderr
        urls = {site.url("/" if number == 0 else f"/page/{number}") for number in range(PAGES)}
    ids = defaultdict(set)
    delivered = [line.split() for line in log.read_text().splitlines()]
    for name, url in delivered:
        ids[url].add(name)
    assert set(ids) == urls
    assert {len(names) for names in ids.values()} == {1}, "the id of a page stays the same"
    assert len(delivered) <= PAGES + 2, "what the loop was done with is not delivered again"
    assert Counter(row["id"] for row in rows(job)) == Counter({name for names in ids.values() for name in names})
    assert all(row["data"] == {"size": row["bytes"]} for row in rows(job))
