"""Many names on few addresses, crawled in partitions whose workers are killed: is the gap of each address kept, and how
much of what it allows is used?

    python benchmarks/partitions/groups.py [--partitions 4] [--count 8] [--names 10000] [--addresses 50] [--delay 1.0]
        [--kills 4] [--settings address|gap|group] [--seed N]

Serves one page for each name itself, on loopback addresses (127.60.0.1 and so on) of one port, and writes down when
each request came and was answered. The crawl's processes know these names and no others. With ``--settings address``
the hosts of an address share a gap by ``host_key``, with ``gap`` by ``address_delay``, and with ``group`` by tables of
``[[site]]`` that name them. Every few seconds a worker is killed with SIGKILL; the first process starts another. Then
the servers' log says, for each address:

    short        requests that came before the gap since the one before had begun or was answered was over
    used         the gaps and answers together, of the time from the first request to the last answer

Exits with 1 if pages are missing or twice, a gap was not kept, or less than ``--least`` was used.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from statistics import mean

sys.path.append(str(Path(__file__).resolve().parents[2]))

from crawler.bench.machine import describe_machine

ROOT = Path(__file__).resolve().parents[2]
NETWORK = "127.60.0"
_PAGE = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 18\r\n\r\n<p>a page of text\n"
_SLACK = 0.002  # seconds: when the server notes a request is not when the crawler sent it
# Python runs this when it starts: from then on, the process knows the names of the benchmark and nothing else.
_RESOLVER = """
import socket
import aiohttp.connector
from aiohttp.abc import AbstractResolver

class Names(AbstractResolver):
    def __init__(self, **_):
        pass

    async def resolve(self, host, port=0, family=socket.AF_INET):
        address = host.partition(".")[0].rpartition("-")[2]
        if not (host.endswith(".test") and address.isdigit()):
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        flags = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
        return [dict(hostname=host, host=f"NETWORK.{address}", port=port, family=family, proto=0, flags=flags)]

    async def close(self):
        pass

aiohttp.connector.DefaultResolver = Names
"""


def main(words: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--partitions", type=int, default=4, help="processes")
    parser.add_argument("--count", type=int, default=8, help="partitions")
    parser.add_argument("--names", type=int, default=10_000)
    parser.add_argument("--addresses", type=int, default=50)
    parser.add_argument("--delay", type=float, default=1.0)
    parser.add_argument("--kills", type=int, default=4)
    parser.add_argument("--settings", choices=("address", "gap", "group"), default="address")
    parser.add_argument("--least", type=float, default=0.95, help="of what the gaps allow, to be used")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="a directory for everything, which stays")
    chosen = parser.parse_args(words)
    for line in describe_machine(("aiohttp", "rocksdict")):
        print(line)
    with tempfile.TemporaryDirectory() as name:
        home = chosen.keep or Path(name)
        home.mkdir(exist_ok=True)
        raise SystemExit(asyncio.run(whole(chosen, home)))


class Servers:
    """One server for all addresses. ``asked``: address, host and path, when it came and when it was answered."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, float, float]] = []

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        address = writer.get_extra_info("sockname")[0]
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                came = time.monotonic()
                line, _, rest = head.decode("latin-1").partition("\r\n")
                fields = dict(each.split(": ", 1) for each in rest.lower().split("\r\n") if ": " in each)
                # Noted before it is written: whoever has the answer has it later.
                self.asked.append((address, f"http://{fields['host']}{line.split()[1]}", came, time.monotonic()))
                writer.write(_PAGE)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


async def whole(chosen: argparse.Namespace, home: Path) -> int:
    """Serve, crawl, kill and judge. Returns the exit code."""
    servers = Servers()
    addresses = [f"{NETWORK}.{number + 1}" for number in range(chosen.addresses)]
    first = await asyncio.start_server(servers.answer, addresses[0], 0)
    port = first.sockets[0].getsockname()[1]
    for address in addresses[1:]:
        await asyncio.start_server(servers.answer, address, port)
    pages = [f"http://s{number}-{number % chosen.addresses + 1}.test:{port}/" for number in range(chosen.names)]
    codes, kills = await crawl(chosen, home, pages, servers)
    print(f"web       {chosen.names} names on {chosen.addresses} addresses, a gap of {chosen.delay} s")
    print(f"crawl     {chosen.count} partitions in {chosen.partitions} processes, exit code {codes}, {kills} kills")
    return judge(chosen, home, pages, servers)


async def crawl(chosen: argparse.Namespace, home: Path, pages: list[str], servers: Servers) -> tuple[int, int]:
    (home / "seeds.txt").write_text("".join(f"{page}\n" for page in pages))
    (home / "crawl.toml").write_text(settings(chosen))
    (home / "names").mkdir(exist_ok=True)
    (home / "names" / "sitecustomize.py").write_text(_RESOLVER.replace("NETWORK", NETWORK))
    environment = {**os.environ, "PYTHONPATH": f"{home / 'names'}:{ROOT}"}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "crawler", home / "seeds.txt", "--job", home / "job", "--config", home / "crawl.toml"),
        *("--partitions", str(chosen.partitions), "--partition-count", str(chosen.count)),
        *("--allow-private", "--quiet", "--contact", "test@example.org"),
        env=environment,
        cwd=home,
    )
    chance, kills = random.Random(chosen.seed), 0
    while process.returncode is None:
        # Kills are spread over the requests, so that a slow machine has as many.
        due = chosen.names * (kills + 1) // (chosen.kills + 1)
        if kills < chosen.kills and len(servers.asked) >= due:
            kills += kill_worker(process.pid, chance)
        try:
            await asyncio.wait_for(process.wait(), 0.1)
        except TimeoutError:
            continue
    return process.returncode, kills


def kill_worker(first: int, chance: random.Random) -> bool:
    """Kill one of the processes that this one has started. Returns whether there was one."""
    workers = Path(f"/proc/{first}/task/{first}/children").read_text().split()
    if workers:
        os.kill(int(chance.choice(workers)), signal.SIGKILL)
    return bool(workers)


def settings(chosen: argparse.Namespace) -> str:
    """The configuration of the crawl."""
    politeness = f"delay = {chosen.delay}\n"
    sites = ""
    if chosen.settings == "address":
        politeness += 'host_key = "address"\n'
    elif chosen.settings == "gap":
        politeness = f"delay = 0.0\naddress_delay = {chosen.delay}\n"
    else:
        sites = "".join(
            f'[[site]]\nmatch = "s{number}-{number % chosen.addresses + 1}.test"\n'
            f'group = "{number % chosen.addresses}"\n'
            for number in range(chosen.names)
        )
    return f"[robots]\nignore = true\n[politeness]\n{politeness}{sites}"


def judge(chosen: argparse.Namespace, home: Path, pages: list[str], servers: Servers) -> int:
    """Compare the log of the servers, and the records, with what there is."""
    records = Counter[str]()
    for file in (home / "job").glob("partitions/*/pages*.jsonl"):
        records.update(json.loads(line)["url"] for line in file.read_text().splitlines())
    asked = Counter(page for _, page, _, _ in servers.asked)
    of_address: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for address, _, came, answered in servers.asked:
        of_address[address].append((came, answered))
    if chosen.keep:
        (home / "asked.json").write_text(json.dumps(servers.asked))
    short, used, begun = 0, list[float](), list[float]()
    for requests in of_address.values():
        requests.sort()
        gaps = [later[0] - earlier[1] for earlier, later in pairwise(requests)]
        short += sum(gap < chosen.delay - _SLACK for gap in gaps)
        needed = chosen.delay * len(gaps) + sum(answered - came for came, answered in requests)
        used.append(needed / (requests[-1][1] - requests[0][0]))
        begun.append(requests[0][0])
    missing, twice = len(set(pages) - records.keys()), records.total() - len(records)
    again = asked.total() - len(asked)
    print(f"requests  {asked.total()}, the first of each address within {max(begun) - min(begun):.1f} s")
    print(f"{'missing':>8}{'twice':>7}{'again':>7}{'short':>7}{'used':>8}{'least':>8}")
    print(f"{missing:>8}{twice:>7}{again:>7}{short:>7}{mean(used):>8.1%}{min(used):>8.1%}")
    return int(bool(missing or twice or short or len(of_address) < chosen.addresses or mean(used) < chosen.least))


if __name__ == "__main__":
    main(sys.argv[1:])
