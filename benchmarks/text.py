"""What the main text of a page costs, and what the crawler itself pays for it.

    python benchmarks/text.py [DIRECTORY] [--pages 200] [--processes 1]

DIRECTORY holds HTML files; without it, pages are made: articles of 4 to 60 KB with navigation around them. Each is
extracted as text and as Markdown, as a crawl does it.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))

from benchmarks.kit.machine import describe_machine
from crawler.web.extract.page_text import About, PageText, text_row
from crawler.web.extract.text_pool import TextLimits, TextPool

IN_FLIGHT = 64
PACKAGES = ("trafilatura", "lxml", "justext")
TICK = 0.05  # seconds
TICKS = os.sysconf("SC_CLK_TCK")
WORDS = ("the", "of", "a", "geese", "river", "north", "fly", "winter", "stone", "light", "house", "open", "many")


def made(number: int) -> bytes:
    """An article."""
    chance = random.Random(number)
    menu = "".join(f"<li><a href=/{chance.choice(WORDS)}/{n}>{chance.choice(WORDS)}</a>" for n in range(60))
    paragraphs = (
        f"<p>{' '.join(chance.choices(WORDS, k=chance.randrange(20, 120)))}." for _ in range(chance.randrange(6, 120))
    )
    body = f"<nav><ul>{menu}</ul></nav><article><h1>Article {number}</h1>{''.join(paragraphs)}</article>"
    return f"<!doctype html><title>{number}</title><body>{body}<footer>all rights</footer>".encode()


async def measure(pages: list[bytes], form: str, processes: int) -> None:
    pool, slots, longest = TextPool(TextLimits(processes)), asyncio.Semaphore(IN_FLIGHT), 0.0

    async def extract(number: int, page: bytes) -> int:
        async with slots:
            found = await pool.extract(f"h{number % 8}.test", page, None, form)
        row = text_row(About("http://h.test/", "2023-11-14T22:13:20.500Z", None, None), found)
        return len(row) if isinstance(found, PageText) else -1

    async def tick() -> None:
        nonlocal longest
        while True:
            before = time.perf_counter()
            await asyncio.sleep(TICK)
            longest = max(longest, time.perf_counter() - before - TICK)

    try:
        await pool.extract("h.test", made(0), None, form)  # started
        ticking = asyncio.create_task(tick())
        wall, here, there = time.perf_counter(), time.process_time(), of_children()
        sizes = await asyncio.gather(*(extract(number, page) for number, page in enumerate(pages)))
        wall, here, there = time.perf_counter() - wall, time.process_time() - here, of_children() - there
        ticking.cancel()
    finally:
        pool.close()
    each = 1000 / len(pages)
    print(
        f"{form:9} {there * each:6.1f} ms of CPU a page in the processes, {here * each:5.2f} in the crawler's; "
        f"{len(pages) / wall:5.1f} pages/s; rows of {sum(max(0, size) for size in sizes) // len(pages):,} bytes, "
        f"{sizes.count(-1)} without text; the loop stood still for {longest * 1000:.0f} ms at most"
    )


def of_children() -> float:
    """Seconds of processor time of this process's descendants, dead or alive."""
    ended = os.times()
    total = ended.children_user + ended.children_system
    for pid in descendants(os.getpid()):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        total += sum(map(int, fields[11:15])) / TICKS
    return total


def descendants(pid: int) -> Iterator[int]:
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in map(int, (task / "children").read_text().split()):
            yield child
            yield from descendants(child)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path, nargs="?", help="HTML files")
    parser.add_argument("--pages", type=int, default=200)
    parser.add_argument("--processes", type=int, default=1)
    chosen = parser.parse_args()
    print("\n".join(describe_machine(PACKAGES)))
    if chosen.directory is None:
        pages = [made(number) for number in range(chosen.pages)]
    else:
        files = sorted(file for file in chosen.directory.rglob("*.htm*") if file.is_file())
        pages = [file.read_bytes() for file in random.Random(1).sample(files, min(len(files), chosen.pages))]
    print(f"\n{len(pages):,} pages, {sum(map(len, pages)) // len(pages):,} bytes on average")
    for form in ("text", "markdown"):
        asyncio.run(measure(pages, form, chosen.processes))


if __name__ == "__main__":
    main()
