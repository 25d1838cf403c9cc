"""What the links of a page cost, and whether they depend on its size or on how it is read.

    python benchmarks/links.py [--pages 100000] [--of DIRECTORY] [--rounds 3]

The first part makes random pages as the fuzzer does, and reads each as it is, made large, by its tokens, and by its
tags alone. The second reads the HTML files of a directory: all by their trees, all by their tokens, and as a crawl
does, with the parser's process; and says of how many pages the tokens tell the same as the tree.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))

from benchmarks.fuzz.links import make
from benchmarks.kit.machine import describe_machine
from crawler.base.settings.parts import LinkSettings
from crawler.web.links.extract import PageLinks, extract_links, is_cheap, scan_links
from crawler.web.links.tokens import TOKENS_BYTES, Undecided, token_links
from crawler.web.parsing.pages import PageParser

SETTINGS = LinkSettings()
PADDING = b" " * 100_000  # in front, where spaces are nothing
IN_FLIGHT = 64
TICKS = os.sysconf("SC_CLK_TCK")


def compare_sizes(pages: int) -> Counter[str]:
    """How often the links of a page are the same when it is large, and when only its tags are read."""
    told = Counter[str]()
    for number in range(pages):
        page = make(random.Random(f"small-large {number}"))
        small, large = (extract_links(each, "utf-8", SETTINGS) for each in (page, PADDING + page))
        told["small and large: " + ("same" if small == large else "different")] += 1
        tags = scan_links(page, "utf-8", SETTINGS)
        told["tree and tokens: " + compared(page, small)] += 1
        same = sorted(tags.hrefs) == sorted(small.hrefs) and tags.base == small.base
        told["tree and tags alone: " + ("same" if same else "different")] += 1
    return told


def compared(page: bytes, wanted: PageLinks) -> str:
    """Whether the tokens of a page tell the same, or why they do not tell."""
    links = token_links(page, "utf-8", SETTINGS)
    if isinstance(links, Undecided):
        return f"undecided ({links})"
    return "same" if links == wanted else "different"


async def measure(pages: list[bytes], rounds: int) -> None:
    """Print the processor time a page, in microseconds."""
    parser = PageParser()
    await parser.parse_isolated("a.test", b"", None, SETTINGS)  # started
    slots = asyncio.Semaphore(IN_FLIGHT)

    async def read(page: bytes) -> None:
        async with slots:
            if len(page) <= TOKENS_BYTES and not isinstance(token_links(page, "utf-8", SETTINGS), Undecided):
                return
            if is_cheap(page):
                extract_links(page, "utf-8", SETTINGS)
            else:
                await parser.parse_isolated("a.test", page, "utf-8", SETTINGS)

    for _ in range(rounds):
        start = time.process_time()
        for page in pages:
            extract_links(page, "utf-8", SETTINGS)
        trees, start = time.process_time() - start, time.process_time()
        for page in pages:
            token_links(page, "utf-8", SETTINGS)
        tokens, start, before = time.process_time() - start, time.process_time(), of_children()
        await asyncio.gather(*map(read, pages))
        here, there = time.process_time() - start, of_children() - before
        costs = (round(1e6 * seconds / len(pages)) for seconds in (trees, tokens, here, there))
        print("trees {:5}    tokens {:5}    as in a crawl {:5} here {:5} in the parser's process".format(*costs))
    parser.close()


def of_children() -> float:
    """Seconds of processor time of this process's descendants."""
    total = 0
    for pid in descendants(os.getpid()):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total / TICKS


def descendants(pid: int) -> Iterator[int]:
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in map(int, (task / "children").read_text().split()):
            yield child
            yield from descendants(child)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=int, default=100_000, help="random pages")
    parser.add_argument("--of", type=Path, help="a directory of HTML files")
    parser.add_argument("--rounds", type=int, default=3)
    chosen = parser.parse_args()
    print("\n".join(describe_machine(("selectolax",))))
    if chosen.pages:
        print(f"\n{chosen.pages:,} random pages")
        for what, count in sorted(compare_sizes(chosen.pages).items()):
            print(f"{count:9,} {what}")
    if chosen.of is not None:
        files = sorted(file for file in chosen.of.rglob("*.htm*") if file.is_file())
        pages = [file.read_bytes() for file in random.Random(1).sample(files, min(len(files), 2_000))]
        cheap = sum(map(is_cheap, pages)) / len(pages)
        print(f"\n{len(pages):,} files, {sum(map(len, pages)) // len(pages):,} bytes on average, {cheap:.0%} cheap")
        told = Counter(compared(page, extract_links(page, "utf-8", SETTINGS)) for page in pages)
        print("tree and tokens:", ", ".join(f"{count:,} {what}" for what, count in told.most_common()))
        print("processor time a page in us")
        asyncio.run(measure(pages, chosen.rounds))


if __name__ == "__main__":
    main()
