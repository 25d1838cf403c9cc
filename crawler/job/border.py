"""The border of a crawl: the pages some of whose links a limit left out.

A row of ``BORDER`` is the href of a page -> which limits left out how many of its links, the limits of the run that
read it, and the entry with which it is visited again. It is written in the transaction that finishes the page, so it
costs one row a page, however many links were left out. What the page linked to must be found again: the page is visited
once more.

The limits of each run have a number, and META holds them under ``border/bounds/`` and the number. A run that lifts a
limit reads the rows, a few at a time and beside the crawl, and queues the pages where that limit left something out. It
stores its progress in the same transactions, so a crash repeats nothing. A row stays until its page is read again: the
visit may fail, and then ``crawler retry`` finds what is still missing. As long as the limits stay as they are, nothing
is read.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Mapping

from msgspec import Struct, field

from crawler.base.kv import Batch, Family, Reader
from crawler.frontier.entry import Entry, EntryError, decode_entry, encode_entry
from crawler.frontier.frontier import Frontier
from crawler.job.records import PageRecord, url_kind
from crawler.url.scope.bounds import COUNTED, Bounds, LeftOut, Limit

ROWS = 256  # read in one transaction
COUNTS = b"border/counts"
_BOUNDS = b"border/bounds/"
_PROGRESS = b"border/progress"
_MORE, _ALL = 0, 1
_STATE = struct.Struct("<IB")
_VERSION = 1
_HEAD = struct.Struct("<BIIIB")
_COUNT = struct.Struct("<BI")
_LIMITS = COUNTED  # by their numbers in rows and counts
_MOST = 2**32 - 1


class BorderError(ValueError):
    """A row is not a page at the border."""


class BorderPage(Struct, frozen=True):
    """A page some of whose links were left out. ``bounds`` is the number of the limits under which it was read.
    ``depth`` is that of its links."""

    entry: Entry
    bounds: int
    visits: int
    depth: int
    counts: Mapping[Limit, int]

    def gains(self, lifted: frozenset[Limit], now: Bounds) -> bool:
        """Whether a visit may find more, if these limits are lifted."""
        if Limit.HOPS_OUTSIDE in lifted and self.entry.reach < now.hops_outside:
            lifted |= {Limit.SCOPE}
        shallow = now.max_depth is None or self.depth <= now.max_depth
        return any(self.counts.get(limit) and (shallow or limit is not Limit.MAX_DEPTH) for limit in lifted)


class BorderCounts(Struct):
    """How many pages are at the border, and how many of their links each limit left out. For a limit that cuts a page
    off, the number of such pages."""

    pages: int = 0
    links: Counter[Limit] = field(default_factory=Counter)

    def count(self, page: BorderPage, by: int = 1) -> None:
        """Add a page, or take one away."""
        self.pages += by
        for limit, links in page.counts.items():
            self.links[limit] += by * links

    def encode(self) -> bytes:
        return struct.pack(f"<B{1 + len(_LIMITS)}Q", _VERSION, self.pages, *(self.links[limit] for limit in _LIMITS))

    @classmethod
    def decode(cls, value: bytes | None) -> BorderCounts:
        """The stored counts; a job without any has no border. Raises BorderError."""
        if value is None:
            return cls()
        many, rest = divmod(len(value) - 1, 8)  # earlier versions of the program knew fewer limits
        if rest or not 0 < many <= 1 + len(_LIMITS) or value[0] != _VERSION:
            raise BorderError("the counts of the border are of an unknown version")
        _, pages, *links = struct.unpack(f"<B{many}Q", value)
        return cls(pages, Counter({limit: number for limit, number in zip(_LIMITS, links, strict=False) if number}))


def border_counts(store: Reader) -> BorderCounts:
    """The counts that the store holds. Raises BorderError."""
    return BorderCounts.decode(store.get(Family.META, COUNTS))


class Border:
    """The border of a job. ``again`` counts a finished URL as queued for another visit and returns its entry; None if
    it is queued already."""

    def __init__(self, store: Reader, frontier: Frontier, again: Callable[[Entry, int, Batch], Entry | None]) -> None:
        """Raises BorderError."""
        self.counts = border_counts(store)
        self._store = store
        self._frontier = frontier
        self._again = again
        self._now: Bounds | None = None
        self._number = 0
        self._lifted: dict[int, frozenset[Limit]] = {}  # by the number of the limits of earlier runs
        self._at: bytes | None = None  # the key from which on rows are to be read; None: none are

    def load(self, bounds: Bounds, batch: Batch) -> None:
        """Begin a run with these limits. Raises BoundsError, BorderError."""
        self.counts = border_counts(self._store)  # recovery may have changed them
        known = {number: Bounds.decode(value) for number, value in self._known()}
        self._now = bounds
        self._number = next((number for number, each in known.items() if each == bounds), max(known, default=0) + 1)
        if self._number not in known:
            batch.put(Family.META, _BOUNDS + str(self._number).encode("ascii"), bounds.encode())
        self._lifted = {number: lifted for number, each in known.items() if (lifted := each.lifted(bounds))}
        number, done, at = self._progress()
        if number == self._number:
            self._at = None if done else at
            return
        lifted = self.lifted | ({Limit.SCOPE} if Limit.HOPS_OUTSIDE in self.lifted else set())
        begins = bool(self.counts.pages and any(self.counts.links[limit] for limit in lifted))
        self._at = b"" if begins else None
        self._keep(batch)

    @property
    def left(self) -> bool:
        """Whether rows are left to be read."""
        return self._at is not None

    @property
    def lifted(self) -> frozenset[Limit]:
        """The limits of earlier runs that this one lifts."""
        return frozenset[Limit]().union(*self._lifted.values())

    def note(
        self, record: PageRecord, left: LeftOut | None, batch: Batch, dropped: Mapping[str, int] | None = None
    ) -> None:
        """Keep a page that is finished if limits left out some of its links, and forget it if they left out none.
        ``left`` is None if the page was not read; ``dropped`` are links of closed traps, by the setting. A URL that the
        crawler made up is no page of the crawl."""
        if left is None or self._now is None or record.entry.probe:
            return
        counts = {limit: min(links, _MOST) for limit, links in left.counts.items() if links}
        counts |= {Limit(limit): min(links, _MOST) for limit, links in (dropped or {}).items()}
        entry = record.entry._replace(last=url_kind(record.outcome, record.status))
        if not counts and not entry.revisit:
            return
        key = entry.href.encode("ascii")
        stored = self._store.get(Family.BORDER, key)
        if stored is not None:
            self.counts.count(decode_page(key, stored), -1)
        if counts:
            page = BorderPage(entry, self._number, record.visit, left.depth, counts)
            self.counts.count(page)
            batch.put(Family.BORDER, key, encode_page(page))
        elif stored is not None:
            batch.delete(Family.BORDER, key)
        else:
            return
        batch.put(Family.META, COUNTS, self.counts.encode())

    def wants_whole(self, entry: Entry) -> bool:
        """Whether a page that is visited again must be read even if it has not changed: links that were left out may be
        admitted now. Raises BorderError."""
        if not entry.revisit or not self._lifted or self._now is None:
            return False
        key = entry.href.encode("ascii")
        stored = self._store.get(Family.BORDER, key)
        return stored is not None and self._gains(decode_page(key, stored), self._now)

    def step(self, batch: Batch) -> bool:
        """Read some rows, and queue the pages that a lifted limit concerns. Returns whether more are left. Raises
        OSError, BorderError, PageError."""
        if self._at is None or self._now is None:
            return False
        rows = self._store.scan(Family.BORDER, self._at, None, ROWS)
        queued = []
        for key, value in rows:
            page = decode_page(key, value)
            entry = self._again(page.entry, page.visits, batch) if self._gains(page, self._now) else None
            if entry is not None:
                queued.append(entry)
        self._frontier.admit(queued, batch)
        self._at = rows[-1][0] + b"\0" if len(rows) == ROWS else None
        self._keep(batch)
        return self.left

    def _gains(self, page: BorderPage, now: Bounds) -> bool:
        return page.gains(self._lifted.get(page.bounds, frozenset()), now)

    def _known(self) -> list[tuple[int, bytes]]:
        rows = self._store.rows(Family.META, _BOUNDS, _BOUNDS + b"\xff")
        return [(int(key[len(_BOUNDS) :]), value) for key, value in rows if key[len(_BOUNDS) :].isdigit()]

    def _progress(self) -> tuple[int, bool, bytes]:
        """(number of the limits with which rows were read, whether all were, key of the next one)."""
        value = self._store.get(Family.META, _PROGRESS)
        if value is None or len(value) < _STATE.size:
            return 0, False, b""
        number, state = _STATE.unpack_from(value)
        return number, state == _ALL, value[_STATE.size :]

    def _keep(self, batch: Batch) -> None:
        state = _ALL if self._at is None else _MORE
        batch.put(Family.META, _PROGRESS, _STATE.pack(self._number, state) + (self._at or b""))


def drop_page(store: Reader, counts: BorderCounts, href: str, batch: Batch) -> None:
    """Forget a page that is to be visited for the first time again, because its record was lost."""
    key = href.encode("ascii")
    stored = store.get(Family.BORDER, key)
    if stored is not None:
        counts.count(decode_page(key, stored), -1)
        batch.delete(Family.BORDER, key)
        batch.put(Family.META, COUNTS, counts.encode())


def encode_page(page: BorderPage) -> bytes:
    """The value of a row. The href is in the key alone."""
    head = _HEAD.pack(_VERSION, page.bounds, page.visits, page.depth, len(page.counts))
    counts = [_COUNT.pack(_LIMITS.index(limit), links) for limit, links in page.counts.items()]
    return b"".join([head, *counts, encode_entry(page.entry._replace(href=""))])


def decode_page(key: bytes, value: bytes) -> BorderPage:
    """The page of a row. Raises BorderError."""
    try:
        version, bounds, visits, depth, many = _HEAD.unpack_from(value)
        if version != _VERSION:
            raise BorderError(f"a page at the border of version {version}, not {_VERSION}")
        end = _HEAD.size + many * _COUNT.size
        pairs = [_COUNT.unpack_from(value, at) for at in range(_HEAD.size, end, _COUNT.size)]
        counts = {_LIMITS[number]: links for number, links in pairs}
        entry = decode_entry(value[end:])
        href = key.decode("ascii")
    except (EntryError, UnicodeDecodeError, IndexError, struct.error) as error:
        raise BorderError(f"not a page at the border: {error}") from error
    if entry.href or not counts or not all(counts.values()):
        raise BorderError("not a page at the border: it lacks a count, or names another page")
    return BorderPage(entry._replace(href=href), bounds, visits, depth, counts)
