"""Where rendering pays: learned by host, and by the shape of the URLs on each.

Of each host, and of each shape, some numbers are known: how often pages have signs that they need scripts, and how many
of those that were rendered, with signs and without, had more links or text then. From these follows the chance that the
next page has more. The host's own numbers count as one page of each shape, and what is usual as a few of each host. A
page is rendered if its chance is ``PAYS``, or ``PAYS_PLAIN`` without signs, or higher::

    signs       most pages with signs have more: they are rendered, until about ten of a shape had nothing
    shape       a page without signs, where audits found more, or where many pages of the host have signs and more

All other pages are drawn for an audit (``recall``). While it can be afforded, the sixth page of a shape is audited for
certain if none was before, and the 24th if at most one was. If an audit finds more, half of what spoke against it
is forgotten. Nor does a number grow over a few dozen: both numbers of a pair are halved then, so that a site may change
its mind.

    key: "r" and the digest of host and shape  ->  six bytes       ``SHAPES_MOST`` rows, the least used ones go
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from enum import StrEnum
from hashlib import blake2b
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from crawler.base.kv import Batch, Family, Reader
from crawler.frontier.rendering.recall import CHANCES, count, level_now
from crawler.frontier.traps.counts import TrapRecordError, digest_of
from crawler.frontier.traps.shape import fold, path_shape, split_path, variants_of

KIND = b"r"  # of the rows, in the family of the traps
KEY_SIZE = 17
SHAPES_MOST = 20_000  # and hosts; in memory, about 300 bytes each
PAYS, PAYS_PLAIN = 0.05, 0.2  # with signs, and without
WEIGHT, WEIGHT_OF_SIGNS = 1, 8  # of what is known elsewhere, in pages; the other one for signs on all hosts
SEEN_MOST, RENDERED_MOST = 64, 32
NEW = 6  # pages of a shape from which on an audit is worth it, and 4 times as many for another one
_WITH_SIGNS, _WITHOUT = 0.9, 0.01  # the share of pages that have more, where nothing is known
_AGE = 16  # the least useful one of so many that were not used for long is dropped


class Why(StrEnum):
    """Why a page is rendered."""

    SIGNS = "signs"  # it has signs that it needs scripts
    ALWAYS = "always"  # the setting
    SHAPE = "shape"  # others of its host, or with such URLs, have paid, or have signs
    AUDIT = "audit"  # drawn at random, to learn what is missed


class Known(NamedTuple):
    """What is known of the pages of a host, or of a shape: those seen, and of these with signs; those rendered with
    signs, and of these with more; and the same without signs."""

    seen: int = 0
    signs: int = 0
    rendered: int = 0
    gained: int = 0
    rendered_plain: int = 0
    gained_plain: int = 0

    def needy(self, prior: float) -> float:
        """The share of pages that have signs, rightly."""
        right = self.signs * self.gained / (self.rendered + 3)
        return (right + WEIGHT * prior) / (self.seen + WEIGHT)

    def noted(self, paid: Paid) -> Known:
        """What is known after one more page."""
        seen, of_signs = _halved(self.seen + 1, self.signs + paid.signs, SEEN_MOST)
        pairs = [(self.rendered, self.gained), (self.rendered_plain, self.gained_plain)]
        if paid.gained is not None:
            rendered, gained = pairs[not paid.signs]
            if paid.gained and paid.level is not None:
                rendered -= (rendered - gained) // 2
            pairs[not paid.signs] = _halved(rendered + 1, gained + paid.gained, RENDERED_MOST)
        return Known(seen, of_signs, *pairs[0], *pairs[1])


NOTHING = Known()


class Paid(Struct, frozen=True):
    """What became of a page, for ``by`` to learn. ``keys``: those of its shape and of its host. ``why`` it was to be
    rendered; None if it was not. ``level``: that of its chance of an audit. ``gained``: whether it had more; None if it
    was not rendered, or could not be. ``counts``: it counts for the recall, as the first visit of its URL."""

    by: Paying
    keys: tuple[bytes, bytes]
    signs: bool
    why: Why | None
    level: int | None
    gained: bool | None = None
    counts: bool = True

    def as_found(self, gained: bool | None) -> Paid:
        """With what rendering the page has shown."""
        return replace(self, gained=gained)

    def put(self, batch: Batch) -> None:
        """Learn it, in the transaction that finishes the page."""
        self.by.note(self, batch)


class Paying:
    """What is known of a job's pages. ``counts`` are those of the recall: a list of the job's counters, stored with
    them. ``secret`` keeps sites from knowing which of their pages are drawn."""

    def __init__(self, counts: list[int], secret: bytes, store: Reader | None = None) -> None:
        self._counts = counts
        self._secret = secret
        self._known: OrderedDict[bytes, Known] = OrderedDict()  # the least recently used first
        for key, value in () if store is None else store.rows(Family.TRAPS, KIND, bytes([KIND[0] + 1])):
            self._known[key[1:]] = decode_known(value)

    def weigh(self, host: str, href: str, signs: Sequence[str], when: str) -> Paid:
        """Decide on a page, and how it is to be counted if it is rendered or not."""
        keys = digest_of(f"{host} {shape_of(href)}"), digest_of(host)
        if when == "always":
            return Paid(self, keys, bool(signs), Why.ALWAYS, None)
        shape, of_host = (self._known.get(key, NOTHING) for key in keys)
        if _chance(shape, of_host, bool(signs)) >= (PAYS if signs else PAYS_PLAIN):
            return Paid(self, keys, bool(signs), Why.SIGNS if signs else Why.SHAPE, None)
        level = level_now(self._counts, is_new=shape.seen >= NEW * 4**shape.rendered_plain)
        why = Why.AUDIT if self._drawn(href) < CHANCES[level] else None
        return Paid(self, keys, bool(signs), why, level)

    def note(self, paid: Paid, batch: Batch) -> None:
        """Learn what became of a page: ``Paid.put``."""
        if paid.counts:
            count(self._counts, paid.level, rendered=paid.why is not None, gained=bool(paid.gained))
        for key in paid.keys:
            known = self._known[key] = self._known.get(key, NOTHING).noted(paid)
            self._known.move_to_end(key)
            batch.put(Family.TRAPS, KIND + key, bytes(known))
        while len(self._known) > SHAPES_MOST:
            oldest = [key for key, _ in zip(self._known, range(_AGE), strict=False)]
            least = min(oldest, key=lambda key: self._known[key].gained + self._known[key].gained_plain)
            del self._known[least]
            batch.delete(Family.TRAPS, KIND + least)

    def _drawn(self, href: str) -> float:
        """A random number from 0 to 1, always the same for a URL: it may come again after a kill."""
        digest = blake2b(href.encode(), digest_size=8, key=self._secret, person=b"audit").digest()
        return int.from_bytes(digest) / 2**64


def shape_of(href: str) -> str:
    """The shape of a URL: how many segments it has, the pattern of the first, and the names in its query. A path of one
    word tells nothing of others."""
    path, query = split_path(href[href.find("/", 8) :])
    segments, first = path_shape(href)
    if segments == 1 and query is None and fold(path) == path:
        first = ""
    names = "" if query is None else (variants_of("", query) or "")
    return f"{segments} {first}{names}"


def check_known(key: bytes, value: bytes) -> None:
    """Raises TrapRecordError for a row that is not what is known of a shape."""
    if len(key) != KEY_SIZE:
        raise TrapRecordError("not a key of a shape")
    decode_known(value)


def decode_known(value: bytes) -> Known:
    """What is known, as stored; raises TrapRecordError."""
    if len(value) != len(NOTHING):
        raise TrapRecordError(f"not what is known of a shape: {len(value)} bytes")
    known = Known(*value)
    if known.seen < known.signs or known.rendered < known.gained or known.rendered_plain < known.gained_plain:
        raise TrapRecordError("not what is known of a shape: a part is larger than the whole")
    return known


def _chance(shape: Known, host: Known, signs: bool) -> float:
    """The chance that a page has more when it is rendered."""
    if signs:
        return _rate(shape.rendered, shape.gained, _rate(host.rendered, host.gained, _WITH_SIGNS, WEIGHT_OF_SIGNS))
    # Signs that are missing say little of a shape on a host that pays: a template may lack them on all of its pages.
    needy = host.needy(0.0)
    prior = max(_rate(host.rendered_plain, host.gained_plain, _WITHOUT), needy, shape.needy(needy))
    return _rate(shape.rendered_plain, shape.gained_plain, prior)


def _rate(pages: int, gained: int, prior: float, weight: int = WEIGHT) -> float:
    return (gained + weight * prior) / (pages + weight)


def _halved(whole: int, part: int, most: int) -> tuple[int, int]:
    return (whole, part) if whole <= most else (whole // 2, part // 2)
