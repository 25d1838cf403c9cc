"""URLs that a rule of ours excluded, kept so that a run whose settings permit them queues them again.

The rules are those of ``crawler.url.refusal.own_rules``, budgets and traps among them. What traps drop without a record
is at the ``border``.

A row of ``REFUSED`` is the rule, NUL and the href -> what is refused (an address, a port, the words of a limit), and
the entry. It is written in the transaction that finishes the URL as excluded, and goes in the one that queues it again.

For each rule META holds, under ``held-back/`` and its name, a digest of the settings that the rows were last looked at
with, and how far that has come. As long as the settings are the same, nothing is read. When they have changed, the rows
of that rule are read a few at a time, beside the crawl, in one transaction each: a crash repeats nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import struct
from collections.abc import Awaitable, Callable, Iterator

from msgspec import Struct

from crawler.base.kv import Batch, Family, Reader, Store
from crawler.base.settings.parts import FetchSettings, Settings
from crawler.frontier.entry import Entry, EntryError, decode_entry, encode_entry
from crawler.frontier.frontier import Frontier
from crawler.frontier.traps.origins import Origins, refusal_of_limit
from crawler.frontier.traps.traps import Traps
from crawler.job.records import Counters, PageRecord, count_refused, refused_by, url_kind
from crawler.url.refusal.own_rules import Permits, Refusal, Rule, refusal_of, refusal_of_address, refusal_of_port
from crawler.url.scope.bounds import budgets_of

ROWS = 256  # read in one transaction
_STATE = b"held-back/"
_LENGTH = struct.Struct("<H")
_DIGEST = 16
_MORE, _ALL = b"\0", b"\1"  # the first byte of a state


class HeldBackError(ValueError):
    """A row is not a URL that was held back."""


class OwnRules(Struct, frozen=True):
    """The rules of one run: what the user permits, and the limits of hosts and ports."""

    settings: Settings
    origins: Origins

    @classmethod
    def of(cls, settings: Settings, store: Reader) -> OwnRules:
        return cls(settings, Origins(settings.traps, settings.fetch, store))

    def refusal_of_host(self, name: str) -> Refusal | None:
        """Why a ``host:port`` must not be asked, as far as it tells."""
        host, _, port = name.rpartition(":")
        return refusal_of(host, int(port), self.settings.fetch)

    def refusal(self, rule: Rule, subject: str) -> Refusal | None:
        """Why the rule refuses an address, a port, or what it counts; None if it is permitted now."""
        permitted = self.settings.fetch
        if rule is Rule.BLOCKED_PORT:
            return None if int(subject) in permitted.allow_ports else refusal_of_port(int(subject))
        if rule.is_of_address:
            return refusal_of_address(subject, Permits.of(permitted))
        if rule.is_setting:
            return Refusal.of_setting(rule, subject)
        return refusal_of_limit(rule, subject, self.settings.traps)

    def state(self, rule: Rule) -> bytes:
        """A digest of the settings on which a rule depends."""
        permitted = self.settings.fetch
        networks = ",".join(sorted(permitted.allow_networks))
        if rule is Rule.PRIVATE_ADDRESS:
            text = f"{permitted.allow_private} {networks}"
        elif rule.is_of_address:
            text = networks
        elif rule is Rule.BLOCKED_PORT:
            text = ",".join(map(str, sorted(permitted.allow_ports)))
        else:
            text = budgets_of(self.settings) if rule.value.startswith("budget.") else repr(self.settings.traps)
        return hashlib.blake2b(text.encode(), digest_size=_DIGEST).digest()


class HeldBack:
    """The URLs of a job that are held back. ``tell`` is called with one line for the first URL of each rule."""

    def __init__(self, store: Store, frontier: Frontier, counters: Counters) -> None:
        self._store = store
        self._frontier = frontier
        self._counters = counters
        self._loaded: tuple[OwnRules, Traps] | None = None
        self._at: dict[Rule, bytes] = {}  # rules whose rows are to be looked at, and from which key on
        self._told: set[Rule] = set()
        self.tell: Callable[[str], None] = _nobody

    def load(self, rules: OwnRules, traps: Traps, batch: Batch) -> None:
        """Begin a run with these rules and traps."""
        self._loaded = rules, traps
        for rule in Rule:
            stored, state = self._store.get(Family.META, _STATE + rule.encode()), rules.state(rule)
            changed = stored is None or stored[1 : 1 + _DIGEST] != state
            if changed and not refused_by(self._counters, rule):
                _put_state(rule, _ALL, state, b"", batch)
            elif changed:
                self._at[rule] = _first(rule)
                _put_state(rule, _MORE, state, _first(rule), batch)
            elif stored is not None and stored[:1] == _MORE:
                self._at[rule] = stored[1 + _DIGEST :]

    @property
    def left(self) -> bool:
        """Whether rows are left to be looked at."""
        return bool(self._at)

    def tell_rest(self) -> None:
        """Say how many URLs of earlier runs stay held back."""
        for rule, number in self.counts().items():
            if rule not in self._at:
                are = "URL is" if number == 1 else "URLs are"
                self.tell(f"{number} {are} held back by the rule {rule.value}{self._example(rule, number)}")

    def _example(self, rule: Rule, number: int) -> str:
        """What permits the first URL that the rule holds back."""
        for key, value in self._store.scan(Family.REFUSED, _first(rule), _end(rule), 1):
            with contextlib.suppress(HeldBackError):  # the damage is reported by `verify`, and by a run that permits it
                _, subject, entry = decode_row(key, value)
                refusal = None if self._loaded is None else self._loaded[0].refusal(rule, subject)
                if refusal is not None:
                    return f": {refusal.words}" if number == 1 else f", such as {entry.href}: {refusal.words}"
        return ": `crawler explain` says what permits a URL"

    def counts(self) -> dict[Rule, int]:
        """How many URLs each rule holds back."""
        return {rule: number for rule in Rule if (number := refused_by(self._counters, rule))}

    def add(self, record: PageRecord, batch: Batch) -> None:
        """Keep a URL that is finished as excluded by a rule of ours. One that is visited again comes back anyway."""
        refusal, entry = record.refusal, record.entry
        if refusal is None:
            return
        if refusal.rule not in self._told:
            self._told.add(refusal.rule)
            self.tell(f"not fetched: {entry.href}: {refusal.error}; others of this kind are only counted")
        if not entry.revisit:
            self._put(refusal, entry._replace(last=url_kind(record.outcome, None)), batch)

    def _put(self, refusal: Refusal, entry: Entry, batch: Batch) -> None:
        key = _key(refusal.rule, entry.href)
        if self._store.get(Family.REFUSED, key) is None:
            count_refused(self._counters, refusal.rule, 1)
        batch.put(Family.REFUSED, key, encode_row(refusal, entry))

    def step(self, batch: Batch) -> bool:
        """Look at some rows, and queue the URLs that are permitted now. Returns whether more are left. Raises OSError,
        HeldBackError."""
        if self._loaded is None or not self._at:
            return False
        rules, _ = self._loaded
        rule, start = next(iter(self._at.items()))
        rows = self._store.scan(Family.REFUSED, start, _end(rule), ROWS)
        again: list[Entry] = []
        for key, value in rows:
            _, subject, entry = decode_row(key, value)
            refused = self._refusal(self._loaded, rule, subject, entry.href, batch)
            if refused is not None and refused.rule is rule:
                continue
            batch.delete(Family.REFUSED, key)
            count_refused(self._counters, rule, -1)
            if refused is None:
                again.append(entry._replace(tries=0, throttled=0))
            else:
                self._put(refused, entry, batch)
        self._counters.revisits += len(again)
        self._counters.returned += len(again)
        self._frontier.admit(again, batch)
        if len(rows) < ROWS:
            del self._at[rule]
        else:
            self._at[rule] = rows[-1][0] + b"\0"
        progress = _MORE if rule in self._at else _ALL
        _put_state(rule, progress, rules.state(rule), self._at.get(rule, b""), batch)
        return self.left

    def _refusal(
        self, loaded: tuple[OwnRules, Traps], rule: Rule, subject: str, href: str, batch: Batch
    ) -> Refusal | None:
        """Why the URL that the rule excluded is still refused, maybe by another one; None if it is not. Further rules
        have their turn when the URL has it."""
        rules, traps = loaded
        refused: Refusal | None
        if rule in (Rule.TOO_MANY_PORTS, Rule.TOO_MANY_HOSTS):
            refused, grown = rules.origins.take_back(href, rule, batch)
        elif rule.value.startswith("traps."):
            refused, grown = traps.still_refuses(rule, href, batch)
        elif rule.is_setting:
            refused, grown = self._frontier.over_budget(href), 0
        else:
            refused, grown = rules.refusal(rule, subject), 0
        self._counters.trap_counts += grown
        return refused


async def return_beside(
    sync: Callable[[], Awaitable[None]], room: Callable[[], Awaitable[None]], step: Callable[[], bool]
) -> None:
    """Call ``step`` until it returns False."""
    # A record that a power loss takes queues its URL again. It must not do so for one that this has queued.
    await sync()
    more = True
    while more:
        await room()
        more = step()
        await asyncio.sleep(0)


def take_row(store: Reader, counters: Counters, href: str, batch: Batch) -> Entry | None:
    """The entry of a URL that is held back, which is held back no longer; None if it is not. Raises HeldBackError."""
    for rule in Rule:
        key = _key(rule, href)
        value = store.get(Family.REFUSED, key)
        if value is not None:
            _, _, entry = decode_row(key, value)
            batch.delete(Family.REFUSED, key)
            count_refused(counters, rule, -1)
            return entry._replace(tries=0, throttled=0)
    return None


def drop_row(store: Reader, counters: Counters, entry: Entry, batch: Batch) -> None:
    """Forget that a URL is held back, because its record was lost and it is queued again."""
    for rule in Rule:
        if store.get(Family.REFUSED, _key(rule, entry.href)) is not None:
            batch.delete(Family.REFUSED, _key(rule, entry.href))
            count_refused(counters, rule, -1)


def encode_row(refusal: Refusal, entry: Entry) -> bytes:
    """The value of a row."""
    subject = refusal.subject.encode("ascii")
    return _LENGTH.pack(len(subject)) + subject + encode_entry(entry)


def decode_row(key: bytes, value: bytes) -> tuple[Rule, str, Entry]:
    """(rule, subject, entry) of a row; raises HeldBackError."""
    try:
        name, _, href = key.decode("ascii").partition("\0")
        rule = Rule(name)
        end = _LENGTH.size + _LENGTH.unpack_from(value)[0]
        subject, entry = value[_LENGTH.size : end].decode("ascii"), decode_entry(value[end:])
        if rule is Rule.BLOCKED_PORT:
            int(subject)
        elif rule.is_of_address:
            refusal_of_address(subject, Permits.of(FetchSettings()))
    except (EntryError, ValueError, struct.error) as error:
        raise HeldBackError(f"not a URL that was held back: {error}") from error
    if entry.href != href:
        raise HeldBackError(f"not a URL that was held back: the entry of {entry.href}")
    return rule, subject, entry


def held_back(store: Reader) -> Iterator[tuple[bytes, bytes]]:
    """All rows."""
    return store.rows(Family.REFUSED)


def _key(rule: Rule, href: str) -> bytes:
    return f"{rule.value}\0{href}".encode("ascii")


def _first(rule: Rule) -> bytes:
    return _key(rule, "")


def _end(rule: Rule) -> bytes:
    return rule.value.encode("ascii") + b"\1"


def _put_state(rule: Rule, progress: bytes, state: bytes, at: bytes, batch: Batch) -> None:
    batch.put(Family.META, _STATE + rule.encode(), progress + state + at)


def _nobody(text: str) -> None:
    pass
