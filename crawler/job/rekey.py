"""Gives the seen-set of an older job a secret.

Jobs of the first format hash their URLs with MurmurHash3 and seed 0: anyone can write a URL that has the digest of
another, and hides it. A digest cannot be hashed again, so every digest that the job stores is computed anew, from the
URLs themselves:

    finished URLs    the records in pages.jsonl, and behind them the entries of the journal
    pending URLs     the queue
    doubted URLs     the ledger

The counts of traps start over: their digests are cryptographic now.

The journal gets new events, the ledger new rows, and the seen-set is rebuilt from the journal when the job is opened.

All of this is possible only if the job still knows the address of every URL that it ever admitted. It shows in the old
digests: those of the addresses must be those of the journal, with as many of each. Otherwise somebody cut, edited or
moved ``pages.jsonl``, or a part is damaged, and ``NotWholeError`` says so: with other digests the job would fetch again
what it has fetched. That proves the addresses, so the rest of a record or an entry is not read, for speed.

Memory does not grow with the number of URLs, but with that of the keys that were ever removed from the seen-set, which
a person names one by one.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from msgspec import Struct

from crawler.base.disk import failpoint
from crawler.base.kv import Batch, Family, Store
from crawler.frontier import EntryError, decode_entry, first_visits
from crawler.job.digest_sum import DigestSum
from crawler.job.directory import PAGES, JobError
from crawler.job.output import lines_of, record_of
from crawler.job.output.record_text import text_size
from crawler.job.records import (
    DIGEST_SIZE,
    Done,
    JournalError,
    decode_done,
    decode_seen,
    encode_admitted,
    encode_counters,
    encode_forgotten,
    sequence_key,
)
from crawler.job.recovery import COUNTERS, HASH_KEPT, encode_hash, stored_counters, stored_end
from crawler.job.store import StoreError
from crawler.seen.exact import rows_of
from crawler.seen.filters import KeyHash
from crawler.url.urls import Canonicaliser, Rejected

_TOGETHER = 2_048  # URLs in one batch
_EVENT = 256 * DIGEST_SIZE  # bytes of one new event of the journal
# The URL of a record as the output writes it. Quoted, it holds no escape, so it is the same in JSON.
_PLAIN_URL = re.compile(rb'\{"url":"([!#-\[\]-~]*)",').match
_ALL = b"\xff" * 64  # above every key of the families that are rewritten


class NotWholeError(Exception):
    """The job does not know the address of every URL that it admitted. The text says what is missing."""


class KeyChange(Struct, frozen=True):
    """From which hash to which, and what the job keeps: ``ledger`` is one of its settings, ``rules`` are those of
    canonicalisation."""

    old: KeyHash
    new: KeyHash
    rules: tuple[str, ...]
    ledger: bool


def rekey(directory: Path, copy: Store, change: KeyChange, tell: Callable[[int, int], None]) -> None:
    """Replace every digest in ``copy``, a copy of the store of the job in ``directory``, which nobody else uses.
    ``tell`` is called now and then with the number of URLs that are done and of all.

    Raises NotWholeError, after which the copy is worthless; JobError if a run would refuse the job; and OSError."""
    try:
        _Rekey(directory / PAGES, copy, change, tell).run()
    except (JournalError, EntryError) as error:
        raise NotWholeError(f"store/ is damaged: {error}") from error
    except StoreError as error:
        if error.errno is not None:
            raise
        raise NotWholeError(str(error)) from error


class _Rekey:
    def __init__(self, pages: Path, copy: Store, change: KeyChange, tell: Callable[[int, int], None]) -> None:
        self._pages = pages
        self._copy = copy
        self._change = change
        self._tell = tell
        self._canonicaliser = Canonicaliser(change.rules)
        self._counters = stored_counters(copy)
        self._forgotten: set[bytes] = set()  # old digests of keys that were ever removed from the seen-set
        self._renamed: dict[bytes, bytes] = {}  # old digest -> new one, of these
        self._found = DigestSum()

    def run(self) -> None:
        named = self._read_journal()
        moves = self._moves()
        batch = self._copy.batch()
        batch.delete_range(Family.ADMITTED, b"", _ALL)
        batch.delete_range(Family.TRAPS, b"", _ALL)
        self._counters.trap_counts = 0
        if self._change.ledger:
            batch.delete_range(Family.SEEN, b"", _ALL)
        self._copy.write(batch)
        self._name_urls()
        if self._found.sums() != named:
            found, wanted = self._found.sums()[0], named[0]
            raise NotWholeError(
                f"{PAGES} and the queue hold {found} of {wanted} admitted URLs"
                if found != wanted
                else f"{PAGES} and the queue do not hold the URLs that were admitted"
            )
        self._replay(moves)
        if self._change.ledger:
            self._move_doubts()
        batch = self._copy.batch()
        batch.put(Family.META, COUNTERS, encode_counters(self._counters))
        batch.put(Family.META, HASH_KEPT, encode_hash(self._change.new))
        self._copy.write(batch)

    # -- the old journal ---------------------------------------------------------------------------------------

    def _read_journal(self) -> tuple[int, int, int]:
        """Sum up what the journal admits. Raises NotWholeError if it has lost an event."""
        named = DigestSum()
        for _, value in self._copy.rows(Family.ADMITTED):
            forgotten, digests = decode_seen(value)
            if forgotten:
                self._forgotten.update(_each(digests))
            else:
                named.add(digests)
        if named.sums()[0] != self._counters.admitted:
            raise NotWholeError(f"the journal holds {named.sums()[0]} of {self._counters.admitted} admitted URLs")
        return named.sums()

    def _moves(self) -> list[tuple[bool, bytes]]:
        """(removed, old digest) of each event of a key that was ever removed, in order."""
        if not self._forgotten:
            return []
        moves = []
        for _, value in self._copy.rows(Family.ADMITTED):
            forgotten, digests = decode_seen(value)
            moves += [(forgotten, digest) for digest in _each(digests) if digest in self._forgotten]
        return moves

    # -- the new one -------------------------------------------------------------------------------------------

    def _name_urls(self) -> None:
        done = 0
        change, of = self._change, self._counters.admitted
        for hrefs in self._hrefs():
            keys = self._keys(hrefs)
            old, new = change.old.digest_keys(keys), change.new.digest_keys(keys)
            self._found.add(old)
            batch = self._copy.batch()
            if change.ledger:
                for row in rows_of(keys, new):
                    batch.put(Family.SEEN, row, b"")
            left = self._set_apart(old, new)
            for at in range(0, len(left), _EVENT):
                self._event(encode_admitted(left[at : at + _EVENT]), batch)
            self._copy.write(batch)
            done += len(hrefs)
            failpoint("rekey.named")
            self._tell(done, of)

    def _set_apart(self, old: bytes, new: bytes) -> bytes:
        """The new digests without those of keys that were ever removed, which are remembered."""
        if not self._forgotten:
            return new
        left = []
        for before, after in zip(_each(old), _each(new), strict=True):
            if before in self._forgotten:
                self._renamed[before] = after
            else:
                left.append(after)
        return b"".join(left)

    def _replay(self, moves: list[tuple[bool, bytes]]) -> None:
        """Admit and remove keys in the order in which that happened."""
        batch = self._copy.batch()
        for forgotten, group in itertools.groupby(moves, key=lambda move: move[0]):
            digests = b"".join([self._renamed[digest] for _, digest in group])
            self._event((encode_forgotten if forgotten else encode_admitted)(digests), batch)
        self._copy.write(batch)

    def _event(self, value: bytes, batch: Batch) -> None:
        batch.put(Family.ADMITTED, sequence_key(self._counters.sequence), value)
        self._counters.sequence += 1

    def _move_doubts(self) -> None:
        for rows in self._copy.pages(Family.LEDGER):
            batch = self._copy.batch()
            keys = self._keys([decode_entry(value).href for _, value in rows])
            before, after = (rows_of(keys, each.digest_keys(keys)) for each in (self._change.old, self._change.new))
            for (row, value), was, moved in zip(rows, before, after, strict=True):
                if row == moved:
                    continue  # put there by an earlier page of rows
                if row != was:
                    raise NotWholeError("store/ is damaged: a doubted URL is not in its row")
                batch.delete(Family.LEDGER, row)
                batch.put(Family.LEDGER, moved, value)
            self._copy.write(batch)

    # -- the addresses -----------------------------------------------------------------------------------------

    def _keys(self, hrefs: list[str]) -> list[str]:
        keys = [key for key in self._canonicaliser.keys(hrefs) if not isinstance(key, Rejected)]
        if len(keys) != len(hrefs):
            raise NotWholeError(f"{PAGES} or the queue holds a URL that no crawl stores")
        return keys

    def _hrefs(self) -> Iterator[list[str]]:
        """The address of each admitted URL, as often as it was admitted: of a page that is visited again, once."""
        end = self._end()
        finished = self._finished(end)
        while hrefs := list(itertools.islice(finished, _TOGETHER)):
            yield hrefs
        for rows in self._copy.pages(Family.DONE, size=_TOGETHER):
            entries = [decode_done(value).entry for _, value in rows]
            if hrefs := [entry.href for entry in entries if not entry.revisit]:
                yield hrefs
        for rows in self._copy.pages(Family.PENDING, size=_TOGETHER):
            if hrefs := first_visits(value for _, value in rows):
                yield hrefs

    def _end(self) -> int:
        """Where the records of the journal's events begin."""
        events = self._copy.scan(Family.DONE, b"", None, 1)
        # The records of the newest events may be lost: they became durable only after those events.
        end = _start(decode_done(events[0][1])) if events else stored_end(self._copy) or 0
        size = text_size(self._pages)
        if size < end:
            raise JobError(
                f"{self._pages} has {size} bytes, but {end} were durable: restore the file as the crawl left it, keep "
                f"what is left with `crawler repair {self._pages.parent}`",
                new_job=True,
            )
        return end

    def _finished(self, end: int) -> Iterator[str]:
        """The URLs of the records before ``end``."""
        for start, line in lines_of(self._pages, end):
            plain = _PLAIN_URL(line)
            if plain is not None and b'"visit":' not in line and line.endswith(b"}\n"):
                yield plain[1].decode("ascii")
                continue
            record = record_of(line)
            if record is None:
                raise NotWholeError(f"{PAGES} is damaged at offset {start}")
            if record.get("visit", 1) == 1:
                yield str(record["url"])


def _start(done: Done) -> int:
    """Where its record begins in the output."""
    position = done.positions[0]
    return position.end - position.length


def _each(digests: bytes) -> list[bytes]:
    return [digests[at : at + DIGEST_SIZE] for at in range(0, len(digests), DIGEST_SIZE)]
