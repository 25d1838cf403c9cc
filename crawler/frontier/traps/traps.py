"""Traps: hosts that generate URLs without end.

They are detected by counting, and their URLs are refused by rules, in bounded memory and with a bounded number of
records.

For every host, and for every domain of hosts, the following are counted:

    distinct URLs of one pattern             more than ``traps.max_variants`` are refused
    patterns of one path with a query        more than ``traps.max_query_shapes`` are refused
    URLs with an odd path                    all are refused: ``traps.max_segments``, ``traps.max_repeats``
    URLs linked from copies of pages         all are refused if ``traps.duplicates`` is "skip-links"
    the same pages under new ids (``ids``)   more than ``traps.max_id_copies`` close a form of URLs, which is refused

A refused URL is admitted and finished at once, with an ``excluded`` record that names the rule, and counted separately.
After ``MAX_RECORDS`` such records the count is *closed*: its links are then dropped without a lookup, so that a trap
does not use up records and the seen-set. (The links of a page are checked together, so the last page before the close
may exceed the limit.) A run with a higher limit reopens the count, and takes back the URLs that have records until the
limit is reached.

A count is stored under its kind and the digest of its subject, in the batch that admits the URLs. The most recently
used counts are in memory. No URL is therefore missed or counted twice, even if the crawl dies.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from msgspec import Struct

from crawler.base.kv import Batch, Family, Reader
from crawler.base.settings.parts import TrapSettings
from crawler.frontier.traps.counts import (
    COUNT,
    DOMAIN_FACTOR,
    MAX_RECORDS,
    Counts,
    DomainTraps,
    L,
    TrapRecordError,
    decode_count,
    digest_of,
    domain_of,
    open_links,
)
from crawler.frontier.traps.ids import MAX_ID_COPIES, Form, Ids, Sight, form_key
from crawler.frontier.traps.shape import MAX_REPEATS, MAX_SEGMENTS, odd_shape, split_path, variants_of
from crawler.url.refusal.forbidden_targets import Refusal, Rule
from crawler.url.urls.host_key import host_key

CLOSED = b"x"  # key: this byte and the same digest; value: the limit and the host; for ids also a space and the form
KEY_BYTES = 17
_LIMITS = ("max_variants", "max_query_shapes", "max_segments", "max_repeats", "max_id_copies")
# A path gets many query shapes from filters that can be combined, or from invented names.
MOST = {
    "max_query_shapes": 1_000,
    "max_segments": MAX_SEGMENTS,
    "max_repeats": MAX_REPEATS,
    "max_id_copies": MAX_ID_COPIES,
}
_COUNTING = _LIMITS[:2]  # the other limits refuse every URL
_OF_IDS = _LIMITS[4]
_RULES = {limit: Rule(f"traps.{limit}") for limit in _LIMITS}


class Counted(Struct, frozen=True):
    """The count that a URL belongs to: ``limit`` (a settings key), the ``key`` of the count, and a description.

    ``shapes`` is the count of the patterns of its path, which grows if the URL is the first of its pattern.
    """

    limit: str
    key: bytes
    words: str
    shapes: Counted | None = None


class Traps:
    """The traps of all hosts of a job."""

    def __init__(self, settings: TrapSettings, store: Reader) -> None:
        """Raises TrapRecordError."""
        self._settings = settings
        self._counts = Counts(store)
        self._domains = DomainTraps(self._counts)
        self.ids = Ids(self._counts)
        self._closed: dict[str, set[bytes]] = {}  # host -> keys
        for key, value in _rows(store, CLOSED):
            limit, host = decode_closed(value)
            is_full = self._counts.number(key[1:]) >= self._most(limit)
            if limit == _OF_IDS:
                host, _, name = host.partition(" ")
                is_full = self.ids.is_closed(host, Form((name,)))
                if is_full:
                    self.ids.closed.setdefault(host, set()).add(name)
            off = limit == "max_variants" and not settings.max_variants
            if not off and is_full and self._records(key[1:]) >= MAX_RECORDS:
                self._closed.setdefault(host, set()).add(key[1:])

    def open_links(self, links: Sequence[L], dropped: Counter[str]) -> list[L]:
        """Return the links that are not in a closed trap.

        The others are counted in ``dropped`` under the setting of the limit.
        """
        return open_links(links, self._closed_by, dropped) if self._closed else list(links)

    def refusals(self, hrefs: Sequence[str], batch: Batch, *, again: bool = False) -> tuple[list[Refusal | None], int]:
        """Count new URLs, and put the counts into ``batch``.

        Returns the refusal of each URL, or None, and the total increase of all counts. ``again`` is True if the URLs
        already have records of refusals.
        """
        changed: dict[bytes, int] = {}
        refused = []
        for href in hrefs:
            found = self._refusal(href, changed)
            refused.append(None if found is None else found[1])
            if found is not None and not again:
                self._count_record(found[0], href, changed, batch)
        return refused, sum(self._counts.set(key, number, batch) for key, number in changed.items())

    def still_refuses(self, rule: Rule, href: str, batch: Batch) -> tuple[Refusal | None, int]:
        """Apply ``refusals`` to a URL that the rule refused before."""
        if rule is not Rule.DUPLICATES:
            (refused,), grown = self.refusals([href], batch, again=True)
            return refused, grown
        is_on = self._settings.duplicates == "skip-links"
        return (Refusal.of_setting(rule, "on a copy of another page") if is_on else None), 0

    def takes_copies(self, href: str) -> bool:
        """Return True if one more link of the copy at ``href`` may have a record."""
        return self._counts.number(_copies_key(href)) < MAX_RECORDS

    def count_copies(self, href: str, links: int, batch: Batch) -> int:
        """Count new links of the copy at ``href``, all of which are refused.

        Returns the total increase of all counts.
        """
        key = _copies_key(href)
        return self._counts.set(key, self._counts.number(key) + links, batch)

    def note(self, href: str, sights: Sequence[Sight], batch: Batch) -> tuple[list[str], int]:
        """Count a visit of a URL with ids.

        Returns descriptions of the forms that it closes, and the total increase of all counts.
        """
        closing, grown = self.ids.note(href, sights, batch)
        host = host_key(href)
        for form in closing:
            value = bytes([_LIMITS.index(_OF_IDS)]) + f"{host} {form.name}".encode("ascii")
            batch.put(Family.TRAPS, CLOSED + form_key(host, form), value)
        return [_of_ids(form, href)[1].words for form in closing], grown

    def refusal_of_queued(self, href: str) -> Refusal | None:
        """Return the refusal of an admitted URL if its page has since been visited under another id; None otherwise."""
        form = self.ids.met(href)
        return None if form is None else _of_ids(form, href)[1]

    def explain(self, href: str) -> Iterator[str]:
        """Yield sentences that describe how a URL is counted, and the current counts."""
        counted: Counted | None = self.counted(href)
        if (refusal := self.refusal_of_queued(href)) is not None:
            yield f"Its page is already known: {refusal.words}."
        elif counted is None:
            yield "Not subject to trap limits: nothing in its path or query is counted."
        while counted is not None:
            number, most = self._counts.number(counted.key), self._most(counted.limit)
            both = number + self._records(counted.key)
            said = f"Counted as {counted.words}: {both} so far, traps.{counted.limit} is {most or 'off'}"
            if self._has_closed(href, counted.key):
                said += "; closed: links to new ones are dropped"
            elif most and number >= self._most(counted.limit):
                said += "; new ones are excluded"
            yield said + "."
            together = self._domains.total(host_key(href), counted.words) if most else 0
            if together:
                allowed = most * DOMAIN_FACTOR
                about = max(together, both)  # counts of a domain are rounded down
                yield f"The hosts of {domain_of(host_key(href))} together have about {about} of {allowed} allowed."
            counted = counted.shapes

    def counted(self, href: str) -> Counted | None:
        """Return the count that a URL belongs to, or None if it is not counted."""
        host, target = host_key(href), href[href.find("/", 8) :]
        path, query = split_path(target)
        odd = odd_shape(path)
        if odd is not None:
            limit = odd[0].removeprefix("traps.")
            return Counted(limit, digest_of(f"{host} {limit}"), odd[1])
        pattern = variants_of(path, query)
        if pattern is None:
            return None
        shapes = None
        if query is not None:
            base = pattern.partition("?")[0]
            key = digest_of(f"{host}{base}? shapes")
            shapes = Counted("max_query_shapes", key, f"sets of parameters of {base}")
        if shapes is None and not self._settings.max_variants:
            return None
        return Counted("max_variants", digest_of(f"{host}{pattern}"), f"URLs like {pattern}", shapes)

    def _refusal(self, href: str, changed: dict[bytes, int]) -> tuple[Counted, Refusal] | None:
        """Count a URL if it is not refused; otherwise return its count and the refusal."""
        form = self.ids.met(href, changed)
        if form is not None:
            return _of_ids(form, href)
        counted = self.counted(href)
        if counted is None:
            return None
        if counted.limit not in _COUNTING:
            return counted, Refusal.of_setting(_RULES[counted.limit], counted.words)
        number = changed.get(counted.key, self._counts.number(counted.key))
        for each in (counted.shapes, counted) if number == 0 and counted.shapes is not None else (counted,):
            number = changed.get(each.key, self._counts.number(each.key))
            refused = self._refused(each, number, href, changed)
            if refused is not None:
                return each, refused
            changed[each.key] = number + 1
        return None

    def _refused(self, counted: Counted, number: int, href: str, changed: dict[bytes, int]) -> Refusal | None:
        """Return the refusal of one more URL if the count is already ``number``; None if the URL is not refused."""
        own = self._most(counted.limit)
        if own and number >= own:
            return Refusal.of_setting(_RULES[counted.limit], f"more than {own} {counted.words}")
        host = host_key(href)
        if not self._domains.allows(number, (host, counted.words), own, changed):
            together = own * DOMAIN_FACTOR
            words = f"{domain_of(host)} has more than {together} {counted.words}"
            return Refusal.of_setting(Rule.DOMAIN_FACTOR, words)
        return None

    def _count_record(self, counted: Counted, href: str, changed: dict[bytes, int], batch: Batch) -> None:
        """Count an `excluded` record, and close the trap after the last one."""
        key = _records_key(counted.key)
        changed[key] = changed.get(key, self._counts.number(key)) + 1
        if changed[key] >= MAX_RECORDS:
            host = host_key(href)
            self._closed.setdefault(host, set()).add(counted.key)
            if counted.limit == _OF_IDS:
                return  # this trap was stored when its form was closed
            batch.put(Family.TRAPS, CLOSED + counted.key, bytes([_LIMITS.index(counted.limit)]) + host.encode("ascii"))

    def _closed_by(self, href: str) -> str | None:
        """Return the setting of the limit whose closed trap contains the URL, or None."""
        keys = self._closed.get(host_key(href))
        form = None if keys is None else self.ids.met(href)
        if keys and form is not None and form_key(host_key(href), form) in keys:
            return f"traps.{_OF_IDS}"
        counted = None if keys is None else self.counted(href)
        if keys is None or counted is None:
            return None
        # When the count of patterns is closed, patterns that were counted before remain open.
        shapes = counted.shapes if counted.shapes is not None and not self._counts.number(counted.key) else None
        closed = next((each for each in (counted, shapes) if each is not None and each.key in keys), None)
        return None if closed is None else f"traps.{closed.limit}"

    def _records(self, key: bytes) -> int:
        """Return the number of `excluded` records that the limit of a count has caused."""
        return self._counts.number(_records_key(key))

    def _has_closed(self, href: str, key: bytes) -> bool:
        return key in self._closed.get(host_key(href), ())

    def _most(self, limit: str) -> int:
        """Return the number of URLs that the limit allows; for odd paths, the configured maximum."""
        return self._settings.max_variants if limit == "max_variants" else MOST[limit]


def _of_ids(form: Form, href: str) -> tuple[Counted, Refusal]:
    host = host_key(href)
    counted = Counted(_OF_IDS, form_key(host, form), f"{host} sends the same pages again: {form.words}")
    return counted, Refusal.of_setting(_RULES[_OF_IDS], counted.words)


def decode_closed(value: bytes) -> tuple[str, str]:
    """Return (limit, host) of a closed trap; raises TrapRecordError."""
    try:
        return _LIMITS[value[0]], value[1:].decode("ascii")
    except (IndexError, UnicodeDecodeError) as error:
        raise TrapRecordError(f"not a closed trap: {error}") from error


def check_row(key: bytes, value: bytes) -> int:
    """Return the count in a stored row of this family, or 0 if the row has none; raises TrapRecordError."""
    if len(key) != KEY_BYTES or key[:1] not in (COUNT, CLOSED):
        raise TrapRecordError("not a key of a trap")
    if key[:1] == COUNT:
        return decode_count(value)
    decode_closed(value)
    return 0


def _rows(store: Reader, kind: bytes) -> Iterator[tuple[bytes, bytes]]:
    return store.rows(Family.TRAPS, kind, bytes([kind[0] + 1]))


def _records_key(key: bytes) -> bytes:
    return digest_of(f"{key.hex()} refused")


def _copies_key(href: str) -> bytes:
    return digest_of(f"{host_key(href)} copies")
