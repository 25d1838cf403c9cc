"""Many names on few addresses, crawled in partitions whose workers are killed, and which move from machine to machine:
is the gap of each address kept, and how much of what it allows is used?

    python benchmarks/partitions/groups.py [--partitions 4] [--count 8] [--names 10000] [--addresses 50] [--delay 1.0]
        [--kills 4] [--machines N] [--moves 0] [--settings address|gap|group] [--seed N]

Serves one page for each name itself, on loopback addresses (127.60.0.1 and so on) of one port, and writes down when
each request came and was answered. The crawl's processes know these names and no others. With ``--settings address``
the hosts of an address share a gap by ``host_key``, with ``gap`` by ``address_delay``, and with ``group`` by tables of
``[[site]]`` that name them.

The processes have one directory, and a worker that is killed (SIGKILL) is replaced by the first process. Or there are
so many machines, each of them a worker with a directory of its own, and a Redis between them. Then a machine that is
killed begins again with its directory, and with ``--moves`` one is stopped in order (SIGTERM), so its partitions move
to the others, and begins again some seconds later, so partitions move to it. Kills and moves come by turns, spread over
the requests. Then the servers' log says, for each address:

    short        requests that came before the gap since the one before had begun or was answered was over
    used         the gaps and answers together, of the time from the first request to the last answer

Exits with 1 if pages are missing or twice, a gap was not kept, or less than ``--least`` was used.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import signal
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from statistics import mean

sys.path.append(str(Path(__file__).resolve().parents[2]))

from losses import NAMES
from troubles import Processes, send

from benchmarks.kit.machine import describe_machine
from tests.base.carrier.redis_server import redis_server

ROOT = Path(__file__).resolve().parents[2]
NETWORK = "127.60.0"
LONGEST = 3_600.0  # seconds
PATIENCE = 60.0  # seconds for a machine to end
AWAY = 3.0  # seconds from then until it begins again
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
    parser.add_argument("--machines", type=int, default=0, choices=range(len(NAMES) + 1), help="instead of processes")
    parser.add_argument("--moves", type=int, default=0, help="between machines")
    parser.add_argument("--settings", choices=("address", "gap", "group"), default="address")
    parser.add_argument("--least", type=float, default=0.95, help="of what the gaps allow, to be used")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="a directory for everything, which stays")
    chosen = parser.parse_args(words)
    for line in describe_machine(("aiohttp", "redis", "rocksdict")):
        print(line)
    with tempfile.TemporaryDirectory() as name:
        home = chosen.keep or Path(name)
        home.mkdir(exist_ok=True)
        raise SystemExit(whole(chosen, home))


class Servers:
    """One server for all addresses, in a thread. ``asked``: address, host and path, when it came and when it was
    answered."""

    def __init__(self, addresses: Sequence[str]) -> None:
        self.asked: list[tuple[str, str, float, float]] = []
        self.port = 0
        self._addresses = addresses
        listens = threading.Event()
        threading.Thread(target=lambda: asyncio.run(self._serve(listens)), daemon=True).start()
        listens.wait()

    async def _serve(self, listens: threading.Event) -> None:
        for address in self._addresses:
            server = await asyncio.start_server(self._answer, address, self.port)
            self.port = server.sockets[0].getsockname()[1]
        listens.set()
        await asyncio.Event().wait()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
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


def whole(chosen: argparse.Namespace, home: Path) -> int:
    """Serve, crawl, kill and judge. Returns the exit code."""
    servers = Servers([f"{NETWORK}.{number + 1}" for number in range(chosen.addresses)])
    pages = [f"http://s{number}-{number % chosen.addresses + 1}.test:{servers.port}/" for number in range(chosen.names)]
    with ExitStack() as undo:
        if chosen.machines:
            commands = machines(chosen, home, undo.enter_context(redis_server(home / "redis", "appendonly no")).url)
        else:
            commands = {"first": [*beginning(chosen, home), "--partitions", str(chosen.partitions)]}
        processes, given = crawl(chosen, home, pages, servers, commands)
    moved = sum((home / f"{name}.out").read_text().count(" moved here from ") for name in commands)
    print(f"web       {chosen.names} names on {chosen.addresses} addresses, a gap of {chosen.delay} s")
    where = f"on {chosen.machines} machines" if chosen.machines else f"in {chosen.partitions} processes"
    codes = ", ".join(f"{name} {dict(each)}" for name, each in processes.codes.items())
    print(f"crawl     {chosen.count} partitions {where}, exit codes of {codes}")
    print(f"events    {given['kill']} kills, {given['move']} machines stopped in order, {moved} partitions moved")
    return judge(chosen, home, pages, servers)


def beginning(chosen: argparse.Namespace, home: Path) -> list[str]:
    """The command that begins the crawl."""
    return [
        *(sys.executable, "-m", "crawler", str(home / "seeds.txt"), "--job", str(home / "first")),
        *("--config", str(home / "crawl.toml"), "--partition-count", str(chosen.count)),
        *("--allow-private", "--quiet", "--contact", "test@example.org"),
    ]


def machines(chosen: argparse.Namespace, home: Path, engine: str) -> dict[str, list[str]]:
    """The commands of all machines."""
    reached = ("--engine", engine, "--crawl", "names", "--workers", str(chosen.machines))
    commands = {"first": [*beginning(chosen, home), "--partitions", "1", *reached]}
    for name in NAMES[1 : chosen.machines]:
        commands[name] = [sys.executable, "-m", "crawler", "work", "--dir", str(home / name), *reached, "--quiet"]
    return commands


def crawl(
    chosen: argparse.Namespace, home: Path, pages: list[str], servers: Servers, commands: Mapping[str, list[str]]
) -> tuple[Processes, Counter[str]]:
    """Crawl the pages. Returns the processes, which have ended, and what happened to them."""
    (home / "seeds.txt").write_text("".join(f"{page}\n" for page in pages))
    (home / "crawl.toml").write_text(settings(chosen))
    (home / "names").mkdir(exist_ok=True)
    (home / "names" / "sitecustomize.py").write_text(_RESOLVER.replace("NETWORK", NETWORK))
    path = {"PYTHONPATH": f"{home / 'names'}:{ROOT}"}
    processes = Processes(dict(commands), home, dict.fromkeys(commands, path))
    chance, given = random.Random(chosen.seed), Counter[str]()
    numbers = {"kill": chosen.kills, "move": chosen.moves}
    events = [((each + 1) / (count + 1), kind) for kind, count in numbers.items() for each in range(count)]
    try:
        for number, (_, event) in enumerate(sorted(events)):
            # They are spread over the requests, so that a slow machine has as many.
            due = chosen.names * (number + 1) // (len(events) + 1)
            processes.rest(LONGEST, lambda due=due: len(servers.asked) >= due and bool(processes.workers()))
            if processes.is_over:
                break
            name = chance.choice(sorted(processes.workers()))
            given[event] += 1
            processes.note(f"{event} {name}")
            *workers, leader = processes.all(name)
            if event == "move":
                send(leader, signal.SIGTERM)
                processes.leave_down(name, LONGEST)
                processes.rest(PATIENCE, lambda name=name: not processes.is_up(name))
                processes.leave_down(name, AWAY)
            elif chosen.machines:
                processes.kill(name)
            else:
                send(chance.choice(workers), signal.SIGKILL)
        processes.rest(LONGEST)
    finally:
        processes.end(PATIENCE)
    return processes, given


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
    for file in home.glob("*/partitions/*/pages*.jsonl"):
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
