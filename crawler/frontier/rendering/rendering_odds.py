"""Learns for each host, and for each URL shape on it, whether rendering pays.

For each host and each shape, counters record how often pages show signs of needing scripts, and how many of the
rendered pages, with and without signs, gained links or text. The chance that the next page gains something is derived
from these counters. The host's counters weigh as much as one page of a shape, and the global prior as much as a few
pages of a host. A page is rendered if its chance is at least ``PAYS``, or ``PAYS_PLAIN`` for a page without signs::

    signs       most pages with signs gain something: they are rendered until about six of a shape gained nothing
    shape       a page without signs is rendered if audits of its shape found gains, or if many pages of the host have
                signs and gain something

All other pages may be drawn for an audit (``recall``). Most of what is missed belongs to shapes whose template has no
signs, on hosts where other pages need no browser. So while the audit budget allows it, the eighth page of a shape is
audited for certain, unless it has signs or another page without signs was rendered before. If an audit finds a gain,
half of the evidence against rendering is dropped. Counters never exceed a few dozen: both numbers of a pair are then
halved, so that the estimate follows a site that changes.

    key: "r" and the digest of host and shape  ->  six bytes       at most ``SHAPES_MOST`` rows, the last used ones
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from enum import StrEnum
from hashlib import blake2b
from typing import NamedTuple

from msgspec import Struct

from crawler.base.kv import Batch, Family, Reader
from crawler.frontier.rendering.recall import CHANCES, count, level_now, pages_by_level
from crawler.frontier.traps.counts import TrapRecordError, digest_of
from crawler.frontier.traps.shape import fold, path_shape, split_path, variants_of

KIND = b"r"  # kind of the rows, in the family of the traps
KEY_SIZE = 17
SHAPES_MOST = 20_000  # shapes and hosts; in memory, about 300 bytes each
PAYS, PAYS_PLAIN = 0.1, 0.2  # thresholds for pages with and without signs
WEIGHT, WEIGHT_OF_SIGNS = 1, 8  # weights of priors, in pages; the second is for the global prior of pages with signs
SEEN_MOST, RENDERED_MOST = 64, 32
NEW = 7  # number of pages of a shape before a certain audit is worthwhile
_WITH_SIGNS, _WITHOUT = 0.9, 0.01  # prior share of pages that gain something


class Why(StrEnum):
    """The reason why a page is rendered."""

    SIGNS = "signs"  # it shows signs of needing scripts
    ALWAYS = "always"  # required by the settings
    SHAPE = "shape"  # other pages of its host or shape gained something, or have signs
    AUDIT = "audit"  # drawn at random, to estimate what is missed


class Known(NamedTuple):
    """Counters of the pages of a host or a shape.

    They count pages seen and those with signs, then rendered pages and those that gained something, separately for
    pages with and without signs.
    """

    seen: int = 0
    signs: int = 0
    rendered: int = 0
    gained: int = 0
    rendered_plain: int = 0
    gained_plain: int = 0

    def needy(self, prior: float) -> float:
        """Return the estimated share of pages whose signs are right."""
        right = self.signs * self.gained / (self.rendered + 1)
        return (right + WEIGHT * prior) / (self.seen + WEIGHT)

    def noted(self, paid: Paid) -> Known:
        """Return the counters after one more page."""
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
    """Outcome of the decision on a page, from which ``by`` learns.

    ``keys`` are the keys of its shape and its host. ``why`` is the reason to render it, or None if it is not rendered.
    ``level`` is the level of its audit chance. ``gained`` is True if rendering gained something, and None if the page
    was not or could not be rendered. ``counts`` is True if the page counts towards the recall, as the first visit of
    its URL.
    """

    by: Paying
    keys: tuple[bytes, bytes]
    signs: bool
    why: Why | None
    level: int | None
    gained: bool | None = None
    counts: bool = True

    def put(self, batch: Batch) -> None:
        """Store the outcome in the transaction that finishes the page."""
        self.by.note(self, batch)


class Paying:
    """Counters of all hosts and shapes of a job.

    ``counts`` is the list of the job's counters for the recall, stored with the other counters. ``secret`` keeps sites
    from predicting which of their pages are audited.
    """

    def __init__(self, counts: list[int], secret: bytes, store: Reader | None = None) -> None:
        self._counts = counts
        self._drawn = pages_by_level(counts)  # with the pages that are not finished: rendering may take long
        self._secret = secret
        self._known: OrderedDict[bytes, Known] = OrderedDict()  # least recently used first
        for key, value in () if store is None else store.rows(Family.TRAPS, KIND, bytes([KIND[0] + 1])):
            self._known[key[1:]] = decode_known(value)

    def weigh(self, host: str, href: str, signs: Sequence[str], when: str, *, counts: bool = True) -> Paid:
        """Decide whether to render a page, and choose the level of its audit chance. ``counts``: see ``Paid``."""
        keys = digest_of(f"{host} {shape_of(href)}"), digest_of(host)
        if when == "always":
            return Paid(self, keys, bool(signs), Why.ALWAYS, None, counts=counts)
        shape, of_host = (self._known.get(key, NOTHING) for key in keys)
        if _chance(shape, of_host, bool(signs)) >= (PAYS if signs else PAYS_PLAIN):
            return Paid(self, keys, bool(signs), Why.SIGNS if signs else Why.SHAPE, None, counts=counts)
        level = level_now(self._drawn, is_new=shape.seen >= NEW and not (signs or shape.rendered_plain))
        self._drawn[level] += counts
        why = Why.AUDIT if self._lot(href) < CHANCES[level] else None
        return Paid(self, keys, bool(signs), why, level, counts=counts)

    def note(self, paid: Paid, batch: Batch) -> None:
        """Update the counters with the outcome of a page. ``Paid.put`` calls this."""
        if paid.counts:
            count(self._counts, paid.level, rendered=paid.why is not None, gained=bool(paid.gained))
        for key in paid.keys:
            known = self._known[key] = self._known.get(key, NOTHING).noted(paid)
            self._known.move_to_end(key)
            batch.put(Family.TRAPS, KIND + key, bytes(known))
        while len(self._known) > SHAPES_MOST:
            oldest, _ = self._known.popitem(last=False)
            batch.delete(Family.TRAPS, KIND + oldest)

    def _lot(self, href: str) -> float:
        """Return a number from 0 to 1 that looks random but is fixed for a URL.

        It is fixed because the URL may be visited again after the process was killed.
        """
        digest = blake2b(href.encode(), digest_size=8, key=self._secret, person=b"audit").digest()
        return int.from_bytes(digest) / 2**64


def shape_of(href: str) -> str:
    """Return the shape of a URL: its number of path segments, the pattern of the first one, and its query parameters.

    A path of a single plain word has an empty pattern, because the word predicts nothing about other paths.
    """
    path, query = split_path(href[href.find("/", 8) :])
    segments, first = path_shape(href)
    if segments == 1 and query is None and fold(path) == path:
        first = ""
    names = "" if query is None else (variants_of("", query) or "")
    return f"{segments} {first}{names}"


def check_known(key: bytes, value: bytes) -> None:
    """Raise TrapRecordError if a row is not a valid entry of a shape."""
    if len(key) != KEY_SIZE:
        raise TrapRecordError("not the key of a shape")
    decode_known(value)


def decode_known(value: bytes) -> Known:
    """Return the stored counters; raises TrapRecordError."""
    if len(value) != len(NOTHING):
        raise TrapRecordError(f"not the counters of a shape: {len(value)} bytes")
    known = Known(*value)
    if known.seen < known.signs or known.rendered < known.gained or known.rendered_plain < known.gained_plain:
        raise TrapRecordError("not the counters of a shape: a part is larger than the whole")
    return known


def _chance(shape: Known, host: Known, signs: bool) -> float:
    """Return the chance that a page gains something when rendered."""
    if signs:
        return _rate(shape.rendered, shape.gained, _rate(host.rendered, host.gained, _WITH_SIGNS, WEIGHT_OF_SIGNS))
    # On a host where rendering pays, missing signs are weak evidence: a template may lack them on all of its pages.
    needy = host.needy(0.0)
    prior = max(_rate(host.rendered_plain, host.gained_plain, _WITHOUT), needy, shape.needy(needy))
    return _rate(shape.rendered_plain, shape.gained_plain, prior)


def _rate(pages: int, gained: int, prior: float, weight: int = WEIGHT) -> float:
    return (gained + weight * prior) / (pages + weight)


def _halved(whole: int, part: int, most: int) -> tuple[int, int]:
    return (whole, part) if whole <= most else (whole // 2, part // 2)
