"""A million fetches of the whole crawler in virtual time, through all that befalls a crawl, judged by its servers.

    python benchmarks/frontier/ordeal.py [--hosts 1000] [--pages 1100] [--slots 64] [--rate R] [--seconds 600]

Eight processes, one after the other: with outages of the line, deaths as by SIGKILL, orderly ends, a robots.txt that
may be used for less than a lap, revisits, a domain that answers for any name, dead, dying, slow, stormy and flaky
hosts. ``tests/ordeal.py`` has the rules and says what a lap is; the tests run the small form. Ends with 1 if a rule was
broken.
"""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))

from benchmarks.kit.machine import describe_machine
from tests.ordeal import Ordeal, Run, Temper, runs_of


def main(words: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--hosts", type=int, default=1_000, help="(1000)")
    parser.add_argument("--pages", type=int, default=1_100, help="of each host (1100)")
    parser.add_argument("--wild", type=int, default=500, help="hosts of the domain that answers for any name (500)")
    parser.add_argument("--slots", type=int, default=64, help="requests at once (64)")
    parser.add_argument("--rate", type=float, help="requests a second, at most")
    parser.add_argument("--seconds", type=float, default=600.0, help="of each process but the last (600)")
    parser.add_argument("--seed", type=int, default=1, help="of the world (1)")
    chosen = parser.parse_args(words)
    logging.disable(logging.CRITICAL)
    for line in describe_machine():
        print(line)
    with tempfile.TemporaryDirectory(prefix="ordeal-") as directory:
        ordeal = Ordeal(
            Path(directory) / "job",
            seed=chosen.seed,
            hosts=chosen.hosts,
            pages=chosen.pages,
            slots=chosen.slots,
            rate=chosen.rate,
            wild=chosen.wild,
        )
        broken = run(ordeal, runs_of(chosen.seconds))
    if broken:
        raise SystemExit(1)


def run(ordeal: Ordeal, runs: list[Run]) -> int:
    """Go through all processes; returns how often a rule was broken."""
    servers = ordeal.servers
    began, start = time.process_time(), ordeal.now
    tempers = Counter(server.temper for server in servers.by_name.values())
    print("\n" + ", ".join(f"{tempers[temper]} {temper.name.lower()}" for temper in Temper if tempers[temper]))
    print(f"{'process':<34}{'seconds':>9}{'pages':>11}{'robots.txt':>12}{'no answer':>11}{'longest wait':>14}  end")
    for each in runs:
        before, now, servers.longest = Counter(servers.requests), ordeal.now, 0.0
        end = ordeal.go(each)
        made = servers.requests - before
        print(
            f"{_named(each):<34}{ordeal.now - each.rest - now:>9,.0f}{made['pages']:>11,}{made['robots.txt']:>12,}"
            f"{made['no answer']:>11,}{servers.longest:>9.2f} laps  {'killed' if end is None else end.value}",
            flush=True,
        )
    verdict = ordeal.judge()
    requests = servers.requests["pages"] + servers.requests["robots.txt"]
    seconds = time.process_time() - began
    print(f"\nrequests {requests:,} to {len(servers.by_name):,} hosts in {ordeal.now - start:,.0f} virtual seconds")
    for words, count in (
        ("gaps cut short", verdict.gaps),
        ("overlaps", verdict.overlaps),
        ("starved for more than two laps", verdict.starved),
        ("URLs lost", verdict.lost),
        ("visits recorded twice", verdict.twice),
        ("hosts blamed for the line", verdict.blamed),
    ):
        print(f"{words:<34}{count:>9,}")
    print(f"CPU {seconds:,.0f} s, {1e6 * seconds / requests:,.0f} us a request, the servers' own work among them")
    return verdict.broken


def _named(each: Run) -> str:
    words = [f"{len(each.outages)} outages"] if len(each.outages) > 1 else ["outage"] * len(each.outages)
    words += [f"robots.txt for {each.ttl:.0f} s"] if each.ttl < 3_600 else []
    words += ["revisits"] if each.recrawl else []
    return ", ".join(words)


if __name__ == "__main__":
    main(sys.argv[1:])
