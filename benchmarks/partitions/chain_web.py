"""A web of chains: each page has one link, to a page of another host, so that a single lost link loses the rest of its
chain. Besides, ``--busy`` hosts have many pages each which the first one names: there, work is left whatever becomes of
links to other hosts. With ``--links`` each page of a chain has so many links more, to pages of any chain: a dense web.
Every request is written down, with the times at which it came and was answered.

    python benchmarks/partitions/chain_web.py --log FILE --seeds FILE [--chains N] [--steps N] [--hosts N] [--slow MS]
        [--busy HOSTS] [--leaves N] [--links N] [--network A.B]

The hosts are loopback addresses, 127.20.0.1 and so on, on one free port (``machines.py`` names another network). Serves
until standard input ends. A line of the log is: host, path, seconds of the monotonic clock when the request had come,
and when its answer was written, and who asked (its User-Agent).
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import re
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TextIO

_AGENT = re.compile(rb"\r\nUser-Agent: ([^\r]*)", re.IGNORECASE)
NETWORK = "127.20"
_END = b"\r\n\r\n"
_TEXT = "A page of a chain says little, but says it at the length of a short page. " * 8


@dataclass(frozen=True, slots=True)
class Chains:
    """``chains`` chains with ``steps`` pages each, on ``hosts`` hosts, and ``busy`` hosts with ``leaves`` pages. A page
    of a chain names ``links`` others besides the next one."""

    chains: int
    steps: int
    hosts: int
    port: int
    busy: int = 0
    leaves: int = 0
    network: str = NETWORK
    links: int = 0

    def addresses(self) -> list[str]:
        return [*map(self.address, range(self.hosts)), *map(self.busy_address, range(self.busy))]

    def busy_address(self, host: int) -> str:
        return f"{self.network}.100.{host + 1}"

    def leaf(self, host: int, number: int) -> str:
        return f"http://{self.busy_address(host)}:{self.port}/l/{host}/{number}"

    def address(self, host: int) -> str:
        return f"{self.network}.{host // 250}.{host % 250 + 1}"

    def host_of(self, chain: int, step: int) -> int:
        return _hashed(f"{chain}/{step}") % self.hosts

    def url(self, chain: int, step: int) -> str:
        return f"http://{self.address(self.host_of(chain, step))}:{self.port}/c/{chain}/{step}"

    def others(self, chain: int, step: int) -> Iterator[str]:
        """What a page links to besides the next one."""
        for number in range(self.links):
            hashed = _hashed(f"{chain}/{step}/{number}")
            yield self.url(hashed % self.chains, hashed // self.chains % self.steps)

    def all(self) -> Iterator[str]:
        for chain in range(self.chains):
            for step in range(self.steps):
                yield self.url(chain, step)
        for host in range(self.busy):
            for number in range(self.leaves + 1):
                yield self.leaf(host, number)

    def seeds(self) -> list[str]:
        return [self.url(chain, 0) for chain in range(self.chains)] + [self.leaf(host, 0) for host in range(self.busy)]

    def page(self, host: str, path: str) -> tuple[int, bytes]:
        """Status and body."""
        if path == "/robots.txt":
            return 404, b""
        parts = path.split("/")
        if len(parts) == 4 and parts[1] == "l":
            host_number, number = int(parts[2]), int(parts[3])
            links = range(1, self.leaves + 1) if number == 0 else ()
            named = "".join(f'<a href="{self.leaf(host_number, each)}">{each}</a> ' for each in links)
            return 200, f"<!doctype html><title>Leaf {number} of {host_number}</title><p>{_TEXT}</p>{named}".encode()
        if len(parts) != 4 or parts[1] != "c" or not (parts[2].isdigit() and parts[3].isdigit()):
            return 404, b"no such page"
        chain, step = int(parts[2]), int(parts[3])
        if chain >= self.chains or step >= self.steps or self.address(self.host_of(chain, step)) != host:
            return 404, b"no such page"
        link = f'<a href="{self.url(chain, step + 1)}">next</a>' if step + 1 < self.steps else "the end"
        others = "".join(f'<a href="{url}">x</a>' for url in self.others(chain, step))
        title = f"Chain {chain}, page {step}"
        return 200, f"<!doctype html><title>{title}</title><h1>{title}</h1><p>{_TEXT}</p><p>{link}</p>{others}".encode()


def _hashed(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


async def _serve(chains: Chains, sockets: Sequence[socket.socket], log: TextIO, slow: float) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host = writer.get_extra_info("sockname")[0]
        try:
            while True:
                head = await reader.readuntil(_END)
                began = time.monotonic()
                path = head.split(b" ", 2)[1].decode("ascii")
                agent = _AGENT.search(head)
                who = "" if agent is None else agent[1].decode("ascii")
                if slow:
                    await asyncio.sleep(slow)
                status, body = chains.page(host, path)
                words = "OK" if status == 200 else "Not Found"
                lines = f"HTTP/1.1 {status} {words}\r\nContent-Type: text/html\r\nContent-Length: {len(body)}\r\n\r\n"
                log.write(f"{host} {path} {began:.6f} {time.monotonic():.6f} {who}\n")
                log.flush()
                writer.write(lines.encode() + body)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass  # one of us has ended
        finally:
            writer.close()

    servers = [await asyncio.start_server(answer, sock=each, backlog=1024) for each in sockets]
    await asyncio.to_thread(sys.stdin.read)
    for server in servers:
        server.close()


def bind(web: Chains) -> tuple[int, list[socket.socket]]:
    """Take one free port on all addresses of the web."""
    for _ in range(20):
        made: list[socket.socket] = []
        port = 0
        try:
            for address in web.addresses():
                each = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
                made.append(each)
                each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                each.bind((address, port))
                port = each.getsockname()[1]
        except OSError:
            for each in made:
                each.close()
            continue
        return port, made
    raise SystemExit("no port is free on all addresses")


def main(words: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--log", type=Path, required=True)
    parser.add_argument(
        "--seeds", type=Path, required=True, help="gets the first page of each chain; then all can be had"
    )
    parser.add_argument("--chains", type=int, default=81)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--hosts", type=int, default=60)
    parser.add_argument("--busy", type=int, default=0)
    parser.add_argument("--leaves", type=int, default=500)
    parser.add_argument("--links", type=int, default=0)
    parser.add_argument("--slow", type=float, default=0.0, help="milliseconds that each answer takes")
    parser.add_argument("--network", default=NETWORK, help="the first two numbers of the hosts' addresses")
    chosen = parser.parse_args(words)
    shape = (chosen.busy, chosen.leaves, chosen.network, chosen.links)
    web = Chains(chosen.chains, chosen.steps, chosen.hosts, 0, *shape)
    port, sockets = bind(web)
    chains = replace(web, port=port)
    with open(chosen.log, "w", encoding="ascii") as log:
        part = chosen.seeds.with_name(chosen.seeds.name + ".part")
        part.write_text("".join(f"{url}\n" for url in chains.seeds()))
        part.rename(chosen.seeds)
        asyncio.run(_serve(chains, sockets, log, chosen.slow / 1_000))


if __name__ == "__main__":
    main(sys.argv[1:])
