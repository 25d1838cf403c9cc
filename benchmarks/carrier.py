"""What it costs to carry batches of links from partition to partition: in memory, over a socket, through Redis.

    python benchmarks/carrier.py [--batches N] [--redis-server PATH]

CPU time of the process that sends and receives, and of the one that carries, for each batch of 64 links: it is
appended, read and trimmed. 16 partitions append at once, as those of one process do. The time of this machine's clock
is not measured.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))

import msgspec

from benchmarks.kit.machine import describe_machine
from crawler.base.carrier.local_client import LocalCarrier
from crawler.base.carrier.memory_carrier import MemoryCarrier
from crawler.base.carrier.open_carrier import open_carrier
from crawler.base.carrier.verbs import Carrier, CarrierError

LINKS = 64
PARTITIONS = 16
MOST_UNDER_WAY = 1_000  # batches: 4 MB, as a process of a crawl has
CONFIG = Path(__file__).resolve().parent.parent / "config" / "redis" / "crawler.conf"
TICKS = os.sysconf("SC_CLK_TCK")
SERVE = """
import asyncio, sys
from pathlib import Path
from crawler.base.carrier.local_server import LocalServer

async def main():
    await LocalServer(Path(sys.argv[1])).start()
    await asyncio.Event().wait()

asyncio.run(main())
"""


def link_batch() -> bytes:
    """Links as a page has them, each with what its owner needs to know."""
    rng = random.Random(1)
    words = ("docs", "reference", "article", "category", "release", "library", "index", "page")
    return msgspec.msgpack.encode(
        [
            (f"https://www.host-{rng.randrange(900)}.test/{'/'.join(rng.choices(words, k=3))}/{number}.html", 3, number)
            for number in range(LINKS)
        ]
    )


async def carry(carrier: Carrier, link_batches: int) -> None:
    """Each partition appends its share to all, one after the other; one reader trims what it has read."""
    names = [f"p{number}" for number in range(PARTITIONS)]
    data = link_batch()
    begun = await carrier.last(names)
    got = 0
    window = asyncio.Semaphore(MOST_UNDER_WAY)

    async def send(writer: str) -> None:
        for number in range(link_batches // PARTITIONS):
            await window.acquire()
            await carrier.append(names[number % PARTITIONS], writer, 1, [data])

    async def receive() -> None:
        nonlocal got
        after = dict(zip(names, begun, strict=True))
        while got < link_batches // PARTITIONS * PARTITIONS:
            found = await carrier.read(after, 64, 5)
            for name, entries in found.items():
                got += len(entries)
                for _ in entries:
                    window.release()
                after[name] = entries[-1].position
            await asyncio.gather(*(carrier.trim(name, after[name]) for name in found))

    await asyncio.gather(receive(), *(send(name) for name in names))


def cpu_of(process: int) -> float:
    """Seconds of CPU that a process has used."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


async def measured(
    opened: Callable[[], Awaitable[Carrier]], link_batches: int, server: int | None
) -> tuple[float, float]:
    """Microseconds of CPU for a batch: here, and in the process that carries."""
    carrier = await opened()
    await carry(carrier, PARTITIONS * 10)
    here, there = time.process_time(), cpu_of(server) if server else 0.0
    await carry(carrier, link_batches)
    used = time.process_time() - here, (cpu_of(server) if server else 0.0) - there
    await carrier.close()
    return used[0] / link_batches * 1e6, used[1] / link_batches * 1e6


async def ready(open_: Callable[[], Awaitable[Carrier]]) -> Carrier:
    """As soon as the server listens."""
    deadline = time.monotonic() + 20
    while True:
        try:
            carrier = await open_()
            await carrier.last(["p0"])
            return carrier
        except CarrierError:
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(0.05)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
    return port


def rows(link_batches: int, redis_server: str) -> list[tuple[str, float, float]]:
    """The name of each carrier, and what a batch costs here and there."""

    async def memory() -> Carrier:
        return MemoryCarrier()

    found = [("memory", *asyncio.run(measured(memory, link_batches, None)))]
    with tempfile.TemporaryDirectory() as home:
        with subprocess.Popen([sys.executable, "-c", SERVE, home]) as local:

            async def socket_() -> Carrier:
                return LocalCarrier(Path(home) / "carrier.sock")

            found.append(("local", *asyncio.run(measured(lambda: ready(socket_), link_batches, local.pid))))
            local.terminate()
        for name, directives in (("Redis, appendonly no", ["--appendonly", "no"]), ("Redis, config/redis", [])):
            port = free_port()
            own = ["--port", str(port), "--bind", "127.0.0.1", "--dir", home, "--logfile", f"{home}/log"]
            with subprocess.Popen([redis_server, str(CONFIG), *own, *directives]) as server:

                async def redis(port: int = port) -> Carrier:
                    return await open_carrier(f"redis://127.0.0.1:{port}", "bench")

                async def opened(redis: Callable[[], Awaitable[Carrier]] = redis) -> Carrier:
                    return await ready(redis)

                found.append((name, *asyncio.run(measured(opened, link_batches, server.pid))))
                server.terminate()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, default=20_000)
    parser.add_argument("--redis-server", default="redis-server")
    options = parser.parse_args()
    version = subprocess.run([options.redis_server, "--version"], capture_output=True, text=True, check=True).stdout
    print(*describe_machine(("redis", "hiredis", "msgspec")), sep="\n")
    print(f"server    {version.split(' sha')[0]}")
    print(f"batches   {options.batches} of {LINKS} links, {len(link_batch())} bytes, between {PARTITIONS} partitions")
    print("\nmicroseconds of CPU a batch: sender and receiver, carrier; both for a link\n")
    for name, here, there in rows(options.link_batches, options.redis_server):
        print(f"  {here:8.1f} {there:8.1f} {(here + there) / LINKS:8.2f}  {name}")


if __name__ == "__main__":
    main()
