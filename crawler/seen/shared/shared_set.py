"""A producer of a shared set, which finds the keys that no producer has added before.

It divides a batch by shards, sends each shard its keys, and combines the answers. If the newest slice of a
shard is full, the shard takes the keys that fit; the producer opens the next slice and sends the rest. Several
producers may find a slice full, but the next slice is opened only once: there are no locks, and no producer waits for
another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from crawler.seen.shared.shard_geometry import RECORD, SetParameters, digests_of, divide, geometry_of
from crawler.seen.shared.shard_requests import (
    RESENT,
    Add,
    Answer,
    Begin,
    End,
    Open,
    Request,
    Shards,
    SharedSetError,
    Status,
    Who,
)
from crawler.seen.slices.digests import DIGEST_BYTES, Key
from crawler.seen.slices.key_hash import KeyHash

_MOST_KEYS = 1024  # keys per request: its script takes about 10 ms, and blocks the server meanwhile
_ROUNDS = 1000  # maximum rounds per batch; few suffice, because each new slice is twice as large as the one before


class SharedSet:
    """A session of one producer. Not thread-safe."""

    def __init__(self, shards: Shards, parameters: SetParameters, who: Who, hash: KeyHash) -> None:
        """``hash`` must have the secret of the set. Call ``begin`` before other methods."""
        self.parameters = parameters
        self.hash = hash
        self.set = who.set
        self.shards = shards
        self.slices = [0] * parameters.shards
        self._who = who
        self._numbers = [0] * parameters.shards
        self._claims: set[bytes] = set()
        # True if a server has returned to an earlier state since this session started: keys that it acknowledged may be
        # lost.
        self.lost = False

    @property
    def claims(self) -> int:
        """The number of keys reported as new to earlier sessions of this producer, which may have ended before writing
        them."""
        return len(self._claims)

    def make(self) -> None:
        """Open the first slice of every shard, unless it is open."""
        self._open(dict.fromkeys(range(self.parameters.shards), 0), _MAKING)

    def begin(self) -> None:
        """Start the session. Raises SharedSetError, like all methods."""
        answers = self._ask([Begin(shard, self._who) for shard in range(self.parameters.shards)])
        for shard, answer in enumerate(answers):
            self.slices[shard] = answer.slices
            claims = answer.claims
            self._claims.update(claims[at : at + DIGEST_BYTES] for at in range(0, len(claims), DIGEST_BYTES))

    def end(self) -> None:
        """Confirm to the shards that all new keys were written: the next session of this producer gets no claims."""
        self._ask([End(shard, self._who) for shard in range(self.parameters.shards)])

    def close(self) -> None:
        """Close the connections. Without ``end``, the last new keys remain claims for the next session."""
        self.shards.close()

    def add_digests(self, digests: bytes) -> list[int]:
        """Add the keys of these digests. Returns the positions, ascending, of those that no producer had added. The
        call confirms that the new keys of the previous call were written."""
        return self._run(digests, looking=False)

    def contains_digests(self, digests: bytes) -> list[bool]:
        """Return, for each digest, True if its key is present or a false positive."""
        found = [True] * (len(digests) // DIGEST_BYTES)
        for position in self._run(digests, looking=True):
            found[position] = False
        return found

    def add_many(self, keys: Iterable[Key]) -> list[int]:
        """``add_digests`` for keys."""
        return self.add_digests(self.hash.digest_keys(keys))

    def contains_many(self, keys: Iterable[Key]) -> list[bool]:
        """``contains_digests`` for keys."""
        return self.contains_digests(self.hash.digest_keys(keys))

    def settled(self, request: Callable[[int], Request]) -> list[Answer]:
        """Return the answers of all shards to a request that names the current number of slices."""
        answers: dict[int, Answer] = {}
        for _ in range(_ROUNDS):
            left = [shard for shard in range(self.parameters.shards) if shard not in answers]
            if not left:
                return [answers[shard] for shard in range(self.parameters.shards)]
            for shard, answer in zip(left, self._ask([request(shard) for shard in left]), strict=True):
                if answer.status is Status.OTHER_SLICES:
                    self.slices[shard] = answer.slices
                else:
                    answers[shard] = answer
        raise SharedSetError("gave up: the shards of the set keep getting new slices")

    def _run(self, digests: bytes, looking: bool) -> list[int]:
        left = {part.shard: (part.positions, part.records) for part in divide(digests, self.parameters.shards)}
        new: list[int] = []
        for _ in range(_ROUNDS):
            if not left:
                return sorted(new)
            requests = [
                Add(
                    shard,
                    self._who,
                    self.slices[shard],
                    0 if looking else self._numbers[shard] + 1,
                    records[: _MOST_KEYS * RECORD],
                )
                for shard, (_, records) in left.items()
            ]
            full: dict[int, int] = {}
            for request, answer in zip(requests, self._ask(requests), strict=True):
                shard = request.shard
                if answer.status is Status.OTHER_SLICES:
                    self.slices[shard] = answer.slices
                    continue
                positions, records = left.pop(shard)
                taken = len(answer.new)
                if taken and not looking:
                    self._note(shard, answer.before)
                new += self._new_of(answer.new, positions, records)
                if taken < len(positions):
                    left[shard] = positions[taken:], records[taken * RECORD :]
                    if taken < len(request.records) // RECORD:
                        full[shard] = self.slices[shard]
            self._open(full)
        raise SharedSetError("gave up: the shards of the set keep getting new slices")

    def _note(self, shard: int, before: int) -> None:
        if before not in (RESENT, self._numbers[shard]):
            self.lost = True
        self._numbers[shard] += 1

    def _new_of(self, answers: bytes, positions: np.ndarray, records: bytes) -> list[int]:
        flags = np.frombuffer(answers, np.uint8).astype(np.bool_)
        if self._claims:
            digests = digests_of(records[: len(answers) * RECORD])
            for at in np.flatnonzero(~flags).tolist():
                digest = digests[at * DIGEST_BYTES : (at + 1) * DIGEST_BYTES]
                if digest in self._claims:
                    self._claims.discard(digest)
                    flags[at] = True
        found: list[int] = positions[: len(answers)][flags].tolist()
        return found

    def _open(self, numbers: dict[int, int], means: Mapping[Status, str] | None = None) -> None:
        """Open slice ``numbers[shard]`` of each shard, unless it is open."""
        if not numbers:
            return
        watched = self.parameters.watched
        requests = [
            Open(shard, self.set, number, geometry_of(self.parameters, number, shard), watched)
            for shard, number in numbers.items()
        ]
        for request, answer in zip(requests, self._ask(requests, means), strict=True):
            self.slices[request.shard] = answer.slices

    def _ask(self, requests: Sequence[Request], means: Mapping[Status, str] | None = None) -> list[Answer]:
        means = means or _MEANS
        answers = self.shards.ask(requests)
        for request, answer in zip(requests, answers, strict=True):
            if answer.status in means:
                raise SharedSetError(f"shard {request.shard} of the set {means[answer.status]}")
        return answers


_MEANS = {
    Status.GONE: (
        "is missing or incomplete: its server lost data, or keys were deleted; the keys added to it are "
        "unknown: delete the rest of the set, and create another one"
    ),
    Status.REPLACED: "serves another session of this producer: give each process its own --producer",
    Status.OTHER_SET: "belongs to another set of that name, created after this session started: run the command again",
}
_MAKING = {
    **_MEANS,
    Status.OTHER_SET: (
        "belongs to an earlier set of that name without a head: its server lost it, or it was deleted; "
        "delete the rest of that set, or choose another name"
    ),
}
