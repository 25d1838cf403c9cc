"""The cost of scheduling revisits on RocksDB: adding pages, taking due ones, and finding the next.

    python benchmarks/frontier/revisits.py [--pages 200000]

CPU time of this process, RocksDB's own threads among it; steps of 64 pages. The pages are of hosts that have 8 each,
all due at the same moment, so that they come out as fast as they can, and end at once.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))

from benchmarks.kit.machine import describe_machine
from crawler.base.settings.parts import RecrawlSettings
from crawler.frontier.entry import Entry
from crawler.frontier.page import Answer
from crawler.frontier.revisits import Revisits
from crawler.job.store.rocks import RocksStore

STEP = 64
NOW = 1_700_000_000.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=int, default=200_000)
    pages = parser.parse_args().pages
    print(*describe_machine(), sep="\n")
    with tempfile.TemporaryDirectory() as directory:
        store = RocksStore(Path(directory) / "store")
        revisits = Revisits(store, RecrawlSettings(enabled=True), lambda _: 1.0)
        entries = [Entry(f"http://host{n // 8}.test/a/page/{n}", 3, f"http://host{n // 8}.test/") for n in range(pages)]
        show("first visits set", pages, lambda: finish(store, revisits, entries, NOW, 1))
        later = NOW + 90_000.0
        looks: list[float] = []
        seconds = Counter[str]()
        done = 0
        while done < pages:
            batch = store.batch()
            started = time.process_time()
            due = revisits.next_due()
            looks.append(time.process_time() - started)
            assert due is not None
            later = max(later, due)
            begun = revisits.begin(later, STEP, batch)
            store.write(batch)
            between = time.process_time()
            done += finish(store, revisits, begun, later, 2)
            seconds += Counter(begun=between - started, ended=time.process_time() - between)
        tell("due ones begun", pages, seconds["begun"])
        tell("revisits ended", pages, seconds["ended"])
        worst = 1e6 * max(looks)
        print(
            f"a look for the next: median {1e6 * statistics.median(looks):.0f} us, worst {worst:.0f} us of {len(looks)}"
        )
        store.close()


def finish(store: RocksStore, revisits: Revisits, entries: list[Entry], now: float, mark: int) -> int:
    answer = Answer(bytes([mark]) * 16, '"5f2c-60e1b3b0c7d40"', "Tue, 14 Nov 2023 22:13:20 GMT")
    for number, start in enumerate(range(0, len(entries), STEP)):
        batch = store.batch()
        for entry in entries[start : start + STEP]:
            revisits.finish(entry, answer, now + number * 0.001, batch, excluded=False)
        store.write(batch)
    return len(entries)


def show(what: str, pages: int, work: Callable[[], int]) -> None:
    started = time.process_time()
    done = work()
    assert done == pages, (done, pages)
    tell(what, pages, time.process_time() - started)


def tell(what: str, pages: int, seconds: float) -> None:
    print(f"{what:18}{pages / seconds:>10,.0f} a second of CPU")


if __name__ == "__main__":
    main()
