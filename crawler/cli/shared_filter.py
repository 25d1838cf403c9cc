"""The part of ``crawler dedup`` and ``crawler filter`` that works with sets on Redis."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crawler.base.figures import counted, probability
from crawler.base.settings.parts import SeenSettings
from crawler.cli.exit_codes import UsageError
from crawler.seen.filters import BLAKE2B, Filter, FilterError, KeyHash
from crawler.seen.filters.chain_compaction import GROWTH, TIGHTENING
from crawler.seen.shared.set_address import SECRET_FILE, SetAddress, is_address, parse_set, read_secret
from crawler.seen.shared.set_figures import statistics
from crawler.seen.shared.shard_geometry import SetParameters, shards_for
from crawler.seen.shared.shard_requests import SharedSetRefusedError
from crawler.seen.shared.shared_set import SharedSet
from crawler.tools.dedup.digest_file import DigestFile
from crawler.tools.dedup.filter_setup import Wanted
from crawler.tools.dedup.key_spec import KeySpec
from crawler.tools.dedup.store import FilterFile, FilterFileError, StoredFilter, read_filter, read_hash

if TYPE_CHECKING:
    from crawler.seen.shared.open_set import OpenedSet, Producer

_FIXED = ("fpp", "capacity")  # the settings that the server stores with a set


def filter_place(text: str) -> Path | SetAddress:
    """Parse the value of ``--filter``. Raises ``ArgumentTypeError``."""
    if not is_address(text):
        return Path(text)
    try:
        return parse_set(text)
    except SharedSetRefusedError as problem:
        raise argparse.ArgumentTypeError(str(problem)) from problem


def filter_file(text: str) -> Path:
    """Parse a filter that must be a file. Raises ``ArgumentTypeError``."""
    if is_address(text):
        raise argparse.ArgumentTypeError(
            "expected a file, not a set on a server: `crawler filter pull` stores a set as a file"
        )
    return Path(text)


def shared_hash(secret_of: Path | None) -> KeyHash:
    """Return the hash with the secret that all producers share. The secret comes from the filter named on the command
    line, or else from the environment. Raises UsageError, FilterFileError."""
    if secret_of is not None:
        named = read_hash(secret_of)
        _check_hash(named, f"filter {secret_of}")
        return named
    given = read_secret(os.environ)
    if given is None:
        raise UsageError(
            f"a set on a server needs a secret that its producers share: name a file with it in {SECRET_FILE} (from "
            "`openssl rand -hex 16`), or a filter that has it with --secret-of"
        )
    return given


def _check_hash(hash: KeyHash, what: str) -> None:
    if hash.algorithm != BLAKE2B or not hash.keyed:
        raise UsageError(f"{what} hashes with {hash.algorithm} without a secret: a set on a server needs blake2b")


@contextmanager
def opened(
    address: SetAddress, producer: Producer, wanted: Any = None, *, filling: bool = False
) -> Iterator[OpenedSet]:
    """Open the set at ``address``; create it from the head ``wanted`` if it does not exist. Raises UsageError,
    SharedSetError."""
    from crawler.seen.shared.open_set import connect, find_set, make_set  # noqa: PLC0415

    servers = None
    try:
        servers = connect(address)
        if wanted is None:
            found = find_set(address, producer, servers)
        else:
            found = make_set(address, producer, servers, wanted, filling=filling)
        if found is None:
            raise UsageError(f"there is no set at {address}")
        yield found
    finally:
        if servers is not None:
            servers.close()


def producer_of(hash: KeyHash, name: str | None = None) -> Producer:
    """Create a producer. Raises UsageError."""
    try:
        # Imported here because few commands connect to servers.
        from crawler.seen.shared.open_set import Producer  # noqa: PLC0415
    except ImportError as error:
        raise UsageError("a set on a server needs redis: pip install 'redis[hiredis]'") from error
    if name is not None and not (0 < len(name) <= 100 and name.isprintable()):
        raise UsageError("--producer is a name of 1 to 100 characters")
    return Producer(hash, name)


def wanted_set(producer: Producer, settings: SeenSettings, keys: KeySpec, module: bool) -> Any:
    """Return the head of a set with these settings."""
    from crawler.seen.shared.open_set import new_head  # noqa: PLC0415

    parameters = SetParameters(settings.fpp, settings.capacity, GROWTH, TIGHTENING, shards_for(settings.capacity))
    return new_head(producer, parameters, keys.as_json(), module=module)


def check_set(found: OpenedSet, wanted: Sequence[Wanted], raw: bool | None, rules: tuple[str, ...]) -> KeySpec:
    """Return the specification of the set's keys. Raises FilterFileError if the set does not match the request."""
    held, address = found.head.parameters, found.address
    for label, name, value in wanted:
        if name in _FIXED and getattr(held, name) != value:
            raise FilterFileError(
                f"{label} {value} does not match {address}, which has {name} {getattr(held, name)}: leave it out, or "
                "choose another name"
            )
    spec = spec_of(found)
    asked = KeySpec(raw=True) if (spec.raw if raw is None else raw) else KeySpec(rules=rules or spec.rules)
    if asked != spec:
        raise FilterFileError(f"{address} holds {spec}, not {asked}: choose another name")
    return spec


def spec_of(found: OpenedSet) -> KeySpec:
    """Return the specification of the set's keys."""
    return KeySpec() if found.head.keys is None else KeySpec.from_json(found.head.keys)


def set_json(found: OpenedSet) -> dict[str, Any]:
    """Return the output of ``info --json``."""
    seen = found.seen
    now = statistics(seen) if isinstance(seen, SharedSet) else seen.statistics()
    held = found.head.parameters
    return {"keys": found.head.keys, "parameters": {name: getattr(held, name) for name in _FIXED}, **now}


def set_figures(found: OpenedSet) -> Iterator[str]:
    """Yield lines that describe the set."""
    now = set_json(found)
    where = f"{now['bytes']:,} bytes in {counted(now['shards'], 'shard')}"
    if now["kind"] == "module":
        from crawler.seen.shared.redis_bloom import LACKS  # noqa: PLC0415

        yield f"module: {counted(now['count'], 'key')}, {where}; false positives: target {now['fpp_target']:g}"
        yield LACKS
        return
    measured = now["fpp_measured"]
    interval = (
        ""
        if measured is None
        else f", measured {probability(measured['value'])} ({probability(measured['low'])} to "
        f"{probability(measured['high'])} of {measured['sample']:,} watched keys)"
    )
    yield (
        f"shared: {counted(now['count'], 'key')}, {where}; false positives {probability(now['fpp_estimated'])} (target "
        f"{probability(now['fpp_target'])}){interval}, newest of {counted(len(now['slices']), 'slice')}: fill "
        f"{now['slices'][-1]['fill']:.3f}; about {now['expected_urls_skipped']:,.1f} new lines mistaken "
        "for seen ones"
    )


def push(path: Path, address: SetAddress) -> Iterator[str]:
    """Push a filter to a set, and yield lines about the result. Raises UsageError, FilterFileError, SharedSetError,
    OSError."""
    from crawler.seen.shared.transfer import is_divisible  # noqa: PLC0415

    with FilterFile(path) as file:
        stored = read_filter(file.path)
        _check_hash(stored.seen.hash, f"filter {path}")
        if stored.digests is not None:
            yield _push_digests(file, stored, address)
        elif is_divisible(stored.seen):
            yield _push_bits(stored, address)
        else:
            raise FilterFileError(
                f"filter {path} has no digest file, and its bits do not show which shard they belong to: push one "
                "that `crawler dedup --filter` keeps or `crawler filter pull` made, or give its lines to `crawler "
                f"dedup --filter {address}`"
            )


def _push_bits(stored: StoredFilter, address: SetAddress) -> str:
    from crawler.seen.shared.open_set import FILLING, READY, new_head  # noqa: PLC0415
    from crawler.seen.shared.transfer import parameters_of, push_bits  # noqa: PLC0415

    producer = producer_of(stored.seen.hash)
    keys = None if stored.keys is None else stored.keys.as_json()
    wanted = new_head(producer, parameters_of(stored.seen), keys, stage=FILLING)
    with opened(address, producer, wanted, filling=True) as found:
        if found.head.stage != FILLING or found.head.parameters != wanted.parameters:
            raise FilterFileError(f"{address} already exists, but bits need a new set: choose another name")
        seen = found.seen
        assert isinstance(seen, SharedSet)
        push_bits(stored.seen, seen)
        found.stage(READY)
        return f"{address}: {counted(len(stored.seen), 'key')} pushed"


def _push_digests(file: FilterFile, stored: StoredFilter, address: SetAddress) -> str:
    from crawler.seen.shared.open_set import new_head  # noqa: PLC0415
    from crawler.seen.shared.transfer import parameters_of, push_digests  # noqa: PLC0415

    producer = producer_of(stored.seen.hash)
    keys = stored.keys or KeySpec()
    assert stored.digests is not None
    digests = DigestFile.resume(file.digests, stored.digests)
    try:
        wanted = new_head(producer, parameters_of(stored.seen), keys.as_json())
        with opened(address, producer, wanted) as found:
            if spec_of(found) != keys:
                raise FilterFileError(f"{address} holds {spec_of(found)}, not {keys}: choose another name")
            seen = found.seen
            seen.begin()
            new = push_digests(digests.read, digests.mark.count, seen)
            seen.end()
    finally:
        digests.close()
    return f"{address}: {counted(digests.mark.count, 'key')} pushed, {new:,} of them new"


def pulled(address: SetAddress, hash: KeyHash) -> tuple[Filter, KeySpec]:
    """Return the set as a local filter. Raises UsageError, SharedSetError, FilterError."""
    from crawler.seen.shared.transfer import pull  # noqa: PLC0415

    with opened(address, producer_of(hash)) as found:
        if not isinstance(found.seen, SharedSet):
            raise FilterError(f"{address} is stored by a module, and only the module can read it")
        return pull(found.seen), spec_of(found)
