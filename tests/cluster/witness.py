"""What the servers, the stores and those who call the carrier see of a simulated crawl, and what is wrong with it."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable, Collection
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from typing import Any

from crawler.base.kv import Batch, Family
from crawler.job.partition.inlet import decode_row
from crawler.job.partition.placement import Placement
from crawler.job.records import decode_done
from tests.laboratory import Asked

ASKED = 5.0  # seconds after a renewal of its claim began in which an owner may begin requests: half of its life
_ROUNDING = 1e-6
_SAID = 5  # of the things that are wrong, of each kind


class Fate(Enum):
    """What became of a request."""

    IN_FLIGHT = auto()
    ANSWERED = auto()
    FAILED = auto()  # the member learnt that no answer came
    GIVEN_UP = auto()  # the member died or lost the partition


@dataclass(eq=False)
class Request(Asked):
    """A request as the servers saw it, by which process, and what became of it."""

    line: Any = None
    fate: Fate = Fate.IN_FLIGHT


class Witness:
    """Sees one crawl. ``wrong`` says what must not be; ``counts`` what happened; ``trace`` is made of all of it."""

    def __init__(
        self, clock: Callable[[], float], placement: Placement, pages: Collection[str], *, apart: bool = False
    ) -> None:
        """``apart``: each process has a disk of its own."""
        self.apart = apart
        self._clock = clock
        self._placement = placement
        self._pages = frozenset(pages)
        self._claims: dict[tuple[Any, str], tuple[int, float]] = {}  # of each process: epoch, begin of last renewal
        self._latest: dict[str, Request] = {}  # by URL
        self._finished: set[str] = set()  # in a store
        self._durable: set[str] = set()  # ... and synced
        self._unsynced: dict[Path, list[str]] = defaultdict(list)
        self._trace = hashlib.sha256()
        self.wrong: dict[str, list[str]] = defaultdict(list)
        self.counts = Counter[str]()

    def note(self, *words: object) -> None:
        """Something happened: it becomes a part of the trace."""
        self._trace.update(repr((self._clock(), *words)).encode())

    def complain(self, kind: str, words: str) -> None:
        """Something is wrong."""
        self.counts[f"wrong: {kind}"] += 1
        if len(self.wrong[kind]) < _SAID:
            self.wrong[kind].append(words)

    @property
    def trace(self) -> str:
        """A digest of all that happened, in its order and at its time."""
        return self._trace.hexdigest()[:16]

    # -- claims ------------------------------------------------------------------------------------------------

    def claimed(self, line: Any, name: str, epoch: int, began: float) -> None:
        """A process got or renewed a claim, by a call that it made at that time. An answer may come after a later
        one."""
        self._claims[line, name] = max(self._claims.get((line, name), (0, 0.0)), (epoch, began))

    def not_claimed(self, line: Any, name: str, epoch: int) -> None:
        """It was told that the name is not its own in that epoch, or freed it."""
        if self._claims.get((line, name), (epoch, 0.0))[0] == epoch:
            self._claims.pop((line, name), None)

    # -- requests ----------------------------------------------------------------------------------------------

    def asks(self, request: Request, *, probes: bool) -> None:
        """A server gets a request. ``probes``: its process asks whether any host answers at all."""
        now, href, line = self._clock(), request.href, request.line
        self.note("asks", line.number, href)
        name = f"p{self._placement.of(href)}"
        _, began = self._claims.get((line, name), (0, None))
        if began is None or now >= began + ASKED + _ROUNDING:
            late = "without a claim" if began is None else f"{now - began:.3f} s after its claim was renewed"
            self.complain("fence", f"{href} is asked for {late}")
        before = self._latest.get(href)
        if before is not None:
            self.counts["asked again"] += 1
            self.counts["probes"] += probes
            if not probes and not self._has_reason(before, line):
                self.complain("asked again", f"{href} at {now:.2f}, and at {before.begin:.2f}: {before.fate.name}")
        if before is None or not probes:
            self._latest[href] = request

    def _has_reason(self, before: Request, line: Any) -> bool:
        """Whether the URL of a request may be asked for again, by that process."""
        match before.fate:
            case Fate.IN_FLIGHT:  # from machines of their own, others take over what a process has that was stopped
                return bool(before.line.is_dead) or (self.apart and line is not before.line)
            case Fate.ANSWERED:
                return before.href not in self._finished  # its process died, or lost power
            case _:
                return True

    # -- stores ------------------------------------------------------------------------------------------------

    def writes(self, path: Path, batch: Batch, get: Callable[[Family, bytes], bytes | None]) -> None:
        """A store is about to write a batch. ``get`` reads what it has before."""
        for href in _finished_by(batch):
            self._finished.add(href)
            self._unsynced[path].append(href)
            self.note("finished", href)
        for family, key, value, _ in batch.changes:
            if family is Family.INLET and value is not None:
                before = get(Family.INLET, key)
                if before is not None and decode_row(key, value) <= decode_row(key, before):
                    self.complain("inlet", f"{decode_row(key, value)} after {decode_row(key, before)}")

    def stored(self, hrefs: Collection[str]) -> None:
        """The store in which the crawl lives has finished these URLs for good."""
        self._finished.update(hrefs)

    def synced(self, path: Path) -> None:
        """All of a store is durable."""
        self._durable.update(self._unsynced.pop(path, ()))

    def lost(self, path: Path, batches: Collection[Batch]) -> None:
        """A store has lost what it wrote last."""
        gone = {href for batch in batches for href in _finished_by(batch)}
        self._finished -= gone
        self._durable.update(href for href in self._unsynced.pop(path, ()) if href not in gone)
        self.counts["batches lost"] += len(batches)

    def handed_over(self, partition: int, hrefs: Collection[str]) -> None:
        """A partition whose owner has closed it in order goes on elsewhere, and has finished these URLs."""
        lost = {href for href in self._finished if self._placement.of(href) == partition}.difference(hrefs)
        if lost:
            self.complain("handed over", f"partition {partition} without {sorted(lost)[:3]} of {len(lost)}")

    def taken_over(self, partition: int, hrefs: Collection[str]) -> None:
        """A partition goes on elsewhere, and has finished these URLs: what else it had is lost."""
        self.note("taken over", partition)
        of_it = {href for href in self._finished | self._durable if self._placement.of(href) == partition}
        self.counts["finished again"] += len(of_it.difference(hrefs))
        self._finished = (self._finished - of_it).union(hrefs)
        self._durable = (self._durable - of_it).union(hrefs)
        for request in self._latest.values():
            if request.fate is Fate.IN_FLIGHT and self._placement.of(request.href) == partition:
                request.fate = Fate.GIVEN_UP  # by a process that was stopped

    # -- the end -----------------------------------------------------------------------------------------------

    def ends(self, number: int) -> None:
        """A member says that the crawl has ended."""
        self.note("ends", number)
        left = self._pages - self._durable
        if left:
            self.complain("early end", f"member {number} ends, and {len(left)} of {len(self._pages)} are left")


def _finished_by(batch: Batch) -> list[str]:
    return [
        decode_done(value).entry.href
        for family, _, value, _ in batch.changes
        if family is Family.DONE and value is not None
    ]
