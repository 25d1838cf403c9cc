"""A seen-set of three producers on Redis: is each key new once, how often is it wrong, and what does it cost?

    python -m benchmarks.filters.shared [--keys N] [--module redisbloom.so]

Three processes add N distinct keys (3,000,000) to one set: each has half of them, a quarter of all in common with the
next. One of them is killed (SIGKILL) half-way, and run again with the same name on the same input. On one server, with
a log (`config/redis`), and on a cluster of three masters, some of whose slots are moved from server to server all the
while, key by key. Afterwards all keys are looked up, and a million others.

Then the costs: CPU of the producer and of the server for each key, of one producer; beside one local filter in the
process, pipelines of plain SETBIT (all bits of a key; a key is new if one of them was clear, as another client sees
it), and the module if it is named.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import re
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))

import numpy as np
import redis

from benchmarks.filters.add_many import machine
from crawler.base.carrier.redis_servers import slot_of
from crawler.seen.filters import KeyHash, ScalableBloomFilter
from crawler.seen.shared.open_set import OpenedSet, Producer, connect, make_set, new_head
from crawler.seen.shared.set_address import SetAddress, parse_set
from crawler.seen.shared.set_figures import statistics
from crawler.seen.shared.shard_geometry import SetParameters, shards_for
from crawler.seen.shared.shared_set import SharedSet
from tests.base.carrier.redis_server import RedisServer, redis_cluster, redis_server

BATCH = 14_000  # lines of a block
ABSENT = 10**6
SECRET = KeyHash.from_json({"algorithm": "blake2b", "secret": "00112233445566778899aabbccddeeff"})
PARAMETERS = SetParameters(0.001, 2**20, 2.0, 0.85, shards_for(2**20))


def key(number: int) -> bytes:
    return b"https://www.site-%d.test/page/%d.html" % (number % 997, number)


def opened(address: SetAddress, name: str | None = None, *, module: bool = False) -> OpenedSet:
    producer = Producer(SECRET, name)
    found = make_set(address, producer, connect(address, {}), new_head(producer, PARAMETERS, None, module=module))
    found.seen.begin()
    return found


def batches(numbers: np.ndarray) -> Iterator[np.ndarray]:
    for start in range(0, len(numbers), BATCH):
        yield numbers[start : start + BATCH]


def share_of(which: int, keys: int) -> np.ndarray:
    """The numbers of producer ``which``, in an order of its own."""
    numbers = np.arange(which * keys // 4, which * keys // 4 + keys // 2)
    np.random.default_rng(which).shuffle(numbers)
    return numbers


def produce(address: str, which: int, keys: int, out: str) -> None:
    """Write the numbers that are new to ``out``, after each batch; at the end the CPU time."""
    found = opened(parse_set(address), f"producer-{which}")
    seen = found.seen
    begun = time.process_time()
    with open(out, "ab", buffering=0) as written:
        for batch in batches(share_of(which, keys)):
            new = seen.add_many([key(number) for number in batch.tolist()])
            written.write(batch[new].astype("<i8").tobytes())
    seen.end()
    Path(f"{out}.cpu").write_text(f"{time.process_time() - begun} {int(seen.lost)}")
    found.servers.close()


def _plain(word: object) -> str:
    return word.decode() if isinstance(word, bytes) else str(word)


def cpu_of(servers: list[RedisServer]) -> float:
    total = 0.0
    for server in servers:
        told = server.say("INFO", "cpu")
        text = (
            told.decode() if isinstance(told, bytes) else "".join(f"{name}:{value}\n" for name, value in told.items())
        )
        total += sum(float(value) for value in re.findall(r"^used_cpu_(?:sys|user):([\d.]+)", text, re.MULTILINE))
    return total


@contextmanager
def resharding(servers: list[RedisServer], address: SetAddress) -> Iterator[list[int]]:
    """Move slots of the set to the next server, one after the other, until the end. Yields those that were moved."""
    moved: list[int] = []
    stop = threading.Event()

    def move() -> None:
        ids = {server.port: server.say("CLUSTER", "MYID") for server in servers}
        chance = random.Random(1)
        while not stop.is_set():
            shard = chance.randrange(PARAMETERS.shards)
            slot = slot_of(f"crawler:seen:{{{address.name}:{shard}}}:state")
            owner = next(
                server
                for server in servers
                if any(
                    begin <= slot <= end and first[2] == ids[server.port]
                    for begin, end, first, *_ in server.say("CLUSTER", "SLOTS")
                )
            )
            target = servers[(servers.index(owner) + 1) % len(servers)]
            target.say("CLUSTER", "SETSLOT", slot, "IMPORTING", ids[owner.port])
            owner.say("CLUSTER", "SETSLOT", slot, "MIGRATING", ids[target.port])
            while found := owner.say("CLUSTER", "GETKEYSINSLOT", slot, 1):
                time.sleep(0.02)
                owner.say("MIGRATE", "127.0.0.1", target.port, found[0], 0, 30_000)
            for server in (target, owner, *servers):
                server.say("CLUSTER", "SETSLOT", slot, "NODE", ids[target.port])
            moved.append(slot)
            stop.wait(0.2)

    thread = threading.Thread(target=move)
    thread.start()
    try:
        yield moved
    finally:
        stop.set()
        thread.join()


@contextmanager
def nothing(servers: list[RedisServer], address: SetAddress) -> Iterator[list[int]]:
    yield []


def three(servers: list[RedisServer], keys: int, folder: Path) -> None:
    hosts = ",".join(f"127.0.0.1:{server.port}" for server in servers)
    address = parse_set(f"redis://{hosts}/three")
    opened(address).servers.close()
    begun, before = time.monotonic(), cpu_of(servers)
    spawning = multiprocessing.get_context("spawn")

    def start(which: int) -> multiprocessing.process.BaseProcess:
        made = spawning.Process(target=produce, args=(str(address), which, keys, str(folder / f"new-{which}")))
        made.start()
        return made

    change = resharding if len(servers) > 1 else nothing
    with change(servers, address) as moved:
        running = [start(which) for which in range(3)]
        first = folder / "new-1"
        while not first.exists() or first.stat().st_size < 8 * keys // 8:
            time.sleep(0.05)
            assert running[1].is_alive()
        assert running[1].pid is not None
        os.kill(running[1].pid, signal.SIGKILL)
        running[1].join()
        killed_at = first.stat().st_size // 8
        running[1] = start(1)
        for process in running:
            process.join()
            assert process.exitcode == 0
    took, spent = time.monotonic() - begun, cpu_of(servers) - before
    told = [Path(folder / f"new-{which}.cpu").read_text().split() for which in range(3)]
    asked = 3 * (keys // 2) + killed_at
    report(address, keys, [np.fromfile(folder / f"new-{which}", "<i8") for which in range(3)], killed_at)
    mine = sum(float(cpu) for cpu, _ in told)
    print(f"producers that noticed a loss: {sum(int(lost) for _, lost in told)}; slots moved meanwhile: {len(moved)}")
    print(
        f"about {asked:,} keys asked in {took:.0f} s: {asked / took:,.0f} a second in all; CPU a key: producers "
        f"{mine / asked * 1e6:.1f} us (less the killed one's), servers {spent / asked * 1e6:.1f} us\n",
        flush=True,
    )


def held(seen: SharedSet, numbers: np.ndarray) -> int:
    return sum(sum(seen.contains_many([key(number) for number in batch.tolist()])) for batch in batches(numbers))


def report(address: SetAddress, keys: int, new: list[np.ndarray], killed_at: int) -> None:
    """What became of the keys."""
    found = opened(address)
    seen = found.seen
    assert isinstance(seen, SharedSet)
    # What a killed producer had been told last its next session may say again.
    again = np.intersect1d(new[1][:killed_at], new[1][killed_at:])
    counts = np.bincount(np.concatenate([new[0], np.unique(new[1]), new[2]]), minlength=keys)
    denied = sum(
        seen.contains_many([key(number) for number in batch.tolist()]).count(False)
        for batch in batches(np.arange(keys))
    )
    wrong = sum(
        seen.contains_many([key(number) for number in batch.tolist()]).count(True)
        for batch in batches(np.arange(keys, keys + ABSENT))
    )
    now = statistics(seen)
    measured = now["fpp_measured"]
    once, twice, never = (np.count_nonzero(counts == 1), np.count_nonzero(counts > 1), np.count_nonzero(counts == 0))
    print(f"{keys:,} distinct keys: {once:,} new once, {twice:,} new for two producers, {never:,} never", end=" ")
    print(f"(the model expects {now['expected_urls_skipped']:,.0f});")
    print(f"  {len(again):,} said again to the killed producer; denied: {denied:,}")
    print(f"fpp of {ABSENT:,} absent keys: {wrong / ABSENT:.2e}", end="; ")
    print(f"estimated from the bits {now['fpp_estimated']:.2e}; target 1e-03")
    print(
        f"measured while it filled: {measured['value']:.2e} ({measured['low']:.2e} to {measured['high']:.2e} of "
        f"{measured['sample']:,}); never new / all: {never / keys:.2e}"
    )
    print(
        f"{now['bytes']:,} bytes, {now['bits_per_url']:.1f} bits a key, {len(now['slices'])} slices, fills "
        f"{' '.join(format(part['fill'], '.3f') for part in now['slices'])}; largest string {now['largest_string']:,}"
    )
    found.servers.close()


def row(name: str, keys: int, add: Callable[[list[bytes]], object], servers: list[RedisServer]) -> None:
    """New keys, then the same again."""
    cells = []
    for _ in range(2):
        before, begun = cpu_of(servers), time.process_time()
        for batch in batches(np.arange(keys)):
            add([key(number) for number in batch.tolist()])
        made = time.process_time()
        for batch in batches(np.arange(keys)):
            [key(number) for number in batch.tolist()]
        idle = time.process_time() - made
        cells += [(made - begun - idle) / keys * 1e6, (cpu_of(servers) - before) / keys * 1e6]
    totals = [1e6 / max(cells[0], cells[1]), 1e6 / max(cells[2], cells[3])]
    figures = "".join(f"{cell:>10.2f}" for cell in cells) + "".join(f"{total:>12,.0f}" for total in totals)
    print(f"{name:<28}{figures}", flush=True)


def setbit(server: RedisServer, keys: int) -> Callable[[list[bytes]], int]:
    """Ten bits of a key in one string for this many keys at 1e-3, by pipelines of 10 commands a key."""
    client = redis.Redis(port=server.port)
    bits, hashes = int(keys * 14.4), 10

    def add(batch: list[bytes]) -> int:
        halves = np.frombuffer(SECRET.digest_keys(batch), "<u8").reshape(-1, 2)
        places = (halves[:, :1] + halves[:, 1:] * np.arange(hashes, dtype=np.uint64)) % np.uint64(bits)
        pipeline = client.pipeline(transaction=False)
        for place in places.reshape(-1).tolist():
            pipeline.setbit("plain", place, 1)
        said = pipeline.execute()
        return sum(not all(said[at : at + hashes]) for at in range(0, len(said), hashes))

    return add


def costs(keys: int, folder: Path, module: str | None) -> None:
    print("one producer; us of CPU a key, and keys a second of whichever of the two is busier")
    print(f"{'':<28}{'new:':>10}{'':>10}{'again:':>10}{'':>10}{'new':>12}{'again':>12}")
    print(f"{'':<28}{'producer':>10}{'server':>10}{'producer':>10}{'server':>10}{'keys/s':>12}{'keys/s':>12}")
    local = ScalableBloomFilter(hash=SECRET)
    row("one local process", keys, local.add_many, [])
    directives = [f"loadmodule {module}"] if module else []
    for log in ("appendonly no", "appendonly yes"):
        with redis_server(folder / log.replace(" ", "-"), log, "maxmemory 4gb", *directives) as server:
            address = parse_set(f"{server.url}/costs")
            found = opened(address)
            row(f"set on a server, {log[11:]} log", keys, found.seen.add_many, [server])
            found.servers.close()
            if module:
                found = opened(parse_set(f"{server.url}/module"), module=True)
                row(f"module, {log[11:]} log", keys, found.seen.add_many, [server])
                found.servers.close()
            some = keys // 10
            row(f"SETBIT pipelines, {log[11:]} log", some, setbit(server, some), [server])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=3_000_000)
    parser.add_argument("--module", help="redisbloom.so, or the module of valkey-bloom")
    arguments = parser.parse_args()
    print(f"{machine()}; load {os.getloadavg()[0]:.1f}\n")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for what, where in (("one server", redis_server), ("a cluster of three", redis_cluster)):
            home = folder / what.replace(" ", "-")
            home.mkdir()
            print(f"-- three producers on {what}, one of them killed and run again")
            with where(home / "redis") as made:
                servers = [made] if isinstance(made, RedisServer) else made
                for server in servers:
                    server.say("CONFIG", "SET", "maxmemory", "4gb")
                three(servers, arguments.keys, home)
        costs(arguments.keys // 3, folder, arguments.module)


if __name__ == "__main__":
    main()
