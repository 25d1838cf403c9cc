"""A producer of a shared set: which of these keys has nobody added before?

It divides a batch by shards, sends each shard its keys, and puts the answers together. Where the newest slice of a
shard is full, the shard takes what has room; this opens the next slice and sends the rest. Whoever finds a slice full
opens the next one, and it is opened once: no lock is held, and no producer waits for another.
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

_MOST_KEYS = 1024  # in one request: a script of some 10 ms, during which its server serves nobody else
_ROUNDS = 1000  # of one batch; each opens slices, which double


class SharedSet:
    """A session of one producer. Not for several threads."""

    def __init__(self, shards: Shards, parameters: SetParameters, who: Who, hash: KeyHash) -> None:
        """``hash`` has the secret of the set. Call ``begin`` first."""
        self.parameters = parameters
        self.hash = hash
        self.set = who.set
        self.shards = shards
        self.slices = [0] * parameters.shards
        self._who = who
        self._numbers = [0] * parameters.shards
        self._claims: set[bytes] = set()
        self._lost = False

    @property
    def lost(self) -> bool:
        """Whether a server has gone back to an earlier state since this session began: keys that it acknowledged may
        be gone."""
        return self._lost

    @property
    def claims(self) -> int:
        """How many keys earlier sessions of this producer were told are new, and may not have passed on."""
        return len(self._claims)

    def make(self) -> None:
        """Open the first slice of every shard, unless somebody did."""
        self._open(dict.fromkeys(range(self.parameters.shards), 0), _MAKING)

    def begin(self) -> None:
        """Begin the session. Raises SharedSetError, as all methods do."""
        answers = self._ask([Begin(shard, self._who) for shard in range(self.parameters.shards)])
        for shard, answer in enumerate(answers):
            self.slices[shard] = answer.slices
            claims = answer.claims
            self._claims.update(claims[at : at + DIGEST_BYTES] for at in range(0, len(claims), DIGEST_BYTES))

    def end(self) -> None:
        """Tell the shards that everything was passed on: nothing is left to the next session of this producer."""
        self._ask([End(shard, self._who) for shard in range(self.parameters.shards)])

    def close(self) -> None:
        """Close the connections. Without ``end``, what was told last remains claimed by the next session."""
        self.shards.close()

    def add_digests(self, digests: bytes) -> list[int]:
        """Add the keys of these digests. Returns the positions, ascending, of those that nobody had added. By calling
        this the caller says that it has passed on what was new in the call before."""
        return self._run(digests, looking=False)

    def contains_digests(self, digests: bytes) -> list[bool]:
        """For each: whether its key is in, or mistaken for one that is."""
        found = [True] * (len(digests) // DIGEST_BYTES)
        for position in self._run(digests, looking=True):
            found[position] = False
        return found

    def add_many(self, keys: Iterable[Key]) -> list[int]:
        """``add_digests`` of keys."""
        return self.add_digests(self.hash.digest_keys(keys))

    def contains_many(self, keys: Iterable[Key]) -> list[bool]:
        """``contains_digests`` of keys."""
        return self.contains_digests(self.hash.digest_keys(keys))

    def settled(self, request: Callable[[int], Request]) -> list[Answer]:
        """The answer of every shard to a request that states how many slices there are."""
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
        raise SharedSetError("the shards of the set grow without end")

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
        raise SharedSetError("the shards of the set grow without end")

    def _note(self, shard: int, before: int) -> None:
        if before not in (RESENT, self._numbers[shard]):
            self._lost = True
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
        """Open slice ``numbers[shard]`` of each shard, unless somebody did."""
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
        "is gone, or a part of it: its server lost it, or somebody deleted keys; what was added to it cannot be "
        "known any more: delete the rest of the set, and begin another one"
    ),
    Status.REPLACED: "serves another session of this producer: give each process a --producer of its own",
    Status.OTHER_SET: "belongs to another set of that name, made since this session began: run the command again",
}
_MAKING = {
    **_MEANS,
    Status.OTHER_SET: (
        "belongs to an earlier set of that name, which lost its head: its server lost it, or somebody deleted it; "
        "delete the rest of that set, or choose another name"
    ),
}
