"""One shard of a shared set in memory: the reference for what the scripts on servers do."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from crawler.seen.shared.shard_geometry import BLOCK, RECORD, Geometry
from crawler.seen.shared.shard_requests import (
    DAY,
    NEVER,
    RESENT,
    Add,
    Answer,
    Begin,
    End,
    Figures,
    Fill,
    Open,
    Read,
    Request,
    SliceFigures,
    Status,
)

MARKED_LEVELS = 16


class _Producer:
    """What a shard knows of one."""

    def __init__(self, session: bytes, heard: float) -> None:
        self.session = session
        self.number = 0
        self.heard = heard
        self.new = b""
        self.unsaid = b""  # digests that it was told of last
        self.claims = b""  # those that earlier sessions may not have passed on


class _Watched:
    """The keys that are watched exactly, and whether they were misjudged."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.level = 0
        self.known: dict[bytes, bool] = {}

    def watch(self, digest: bytes, found: bool) -> None:
        if mark_of(digest) >= 1 << (MARKED_LEVELS - self.level) or len(self.known) > self.most:
            return
        self.known.setdefault(digest, found)
        while len(self.known) > self.most and self.level < MARKED_LEVELS:
            self.level += 1
            limit = 1 << (MARKED_LEVELS - self.level)
            self.known = {key: wrong for key, wrong in self.known.items() if mark_of(key) < limit}


class Shard:
    """See the module."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._set: bytes | None = None
        self._slices: list[tuple[Geometry, bytearray]] = []
        self._counts: list[int] = []
        self._watched = _Watched(0)
        self._producers: dict[bytes, _Producer] = {}

    def ask(self, request: Request) -> Answer:
        """Do one request."""
        match request:
            case Open():
                return self._open(request)
            case Begin():
                return self._begin(request)
            case Add():
                return self._add(request)
            case End():
                return self._end(request)
            case Figures():
                return self._figures(request)
            case Read():
                memory = self._slices[request.number][1]
                return Answer(Status.DONE, data=bytes(memory[request.start : request.end]))
            case Fill():
                self._slices[request.number][1][request.start : request.start + len(request.data)] = request.data
                self._counts[request.number] = request.held
                return Answer(Status.DONE)

    def _open(self, request: Open) -> Answer:
        if self._set not in (None, request.set):
            return Answer(Status.OTHER_SET)
        if len(self._slices) == request.number:
            if self._set is None:
                self._set, self._watched = request.set, _Watched(request.watched)
            self._slices.append((request.geometry, bytearray(request.geometry.size)))
            self._counts.append(0)
        return Answer(Status.DONE, len(self._slices))

    def _known(self, set_: bytes) -> Status:
        if self._set is None:
            return Status.GONE
        return Status.DONE if self._set == set_ else Status.OTHER_SET

    def _begin(self, request: Begin) -> Answer:
        if status := self._known(request.who.set):
            return Answer(status)
        now = self._clock()
        self._producers = {name: held for name, held in self._producers.items() if held.heard >= now - DAY}
        held = self._producers.get(request.who.producer)
        made = _Producer(request.who.session, now)
        if held is not None:
            made.claims = held.claims + held.unsaid
        self._producers[request.who.producer] = made
        return Answer(Status.DONE, len(self._slices), claims=made.claims)

    def _add(self, request: Add) -> Answer:
        who, number = request.who, request.number
        if status := self._known(who.set):
            return Answer(status)
        if request.slices != len(self._slices):
            return Answer(Status.OTHER_SLICES, len(self._slices))
        before, producer = NEVER, self._producers.get(who.producer)
        if number and producer is not None:
            before = producer.number
            if producer.session != who.session or before > number:
                return Answer(Status.REPLACED)
            if before == number:
                return Answer(Status.DONE, len(self._slices), RESENT, producer.new)
        answers, kept = self._take(request.records, look=not number)
        if number and answers:
            if producer is None:
                producer = self._producers[who.producer] = _Producer(who.session, 0)
            producer.number, producer.heard, producer.new = number, self._clock(), answers
            producer.unsaid = kept if who.keeps else b""
        return Answer(Status.DONE, len(self._slices), before, answers)

    def _take(self, records: bytes, look: bool) -> tuple[bytes, bytes]:
        answers, kept = bytearray(), bytearray()
        geometry, newest = self._slices[-1]
        for at in range(0, len(records), RECORD):
            record = records[at : at + RECORD]
            found = any(holds(part, memory, record) for part, memory in reversed(self._slices))
            digest = record[4:]
            if not found and not look:
                if self._counts[-1] >= geometry.capacity:
                    break
                put(geometry, newest, record)
                self._counts[-1] += 1
                kept += digest
            if not look:
                self._watched.watch(digest, found)
            answers.append(not found)
        return bytes(answers), bytes(kept)

    def _end(self, request: End) -> Answer:
        if status := self._known(request.who.set):
            return Answer(status)
        producer = self._producers.get(request.who.producer)
        if producer is not None and producer.session == request.who.session:
            if request.who.keeps:  # an earlier session of that name may live: it must learn that it was replaced
                producer.heard = self._clock()
                producer.new = producer.unsaid = producer.claims = b""
            else:
                del self._producers[request.who.producer]
        return Answer(Status.DONE, len(self._slices))

    def _figures(self, request: Figures) -> Answer:
        if status := self._known(request.set):
            return Answer(status)
        if request.slices != len(self._slices):
            return Answer(Status.OTHER_SLICES, len(self._slices))
        parts = []
        for (geometry, memory), count in zip(self._slices, self._counts, strict=True):
            start, end = sample_of(geometry, request.sample, request.where)
            ones = int.from_bytes(memory, "little").bit_count()
            parts.append(SliceFigures(geometry, count, ones, bytes(memory[start:end])))
        known = self._watched.known
        return Answer(Status.DONE, len(self._slices), parts=tuple(parts), watched=len(known), wrong=sum(known.values()))


class MemoryShards:
    """All shards of a set in the memory of this process."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._shards: dict[int, Shard] = {}

    def ask(self, requests: Sequence[Request]) -> list[Answer]:
        """See ``Shards``."""
        return [self._shards.setdefault(request.shard, Shard(self._clock)).ask(request) for request in requests]

    def close(self) -> None:
        """Nothing is to be done."""


def sample_of(geometry: Geometry, most: int, where: int) -> tuple[int, int]:
    """Which bytes of a part are read for its figures."""
    blocks = min(geometry.blocks, max(1, most // BLOCK))
    start = (geometry.blocks - blocks) * where >> 16
    return start * BLOCK, (start + blocks) * BLOCK


def mark_of(digest: bytes) -> int:
    """The sixteen bits that no slice uses, by which keys are chosen to be watched."""
    lanes = [int.from_bytes(digest[at : at + 2], "little") >> 12 for at in (14, 12, 10, 8)]
    return lanes[0] << 12 | lanes[1] << 8 | lanes[2] << 4 | lanes[3]


def places(geometry: Geometry, record: bytes) -> tuple[int, list[tuple[int, int]]]:
    """Where the block of a key begins, and the bits in it: each a byte and a mask."""
    fraction = int.from_bytes(record[:4], "little")
    start = ((fraction * geometry.whole >> 32) - geometry.first) * BLOCK
    bits = []
    for word in range(8):
        lane = int.from_bytes(record[4 + 2 * word : 6 + 2 * word], "little")
        for chosen in (lane & 63, lane >> 6 & 63)[: geometry.hashes // 8]:
            bits.append((8 * word + (chosen >> 3), 1 << (chosen & 7)))
    return start, bits


def holds(geometry: Geometry, memory: bytearray, record: bytes) -> bool:
    """Whether all bits of a key are set."""
    start, bits = places(geometry, record)
    return all(memory[start + at] & mask for at, mask in bits)


def put(geometry: Geometry, memory: bytearray, record: bytes) -> None:
    """Set the bits of a key."""
    start, bits = places(geometry, record)
    for at, mask in bits:
        memory[start + at] |= mask
