"""A set that the module RedisBloom, or valkey-bloom, keeps: one of its filters for each shard.

The module has no script, so it needs less of the server and can tell less. Its answer to a request that is sent again
calls every key seen that the first copy added: so nothing is sent again, and a lost answer ends the run. It says how
many keys a filter holds and how large it is, and neither which share of the bits is set nor how often it is wrong.
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
    "the module keeps this set: it does not tell its fill, nor how often it is wrong; and lines whose answer is lost "
    "are neither printed nor asked for again"
)
_MOST_KEYS = 1024


class ModuleSet:
    """A producer of such a set; it offers what ``SharedSet`` does."""

    lost = False
    claims = 0

    def __init__(self, servers: PatientServers, name: str, parameters: SetParameters, hash: KeyHash) -> None:
        self.parameters = parameters
        self.hash = hash
        self._servers = servers
        self._name = name

    def make(self) -> None:
        """Reserve a filter for every shard, unless somebody did. Raises SharedSetError, SharedSetRefusedError."""
        made = self.parameters
        capacity = math.ceil(made.capacity / made.shards)
        for shard in range(made.shards):
            key = self._key(shard)
            words = ("BF.RESERVE", key, repr(made.fpp), capacity, "EXPANSION", max(1, round(made.growth)))
            try:
                self._servers.ask([Command(key, words)], again=False)  # an answer that it exists is not asked for again
            except SharedSetError as problem:
                if "exist" not in str(problem):
                    raise
            except SharedSetRefusedError as problem:
                if "unknown command" not in str(problem).lower():
                    raise
                raise SharedSetRefusedError(
                    f"{self._servers.text} has neither RedisBloom nor valkey-bloom: load the module, or leave out "
                    "--module"
                ) from problem

    def begin(self) -> None:
        """Raises SharedSetError where the filters are gone."""
        self._info()

    def end(self) -> None:
        """The module knows of no producers."""

    def close(self) -> None:
        """Close the connections."""
        self._servers.close()

    def add_digests(self, digests: bytes) -> list[int]:
        """As ``SharedSet``. Raises SharedSetError also where an answer was lost."""
        return self._positions("BF.MADD", digests)

    def contains_digests(self, digests: bytes) -> list[bool]:
        """As ``SharedSet``."""
        found = [False] * (len(digests) // DIGEST_BYTES)
        for position in self._positions("BF.MEXISTS", digests):
            found[position] = True
        return found

    def add_many(self, keys: Iterable[Key]) -> list[int]:
        """``add_digests`` of keys."""
        return self.add_digests(self.hash.digest_keys(keys))

    def contains_many(self, keys: Iterable[Key]) -> list[bool]:
        """``contains_digests`` of keys."""
        return self.contains_digests(self.hash.digest_keys(keys))

    def statistics(self) -> dict[str, Any]:
        """What the module says."""
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
