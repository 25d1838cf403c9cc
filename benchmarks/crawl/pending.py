"""Does memory grow with the URLs that wait while a program loops over a crawl? Its size up to a million of them.

    python benchmarks/crawl/pending.py [--pending 1000000] [--links 4000] [--pages 2000]

One host on loopback, served by another process: the first pages link to ``--links`` new pages each, until so many wait;
the rest link to nothing. The program loops with eight tasks, and the crawl begins with the pages that link. Memory is
that of the program, in MB of 2**20 bytes: of all pages that it maps, and without files (RssAnon).
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[2]))

import crawler
from benchmarks.kit.machine import describe_machine

ROW = "{:>12}{:>12}{:>10}{:>10}{:>10}"
TASKS = 8

SERVER = """
import asyncio, sys

linking, links = int(sys.argv[1]), int(sys.argv[2])


def page(path):
    number = int(path[1:] or 0)
    if number == 0:
        found = range(1, linking + 1)
    elif number <= linking:
        found = range(number * links + linking, number * links + linking + links)
    else:
        found = ()
    return f"<!doctype html><title>{number}</title><p>{number}" + "".join(f'<a href="/{each}">x</a>' for each in found)


async def answer(reader, writer):
    try:
        while head := await reader.readuntil(b"\\r\\n\\r\\n"):
            path = head.split(b" ", 2)[1].decode()
            body = b"" if path == "/robots.txt" else page(path).encode()
            kind = "text/plain" if path == "/robots.txt" else "text/html"
            start = f"HTTP/1.1 200 OK\\r\\nContent-Type: {kind}\\r\\nContent-Length: {len(body)}\\r\\n\\r\\n"
            writer.write(start.encode() + body)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


async def main():
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)


asyncio.run(main())
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pending", type=int, default=1_000_000, help="(1000000)")
    parser.add_argument("--links", type=int, default=4_000, help="of a page that links (4000)")
    parser.add_argument("--pages", type=int, default=2_000, help="that are looped over when all wait (2000)")
    chosen = parser.parse_args()
    for line in describe_machine():
        print(line)
    print("\n" + ROW.format("pages", "pending", "MB", "anon MB", "seconds"), flush=True)
    linking = -(-chosen.pending // chosen.links)
    words = [sys.executable, "-c", SERVER, str(linking), str(chosen.links)]
    with (
        tempfile.TemporaryDirectory(prefix="pending-") as directory,
        subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server,
    ):
        assert server.stdout is not None
        url = f"http://127.0.0.1:{server.stdout.readline().strip()}/"
        asyncio.run(crawl(Path(directory) / "job", url, linking, chosen.pages))
        assert server.stdin is not None
        server.stdin.close()


async def crawl(job: Path, url: str, linking: int, rest: int) -> None:
    """Loop, and tell what it takes ten times until all URLs wait, and four times after that."""
    pages, began = 0, time.monotonic()
    moments = {linking * tenth // 10 + 1 for tenth in range(1, 11)}
    moments |= {linking + 1 + rest * quarter // 4 for quarter in range(1, 5)}

    async def work(opened: crawler.Crawl) -> None:
        nonlocal pages
        async for _ in opened:
            pages += 1
            if pages in moments:
                resident, own = memory()
                figures = (f"{opened.stats()['urls_pending']:,}", f"{resident:,.0f}", f"{own:,.0f}")
                print(ROW.format(f"{pages:,}", *figures, f"{time.monotonic() - began:,.0f}"), flush=True)
            if pages >= max(moments):
                return

    config = job.with_suffix(".toml")
    config.write_text("[traps]\nmax_variants = 10_000_000\n")  # all URLs have one pattern
    options: dict[str, Any] = {"config": config, "allow_private": True, "delay": 0.0, "per_host": TASKS}
    async with crawler.Crawl(job, [url], **options) as opened:
        tasks = [asyncio.create_task(work(opened)) for _ in range(TASKS)]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


def memory() -> tuple[float, float]:
    """(resident, resident without files) in MB."""
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text("ascii").splitlines())
    return int(lines["VmRSS"].split()[0]) / 1024, int(lines["RssAnon"].split()[0]) / 1024


if __name__ == "__main__":
    main()
