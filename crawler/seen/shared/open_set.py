"""Opens a set by its address: creates the set if it does not exist, otherwise checks that its parameters match."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict, replace

from crawler.base.carrier.engine_address import read_login
from crawler.base.carrier.redis_servers import Command, RedisServers
from crawler.base.carrier.verbs import CarrierRefusedError
from crawler.seen.shared.redis_bloom import ModuleSet
from crawler.seen.shared.redis_shards import PatientServers, RedisShards
from crawler.seen.shared.set_address import SECRET, SECRET_FILE, SetAddress, check_of
from crawler.seen.shared.shard_geometry import LAYOUT, SetParameters
from crawler.seen.shared.shard_requests import SharedSetRefusedError, Who
from crawler.seen.shared.shared_set import SharedSet
from crawler.seen.slices.key_hash import BLAKE2B, KeyHash

MAGIC = "crawler-seen"
VERSION = 1
STRINGS, MODULE = "strings", "module"
READY, BEGUN, FILLING = "ready", "begun", "filling"


class Producer(Struct, frozen=True):
    """A process that adds keys. ``name`` is None if no later process will continue the work of this one."""

    hash: KeyHash
    name: str | None = None


class SetHead(Struct, frozen=True):
    """The description of a set, stored in its key ``set``."""

    id: str
    stage: str
    keeper: str
    parameters: SetParameters
    check: str  # authenticates, with the secret, all fields except the stage
    keys: dict[str, Any] | None  # describes how keys are computed from lines; None if unknown

    def check_by(self, hash: KeyHash) -> str:
        """Return the expected value of ``check`` for producers with the secret of ``hash``."""
        return check_of(hash, replace(self, stage=BEGUN, check="").text())

    def text(self) -> bytes:
        """Return the stored form."""
        stated = {
            "format": MAGIC,
            "version": VERSION,
            "id": self.id,
            "stage": self.stage,
            "keeper": self.keeper,
            "parameters": {**asdict(self.parameters), "layout": LAYOUT},
            "hash": {"algorithm": BLAKE2B, "check": self.check},
            "keys": self.keys,
        }
        return json.dumps(stated, sort_keys=True).encode()


def read_head(stored: bytes, address: SetAddress) -> SetHead:
    """Parse the stored form. Raises SharedSetRefusedError."""
    try:
        stated = json.loads(stored)
        if stated["format"] != MAGIC:
            raise ValueError
        version = stated["version"]
    except (ValueError, LookupError, TypeError, RecursionError):
        raise SharedSetRefusedError(f"{address} is not a seen-set of this program: choose another name") from None
    if version != VERSION:
        raise SharedSetRefusedError(
            f"{address} was created by another version of this program (format {version}; this one supports {VERSION})"
        )
    try:
        made = dict(stated["parameters"])
        if made.pop("layout") != LAYOUT or stated["hash"]["algorithm"] != BLAKE2B:
            raise ValueError
        parameters = SetParameters(**made)
        if stated["stage"] not in (BEGUN, FILLING, READY):
            raise ValueError(stated["stage"])
        return SetHead(
            stated["id"], stated["stage"], stated["keeper"], parameters, stated["hash"]["check"], stated["keys"]
        )
    except (ValueError, LookupError, TypeError) as problem:
        raise SharedSetRefusedError(f"{address}: its head is damaged: {problem!r}") from problem


class OpenedSet(Struct, frozen=True):
    """A set and its description."""

    seen: SharedSet | ModuleSet
    head: SetHead
    address: SetAddress
    servers: PatientServers

    def stage(self, stage: str) -> None:
        """Store the stage of the set's creation. Raises SharedSetError."""
        self.servers.ask([_set_command(self.address, replace(self.head, stage=stage), "XX")])


def connect(address: SetAddress, environ: Mapping[str, str] = os.environ) -> PatientServers:
    """Connect to the servers of a set. Raises SharedSetRefusedError."""
    try:
        login = read_login(environ)
    except CarrierRefusedError as error:
        raise SharedSetRefusedError(str(error)) from error
    return PatientServers(RedisServers(address.servers, login))


def find_set(address: SetAddress, producer: Producer, servers: PatientServers) -> OpenedSet | None:
    """Return the existing set without starting a session, or None. Raises SharedSetError, SharedSetRefusedError."""
    (stored,) = servers.ask([_get_command(address)], again=False)
    return None if stored is None else _completed(read_head(stored, address), address, producer, servers)


def make_set(
    address: SetAddress, producer: Producer, servers: PatientServers, wanted: SetHead, *, filling: bool = False
) -> OpenedSet:
    """Return the existing set, or create one like ``wanted``. With ``filling``, also return a set that is being filled.
    Raises SharedSetError, SharedSetRefusedError."""
    (stored,) = servers.ask([_set_command(address, wanted, "NX", "GET")], again=False)
    head = wanted if stored is None else read_head(stored, address)
    return _completed(head, address, producer, servers, filling=filling)


def _completed(
    head: SetHead, address: SetAddress, producer: Producer, servers: PatientServers, *, filling: bool = False
) -> OpenedSet:
    found = _opened(head, address, producer, servers)
    if head.stage == FILLING and not filling:
        raise SharedSetRefusedError(
            f"{address} is being filled by `crawler filter push`: wait for it to end; if it was interrupted, repeat it"
        )
    if head.stage == BEGUN:
        # The process that was creating the set may have died, so continue; existing parts are left unchanged.
        found.seen.make()
        found.stage(READY)
    return found


def new_head(
    producer: Producer,
    parameters: SetParameters,
    keys: dict[str, Any] | None,
    *,
    module: bool = False,
    stage: str = BEGUN,
) -> SetHead:
    """Return the head of a new set."""
    id = secrets.token_hex(8)
    head = SetHead(id, stage, MODULE if module else STRINGS, parameters, "", keys)
    return replace(head, check=head.check_by(producer.hash))


def _opened(head: SetHead, address: SetAddress, producer: Producer, servers: PatientServers) -> OpenedSet:
    if head.check_by(producer.hash) != head.check:
        raise SharedSetRefusedError(
            f"{address} was created with another secret, or its head was changed: give the secret of its "
            f"producers in {SECRET_FILE} or {SECRET}, or with --secret-of"
        )
    if head.keeper == MODULE:
        return OpenedSet(ModuleSet(servers, address.name, head.parameters, producer.hash), head, address, servers)
    name = producer.name.encode() if producer.name is not None else secrets.token_hex(8).encode()
    who = Who(head.id.encode(), name, secrets.token_bytes(8), producer.name is not None)
    shards = RedisShards(servers, address.name)
    return OpenedSet(SharedSet(shards, head.parameters, who, producer.hash), head, address, servers)


def _head_key(address: SetAddress) -> str:
    return f"crawler:seen:{{{address.name}}}:set"


def _get_command(address: SetAddress) -> Command:
    key = _head_key(address)
    return Command(key, ("GET", key))


def _set_command(address: SetAddress, head: SetHead, *how: str) -> Command:
    key = _head_key(address)
    return Command(key, ("SET", key, head.text(), *how))
