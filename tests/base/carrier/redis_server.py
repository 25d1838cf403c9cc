"""A Redis on loopback, and a cluster of three. None listens on a port that others use."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import redis

from tests.asked import free_port
from tests.needs import need

CONFIG = Path(__file__).resolve().parents[3] / "config" / "redis" / "crawler.conf"
SLOTS = 16_384
PATIENCE = 30.0


class RedisServer:
    """One process, which can be killed and started again on the same port with what it wrote."""

    def __init__(self, home: Path, *directives: str) -> None:
        self.home = home
        self.port = free_port()
        self._program = need("redis-server", "redis-server")
        self._process: subprocess.Popen[bytes] | None = None
        home.mkdir(parents=True, exist_ok=True)
        lines = [f"include {CONFIG}", f"dir {home}", f"port {self.port}", "bind 127.0.0.1", "daemonize no"]
        lines += [f"logfile {home}/log", "maxmemory 256mb", *directives]
        (home / "redis.conf").write_text("\n".join(lines) + "\n")

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Returns when it listens, perhaps before it has read what it wrote."""
        self._process = subprocess.Popen([self._program, self.home / "redis.conf"])
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
                return
            except ConnectionRefusedError:
                assert self._process.poll() is None, (self.home / "log").read_text()
                assert time.monotonic() < deadline, "redis-server does not listen"
                time.sleep(0.01)

    def kill(self) -> None:
        """As the kernel does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def say(self, *words: str | bytes | int) -> Any:
        """What it answers to one command."""
        with redis.Redis(port=self.port, protocol=2, socket_timeout=PATIENCE) as client:
            return client.execute_command(*words)


@contextmanager
def redis_server(home: Path, *directives: str) -> Iterator[RedisServer]:
    server = RedisServer(home, *directives)
    server.start()
    try:
        yield server
    finally:
        server.kill()


@contextmanager
def redis_cluster(home: Path) -> Iterator[list[RedisServer]]:
    """Three masters with a third of the slots each."""
    with ExitStack() as stack:
        servers = []
        for number in range(3):
            own = ("cluster-enabled yes", f"cluster-port {free_port()}", "cluster-node-timeout 2000")
            servers.append(stack.enter_context(redis_server(home / str(number), *own)))
        for number, server in enumerate(servers):
            begin, end = SLOTS * number // 3, SLOTS * (number + 1) // 3 - 1
            server.say("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
            server.say("CLUSTER", "ADDSLOTSRANGE", begin, end)
        for server in servers[1:]:
            bus = next(line for line in (server.home / "redis.conf").read_text().splitlines() if "cluster-port" in line)
            servers[0].say("CLUSTER", "MEET", "127.0.0.1", server.port, bus.split()[1])
        deadline = time.monotonic() + PATIENCE
        while not all(_is_ready(server) for server in servers):
            assert time.monotonic() < deadline, [server.say("CLUSTER", "INFO") for server in servers]
            time.sleep(0.02)
        yield servers


def _is_ready(server: RedisServer) -> bool:
    said = server.say("CLUSTER", "INFO")
    state = said if isinstance(said, dict) else dict(line.split(":") for line in said.decode().split())
    return state["cluster_state"] == "ok" and state["cluster_known_nodes"] == "3"
