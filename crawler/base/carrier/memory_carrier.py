"""A carrier in memory. Its data is a plain structure whose methods take the time as an argument; the carrier wraps it.

A position is ``INCARNATION-NUMBER``. Entries of a stream count from 1. A stream that was lost and starts again has
another incarnation, so an old position can be recognised and counts as START.

Epochs are stored with the stream, by writer. The epoch of a claim is stored in the stream of the same name, as that of
the writer with this name. The stream therefore knows the epoch at once, and keeps it after the claim has expired.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from crawler.base.carrier.verbs import START, CarrierFullError, Entry, Order, Position, StaleEpochError
from crawler.base.clock import boot_time

MOST_BYTES = 64 * 2**20  # limit for all entries and values together
MOST_VALUE = 64 * 2**10
ENTRY_COST = 64  # approximate overhead of an entry in bytes of memory


def check_values(values: Mapping[str, bytes]) -> None:
    """Raise ValueError if a value is larger than the contract allows."""
    for key, value in values.items():
        if len(value) > MOST_VALUE:
            raise ValueError(f"the value {key!r} has {len(value)} bytes: at most {MOST_VALUE} are allowed")


class _Claim:
    """The holder of a name's highest epoch, and the time when its claim expires. This object is kept even after that
    time."""

    def __init__(self, holder: str, until: float) -> None:
        self.holder = holder
        self.until = until


class _Stream:
    """The entries of one name, the first of which has the number ``trimmed`` + 1."""

    def __init__(self, incarnation: str) -> None:
        self.incarnation = incarnation
        self.entries: list[bytes] = []
        self.trimmed = 0
        self.epochs: dict[str, int] = {}

    def last(self) -> Position:
        number = self.trimmed + len(self.entries)
        return self._position(number) if number else START

    def after(self, position: Position, most: int) -> list[Entry]:
        begin = self._passed(position)
        return [
            Entry(self._position(number), data)
            for number, data in enumerate(self.entries[begin : begin + most], self.trimmed + begin + 1)
        ]

    def drop(self, upto: Position) -> list[bytes]:
        end = self._passed(upto)
        dropped = self.entries[:end]
        del self.entries[:end]
        self.trimmed += end
        return dropped

    def _position(self, number: int) -> Position:
        return f"{self.incarnation}-{number}"

    def _passed(self, position: Position) -> int:
        """Return how many entries are at or before a position; 0 if it is not a position of this stream."""
        incarnation, _, number = position.rpartition("-")
        if incarnation != self.incarnation or not (number.isascii() and number.isdecimal() and len(number) < 20):
            return 0
        passed = int(number) - self.trimmed
        return passed if 0 < passed <= len(self.entries) else 0


class Holdings:
    """Streams, claims and values in memory. The methods are the verbs of ``Carrier``."""

    def __init__(self, most_bytes: int = MOST_BYTES, incarnation: str | None = None) -> None:
        """``incarnation`` must be unique among all holdings that clients have seen."""
        self._most = most_bytes
        self._incarnation = os.urandom(8).hex() if incarnation is None else incarnation
        self._born = 0
        self._streams: dict[str, _Stream] = {}
        self._claims: dict[str, _Claim] = {}
        self._values: dict[str, dict[str, bytes]] = {}
        self._orders: dict[str, dict[str, Order]] = {}  # only for values that have an order
        self._bytes = 0

    def append(self, stream: str, writer: str, epoch: int, entries: Sequence[bytes]) -> Position:
        """Append entries. Raises StaleEpochError, and CarrierFullError if there is no room."""
        into = self._stream(stream)
        if into.epochs.get(writer, 0) > epoch:
            raise StaleEpochError(f"{writer} has been replaced: its epoch is {into.epochs[writer]}, not {epoch}")
        self._take(sum(map(len, entries)) + ENTRY_COST * len(entries))
        into.epochs[writer] = epoch
        into.entries += entries
        return into.last()

    def read(self, after: Mapping[str, Position], most: int) -> dict[str, list[Entry]]:
        """Return the entries that are available now."""
        found = {
            name: self._streams[name].after(position, most) for name, position in after.items() if name in self._streams
        }
        return {name: entries for name, entries in found.items() if entries}

    def trim(self, stream: str, upto: Position) -> None:
        """Drop the entries up to and including a position; drop none if the position is unknown."""
        if stream in self._streams:
            dropped = self._streams[stream].drop(upto)
            self._bytes -= sum(map(len, dropped)) + ENTRY_COST * len(dropped)

    def last(self, streams: Sequence[str]) -> list[Position]:
        """Return the last position of each stream; START for a stream that does not exist."""
        return [self._streams[name].last() if name in self._streams else START for name in streams]

    def claim(self, name: str, holder: str, floor: int, seconds: float, now: float) -> int | None:
        """Claim a name and return the epoch; None if the name has another holder at ``now``."""
        held = self._claims.get(name)
        if held is not None and now < held.until and held.holder != holder:
            return None
        epochs = self._stream(name).epochs
        epochs[name] = max(epochs.get(name, 0), floor) + 1
        self._claims[name] = _Claim(holder, now + seconds)
        return epochs[name]

    def renew(self, name: str, holder: str, epoch: int, seconds: float, now: float) -> bool:
        """Renew a claim; an expired claim can be renewed if the name has not been claimed since."""
        held = self._claims.get(name)
        if held is None or held.holder != holder or self._stream(name).epochs.get(name) != epoch:
            return False
        held.until = now + seconds
        return True

    def put(self, name: str, values: Mapping[str, bytes], order: Order | None = None) -> bool:
        """Set values. Returns False, and sets none, if any of them is older than the stored one. Raises
        CarrierFullError, and ValueError."""
        check_values(values)
        orders = self._orders.get(name, {})
        if order is not None and any(orders.get(key, order) > order for key in values):
            return False
        known = self._values.get(name, {})
        new = {key: value for key, value in values.items() if key not in known}
        grown = sum(len(value) - len(known.get(key, b"")) for key, value in values.items())
        self._take(grown + sum(ENTRY_COST + len(key) for key in new))
        self._values[name] = {**known, **values}
        if order is not None:
            self._orders[name] = {**orders, **dict.fromkeys(values, order)}
        return True

    def get(self, names: Sequence[str], key: str) -> list[bytes | None]:
        """Return the value of the key for each name; None where there is no value."""
        return [self._values.get(name, {}).get(key) for name in names]

    def _stream(self, name: str) -> _Stream:
        found = self._streams.get(name)
        if found is None:
            self._born += 1
            found = self._streams[name] = _Stream(f"{self._incarnation}.{self._born}")
        return found

    def _take(self, more: int) -> None:
        if more > 0 and self._bytes + more > self._most:
            raise CarrierFullError(f"the carrier is full: it uses {self._bytes} of {self._most} bytes")
        self._bytes += more


class MemoryCarrier:
    """A ``Carrier`` within one process. All users share one object; ``close`` does nothing."""

    def __init__(self, holdings: Holdings | None = None, clock: Callable[[], float] = boot_time) -> None:
        """``clock`` returns the time in seconds by which claims expire."""
        self._holdings = Holdings() if holdings is None else holdings
        self._clock = clock
        self._waiting: dict[str, dict[asyncio.Event, None]] = {}  # by stream, in order of arrival

    async def append(self, stream: str, writer: str, epoch: int, entries: Sequence[bytes]) -> Position:
        """See ``Carrier``."""
        last = self._holdings.append(stream, writer, epoch, entries)
        if entries:
            for event in self._waiting.get(stream, ()):
                event.set()
        return last

    async def read(self, after: Mapping[str, Position], most: int, wait: float) -> dict[str, list[Entry]]:
        """See ``Carrier``."""
        found = self._holdings.read(after, most)
        if found or wait <= 0:
            return found
        event = asyncio.Event()
        for name in after:
            self._waiting.setdefault(name, {})[event] = None
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await event.wait()
        finally:
            for name in after:
                self._waiting[name].pop(event, None)
                if not self._waiting[name]:
                    del self._waiting[name]
        return self._holdings.read(after, most)

    async def trim(self, stream: str, upto: Position) -> None:
        """See ``Carrier``."""
        self._holdings.trim(stream, upto)

    async def last(self, streams: Sequence[str]) -> list[Position]:
        """See ``Carrier``."""
        return self._holdings.last(streams)

    async def claim(self, name: str, holder: str, floor: int, seconds: float) -> int | None:
        """See ``Carrier``."""
        return self._holdings.claim(name, holder, floor, seconds, self._clock())

    async def renew(self, name: str, holder: str, epoch: int, seconds: float) -> bool:
        """See ``Carrier``."""
        return self._holdings.renew(name, holder, epoch, seconds, self._clock())

    async def put(self, name: str, values: Mapping[str, bytes], order: Order | None = None) -> bool:
        """See ``Carrier``."""
        return self._holdings.put(name, values, order)

    async def get(self, names: Sequence[str], key: str) -> list[bytes | None]:
        """See ``Carrier``."""
        return self._holdings.get(names, key)

    async def close(self) -> None:
        """Nothing to close."""
