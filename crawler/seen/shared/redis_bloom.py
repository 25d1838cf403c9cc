"""A set in the module RedisBloom or valkey-bloom, which has one filter per shard.

The module needs no scripts, but reports less. If a request were sent twice, the second answer would report the keys
that the first request added as seen. So no request is repeated, and a lost answer ends the run. The module reports how
many keys a filter holds and its size, but neither its fill nor its false-positive rate.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from crawler.base.carrier.redis_servers import Command
from crawler.seen.shared.redis_shards import PatientServers
from crawler.seen.shared.shard_geometry import SetParameters, digests_of, divide
from crawler.seen.shared.shard_requests import SharedSetError, SharedSetRefusedError
from crawler.seen.slices.digests import DIGEST_BYTES, Key
from crawler.seen.slices.key_hash import KeyHash

LACKS = (
    "the module does not report the fill or the false-positive rate of this set, and lines whose answer is lost "
    "are neither printed nor requested again"
)
_MOST_KEYS = 1024


class ModuleSet:
    """A producer of a set in the module, with the interface of ``SharedSet``."""

    lost = False
    claims = 0

    def __init__(self, servers: PatientServers, name: str, parameters: SetParameters, hash: KeyHash) -> None:
        self.parameters = parameters
        self.hash = hash
        self._servers = servers
        self._name = name

    def make(self) -> None:
        """Reserve a filter for every shard, unless it exists. Raises SharedSetError, SharedSetRefusedError."""
        made = self.parameters
        capacity = math.ceil(made.capacity / made.shards)
        for shard in range(made.shards):
            key = self._key(shard)
            words = ("BF.RESERVE", key, repr(made.fpp), capacity, "EXPANSION", max(1, round(made.growth)))
            try:
                self._servers.ask([Command(key, words)], again=False)  # do not retry if the filter already exists
            except SharedSetError as problem:
                if "exist" not in str(problem):
                    raise
            except SharedSetRefusedError as problem:
                if "unknown command" not in str(problem).lower():
                    raise
                raise SharedSetRefusedError(
                    f"{self._servers.text} has neither RedisBloom nor valkey-bloom: load the module, or omit --module"
                ) from problem

    def begin(self) -> None:
        """Check that the filters exist. Raises SharedSetError."""
        self._info()

    def end(self) -> None:
        """Do nothing, because the module does not know producers."""

    def close(self) -> None:
        """Close the connections."""
        self._servers.close()

    def add_digests(self, digests: bytes) -> list[int]:
        """As in ``SharedSet``. Also raises SharedSetError if an answer was lost."""
        return self._positions("BF.MADD", digests)

    def contains_digests(self, digests: bytes) -> list[bool]:
        """Like ``SharedSet``."""
        found = [False] * (len(digests) // DIGEST_BYTES)
        for position in self._positions("BF.MEXISTS", digests):
            found[position] = True
        return found

    def add_many(self, keys: Iterable[Key]) -> list[int]:
        """``add_digests`` for keys."""
        return self.add_digests(self.hash.digest_keys(keys))

    def contains_many(self, keys: Iterable[Key]) -> list[bool]:
        """``contains_digests`` for keys."""
        return self.contains_digests(self.hash.digest_keys(keys))

    def statistics(self) -> dict[str, Any]:
        """Return the statistics that the module reports."""
        told = self._info()
        count, size = sum(each["Number of items inserted"] for each in told), sum(each["Size"] for each in told)
        return {
            "kind": "module",
            "hash": self.hash.describe(),
            "shards": self.parameters.shards,
            "filters": max(each["Number of filters"] for each in told),
            "count": count,
            "fpp_target": self.parameters.fpp,
            "bytes": size,
            "bits_per_url": size * 8 / count if count else None,
        }

    def _positions(self, word: str, digests: bytes) -> list[int]:
        found: list[int] = []
        commands, parts = [], []
        for part in divide(digests, self.parameters.shards):
            key, own = self._key(part.shard), digests_of(part.records)
            keys = [own[at : at + DIGEST_BYTES] for at in range(0, len(own), DIGEST_BYTES)]
            for start in range(0, len(keys), _MOST_KEYS):
                commands.append(Command(key, (word, key, *keys[start : start + _MOST_KEYS])))
                parts.append(part.positions[start : start + _MOST_KEYS])
        for positions, answers in zip(parts, self._servers.ask(commands, again=False), strict=True):
            if any(isinstance(answer, Exception) for answer in answers):
                raise SharedSetError(f"{self._servers.text}: {next(a for a in answers if isinstance(a, Exception))}")
            found += [int(at) for at, answer in zip(positions, answers, strict=True) if answer == 1]
        return sorted(found)

    def _info(self) -> list[dict[str, int]]:
        keys = [self._key(shard) for shard in range(self.parameters.shards)]
        told = self._servers.ask([Command(key, ("BF.INFO", key)) for key in keys])
        return [_named(answer) for answer in told]

    def _key(self, shard: int) -> str:
        return f"crawler:seen:{{{self._name}:{shard}}}:module"


def _named(answer: list[Any]) -> dict[str, int]:
    names = [name.decode() if isinstance(name, bytes) else str(name) for name in answer[::2]]
    return dict(zip(names, answer[1::2], strict=True))
