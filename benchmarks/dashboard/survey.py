"""What the survey of many records costs: how fast they are counted, and what an event loop beside notices.

    python benchmarks/dashboard/survey.py [--records 1000000] [--hosts 100000] [--seconds 10]

Made records of many hosts, as ``pages.jsonl`` has them. First they are counted as ``crawler dashboard`` does, in a
process of its own, and as a crawl does, which gives them a bounded share of a core. Then the answer of ``/api/survey``.
At last an event loop sleeps for a millisecond again and again, alone and beside a crawl's survey that catches up: how
late it wakes is what a crawl notices.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import resource
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))

from benchmarks.kit.machine import describe_machine
from crawler.service.job_survey import SHARE, JobSurvey


def make_records(path: Path, records: int, hosts: int) -> int:
    """Write the records, and return their bytes."""
    rng = random.Random(7)
    with open(path, "w", encoding="ascii", buffering=2**20) as stream:
        for number in range(records):
            host = f"h{int(rng.random() ** 3 * hosts)}.example"
            kind = rng.random()
            status, outcome = (200, "fetched") if kind < 0.9 else (404, "fetched") if kind < 0.97 else (None, "failed")
            record = {
                "url": f"https://{host}/{rng.choice('abcdefgh')}/section-{rng.randrange(50)}/page-{number}.html",
                "status": status,
                "error": None if status else "timeout: no answer within 30 s",
                "outcome": outcome,
                "depth": rng.randrange(9),
                "via": f"https://{host}/{rng.choice('abcdefgh')}/index.html",
                "fetched_at": "2026-11-22T02:11:55.238Z",
                "content_type": "text/html" if status else None,
                "bytes": rng.randrange(100_000) if status else None,
                "links": rng.randrange(100),
                "digest": f"{rng.getrandbits(128):032x}",
                "title": "A page with a title of some words",
                "language": "en",
                "charset": "utf-8",
                "address": "192.0.2.7",
                "seconds": 0.041,
                "tries": 1,
            }
            stream.write(json.dumps(record, separators=(",", ":")) + "\n")
    return path.stat().st_size


async def complete(counter: JobSurvey, records: int) -> tuple[float, float]:
    """Count all records; seconds, and those of CPU time."""
    began, cpu = time.monotonic(), time.process_time()
    counting = asyncio.create_task(counter.keep())
    while counter.progress.records < records:
        assert counter.progress.fault is None, counter.progress.fault
        await asyncio.sleep(0.01)
    counting.cancel()
    await asyncio.gather(counting, return_exceptions=True)
    return time.monotonic() - began, time.process_time() - cpu


async def lateness(seconds: float) -> list[float]:
    """How late a sleep of a millisecond ends, in milliseconds, in order of size."""
    found, end = list[float](), time.monotonic() + seconds
    while (began := time.monotonic()) < end:
        await asyncio.sleep(0.001)
        found.append((time.monotonic() - began - 0.001) * 1_000)
    return sorted(found)


def told(late: Sequence[float]) -> str:
    return f"{late[len(late) // 2]:8.2f} {late[int(len(late) * 0.99)]:8.2f} {late[-1]:8.2f}"


def resident() -> float:
    """MiB of memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 2**20


async def measure(job: Path, records: int, size: int, seconds: float) -> None:
    before = resident()
    counter = JobSurvey(job, lambda: size)
    took, cpu = await complete(counter, records)
    print(f"counted beside no crawl      {took:8.1f} s {records / took:10,.0f} records/s   CPU {cpu:.1f} s")
    print(f"memory                       {resident() - before:8.1f} MiB more")
    began = time.monotonic()
    answer = await counter.answer()
    print(f"answer                       {1_000 * (time.monotonic() - began):8.1f} ms {len(answer.body):10,} bytes")
    await counter.close()
    counter = JobSurvey(job, lambda: size, SHARE)
    alone = await lateness(seconds)
    counting = asyncio.create_task(counter.keep())
    late = await lateness(seconds)
    rate = counter.progress.records / seconds
    counting.cancel()
    await asyncio.gather(counting, return_exceptions=True)
    await counter.close()
    print(f"counted beside a crawl       {rate:10,.0f} records/s, in {records / rate:,.0f} s all of them\n")
    print(f"late by, ms        median      99%  longest\nalone            {told(alone)}\nbeside a survey  {told(late)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--hosts", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=10.0)
    arguments = parser.parse_args()
    print("\n".join(describe_machine()))
    with tempfile.TemporaryDirectory() as place:
        job = Path(place)
        size = make_records(job / "pages.jsonl", arguments.records, arguments.hosts)
        print(f"\n{arguments.records:,} records of {arguments.hosts:,} hosts, {size:,} bytes\n")
        asyncio.run(measure(job, arguments.records, size, arguments.seconds))


if __name__ == "__main__":
    main()
