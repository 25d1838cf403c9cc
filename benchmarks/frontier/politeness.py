"""A million polite fetches on a virtual clock: a thousand hosts of all kinds, checked against rules that the simulated
web applies by itself.

    python benchmarks/frontier/politeness.py [--hosts 1000] [--pages 1100] [--slots 64]

The world is that of ``tests/frontier/world.py``; the tests run smaller ones. Ends with 1 when a rule was broken.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))

from benchmarks.kit.machine import describe_machine
from tests.frontier.world import Temper, World, jain


def main(words: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--hosts", type=int, default=1_000, help="(1000)")
    parser.add_argument("--pages", type=int, default=1_100, help="of each host (1100)")
    parser.add_argument(
        "--slots", type=int, nargs="+", default=[64, 400], help="requests at once, one run each (64 400)"
    )
    parser.add_argument("--seed", type=int, default=1, help="of the world (1)")
    chosen = parser.parse_args(words)
    for line in describe_machine():
        print(line)
    broken = 0
    for slots in chosen.slots:
        broken += run(World(chosen.seed, chosen.hosts, chosen.pages, slots=slots), chosen.hosts * chosen.pages // 2)
    if broken:
        raise SystemExit(1)


def run(world: World, half: int) -> int:
    """Crawl the world to its end; returns how often a rule was broken."""
    began = time.process_time()
    world.seed(20)
    protocol = world.run(requests=half)
    plain = [server for server in world.servers if server.temper is Temper.PLAIN]
    turns = jain([server.taken for server in plain])
    waited = [server.stood_ready / max(1, server.taken) for server in plain]
    rate = jain([server.taken / server.stood_ready for server in plain]) if min(waited) > 1e-3 else None
    protocol = world.run()
    seconds = time.process_time() - began
    tempers = Counter(server.temper for server in world.servers)
    print(f"\n{world.slots} slots, {len(world.servers):,} hosts: " + ", ".join(_of(tempers, each) for each in Temper))
    print(f"fetches           {protocol.requests:>11,}   in {protocol.seconds:,.0f} virtual seconds")
    print(f"URLs finished     {sum(protocol.finished.values()):>11,}   " + _named(protocol.outcomes))
    print(f"retries           {protocol.retried:>11,}   after {protocol.failures:,} failures")
    print(f"429 and 503       {protocol.throttled:>11,}")
    print(f"hosts retired     {len(protocol.retired):>11,}")
    wanted = sum(server.pages for server in world.servers)
    lost = wanted - len(protocol.finished)
    twice = sum(times > 1 for times in protocol.finished.values())
    for words, count in (
        ("URLs lost", lost),
        ("URLs twice", twice),
        ("gaps cut short", protocol.early),
        ("overlaps", protocol.overlaps),
        ("idle slots", protocol.idle),
        ("share exceeded", protocol.slow_over),
    ):
        print(f"{words:<17} {count:>11,}")
    print(f"fairness (Jain)   {turns:>11.4f}   turns of the plain hosts in the first {half:,} fetches")
    if rate is not None:
        print(f"                  {rate:>11.4f}   their turns for each second that they stood ready")
    each = 1e6 * seconds / protocol.requests
    print(f"CPU               {seconds:>11.1f} s, {each:.0f} us a fetch, the world's own work among them")
    sys.stdout.flush()
    unfair = turns < 0.95 or (rate is not None and rate < 0.95)
    return lost + twice + protocol.early + protocol.overlaps + protocol.idle + protocol.slow_over + unfair


def _of(tempers: Counter[Temper], temper: Temper) -> str:
    return f"{tempers[temper]} {temper.name.lower()}"


def _named(counts: dict[str, int]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in sorted(counts.items()))


if __name__ == "__main__":
    main(sys.argv[1:])
