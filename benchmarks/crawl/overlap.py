"""Does code that waits hold up a crawl, or its hosts? One program crawls many small hosts, with 64 tasks that sleep.

    python benchmarks/crawl/overlap.py [--hosts 200] [--pages 30] [--tasks 64] [--sleep 0.05] [--delay 0.2]

The hosts are addresses of loopback, served by another process, which notes when each request came and when its answer
was handed over. Two pairs of runs: without gaps between requests, as fast as the crawl can, and with ``--delay``
seconds. In each pair the tasks ask for the next page at once, or sleep first. The pages of a second times the seconds
of sleep are the sleeps that overlap. A gap is from the answer to the next request of the host, as the server saw both.
Ends with 1 if a page was missing, or a gap was shorter than asked for.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[2]))

import crawler
from benchmarks.kit.machine import describe_machine

LATE = 0.001  # seconds by which clocks and buffers of two processes may make a gap look shorter
ROW = "{:<22}{:>9}{:>11}{:>12}{:>12}{:>12}{:>12}{:>9}"

SERVER = """
import asyncio, json, signal, sys, time

hosts, pages, log = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
seen = []


def page(path):
    if path == "/robots.txt":
        return 404, ""
    links = "".join(f'<a href="/{n}">{n}</a>' for n in range(pages)) if path == "/" else ""
    return 200, f"<!doctype html><title>{path}</title><p>{path} of many{links}"


async def answer(reader, writer):
    try:
        while head := await reader.readuntil(b"\\r\\n\\r\\n"):
            came = time.monotonic()
            lines = head.decode("latin-1").split("\\r\\n")
            path = lines[0].split(" ")[1]
            host = next(line for line in lines if line.lower().startswith("host:"))[5:].strip()
            status, text = page(path)
            body = f"{host} {text}".encode()
            head = f"HTTP/1.1 {status} OK\\r\\nContent-Type: text/html\\r\\nContent-Length: {len(body)}\\r\\n\\r\\n"
            writer.write(head.encode() + body)
            await writer.drain()
            seen.append((host, path, came, time.monotonic()))
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


async def main():
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    first = await asyncio.start_server(answer, "127.2.0.1", 0, backlog=64)
    port = first.sockets[0].getsockname()[1]
    names = [f"127.2.{n // 200}.{n % 200 + 1}" for n in range(hosts)]
    rest = [await asyncio.start_server(answer, name, port, backlog=64) for name in names[1:]]
    print(" ".join(f"http://{name}:{port}/" for name in names), flush=True)
    await stop.wait()
    with open(log, "w") as out:
        json.dump(seen, out)


asyncio.run(main())
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--hosts", type=int, default=200, help="(200)")
    parser.add_argument("--pages", type=int, default=30, help="of each host, besides its first (30)")
    parser.add_argument("--tasks", type=int, default=64, help="that loop over the crawl, and requests at once (64)")
    parser.add_argument("--sleep", type=float, default=0.05, help="seconds that a task has a page (0.05)")
    parser.add_argument("--delay", type=float, default=0.2, help="seconds between the requests of a host (0.2)")
    chosen = parser.parse_args()
    for line in describe_machine():
        print(line)
    print(f"{chosen.hosts} hosts of {chosen.pages + 1} pages, {chosen.tasks} tasks\n")
    print(
        ROW.format("", "pages", "pages/s", "overlapping", "gap, least", "half below", "99% below", "CPU s"), flush=True
    )
    wrong = 0
    for delay in (0.0, chosen.delay):
        for sleep in (0.0, chosen.sleep):
            wrong += measure(chosen, delay, sleep)
    if wrong:
        raise SystemExit(1)


def measure(chosen: argparse.Namespace, delay: float, sleep: float) -> int:
    """Crawl once, and print a row. Returns how much was wrong."""
    with tempfile.TemporaryDirectory(prefix="overlap-") as directory:
        log = Path(directory) / "log.json"
        words = [sys.executable, "-c", SERVER, str(chosen.hosts), str(chosen.pages), str(log)]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as server:
            try:
                assert server.stdout is not None
                seeds = server.stdout.readline().split()
                cpu = time.process_time()
                pages, seconds = asyncio.run(crawl(Path(directory) / "job", seeds, chosen.tasks, delay, sleep))
                cpu = time.process_time() - cpu
            finally:
                server.send_signal(signal.SIGTERM)
                server.wait()
        waits = sorted(gaps(json.loads(log.read_text("utf-8"))))
    name = f"gap {delay:g} s, sleep {1000 * sleep:g} ms"
    figures = [f"{1000 * each:,.1f} ms" for each in (waits[0], statistics.median(waits), waits[len(waits) * 99 // 100])]
    rate = pages / seconds
    print(ROW.format(name, f"{pages:,}", f"{rate:,.0f}", f"{rate * sleep:.1f}", *figures, f"{cpu:.1f}"), flush=True)
    return (pages != chosen.hosts * (chosen.pages + 1)) + (waits[0] < delay - LATE)


async def crawl(job: Path, seeds: list[str], tasks: int, delay: float, sleep: float) -> tuple[int, float]:
    """Returns how many pages came, and in how many seconds after the first."""
    pages, began = 0, 0.0

    async def work(crawl: crawler.Crawl) -> None:
        nonlocal pages, began
        async for _ in crawl:
            began = began or time.monotonic()
            pages += 1
            if sleep:
                await asyncio.sleep(sleep)

    options: dict[str, Any] = {"allow_network": ["127.2.0.0/16"], "delay": delay, "concurrency": tasks}
    async with crawler.Crawl(job, seeds, **options) as opened:
        await asyncio.gather(*(work(opened) for _ in range(tasks)))
    return pages, time.monotonic() - began


def gaps(seen: list[tuple[str, str, float, float]]) -> list[float]:
    """Seconds from each answer to the next request of its host."""
    of_host = defaultdict(list)
    for host, _, came, went in seen:
        of_host[host].append((came, went))
    return [later[0] - earlier[1] for met in of_host.values() for earlier, later in pairwise(sorted(met))]


if __name__ == "__main__":
    main()
