"""The dates at which sites say that their pages changed, and how far each site is trusted.

Sitemaps and feeds date the last change of the pages that they list. A date after our last visit is a *signal*: our copy
of the page is probably outdated. Some sites date everything with today, or nothing correctly (arXiv 2502.02430, "A
Scalable Crawling Algorithm Utilizing Noisy Change-Indicating Signals", calls signals noisy). A host is therefore
trusted to the extent that its earlier dates were right. Each visit to a page that has a date is evidence: with a signal
or in silence, and with a change or without. Six sums are kept for each host:

    signals   silences    visits to pages with a signal, and to pages without
    right     unsaid      visits among these that found a change
    expected  foreseen    changes expected there by the estimated change rates, without the site's signals

The *excess* is the probability that a signal means a change of a page that our estimate considers unchanged: changes
found with a signal, beyond those that would be found anyway. The latter are the changes that the estimates expect,
corrected by the changes found in silence. A host without silences, which dates everything with today, has no excess,
and neither does one whose dates are random. Uncertainty counts against the site, so a host is trusted only after its
dates have proved right. *Silence* is evidence too: where most changes have signals, a page without one changes less
often than its rate suggests.

``changefreq`` is only a guess by the site: it shifts the prior of a page that was never seen to change.

Pure: no clock, no store.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal, NamedTuple

import msgspec.msgpack

from crawler.frontier.page import SIGNALLED, Page
from crawler.frontier.recrawl.change_rate import ChangeRate

DAY = 86_400.0
LEAST = 0.05  # smallest excess that counts
_KEPT = 0.98  # weight that earlier visits of a kind keep at each new visit
_SILENCES = 4.0  # number of silences required before a host is trusted
_DOUBT = 2.0  # number of wrong signals that the prior assumes
_MOST = 0.95  # highest excess
_PREFIX = b"signals/"
_VERSION = 2
_LARGEST = 700.0  # largest argument of ``expm1`` whose result fits into a float


class Stated(NamedTuple):
    """The change date and frequency of a page in a sitemap or feed.

    It last changed between ``begin`` and ``end`` (seconds since 1970; 0 and 0 if there is no date). ``frequency`` is
    how often it changes: 1 (hourly) to 3 (rarely), or 0 if unknown.
    """

    begin: float
    end: float
    frequency: int = 0


Statements = Mapping[str, Stated]  # by href


class Trust(NamedTuple):
    """Evidence of how far a host can be trusted."""

    signals: float = 0.0
    right: float = 0.0
    expected: float = 0.0
    silences: float = 0.0
    unsaid: float = 0.0
    foreseen: float = 0.0

    @property
    def excess(self) -> float:
        """The probability that a signal means a change of a page that is otherwise unchanged."""
        if self.silences < _SILENCES or self.signals <= 0.0:
            return 0.0
        bias = (self.unsaid + 1.0 + math.sqrt(self.unsaid + 1.0)) / (self.foreseen + 1.0)
        anyway = min(bias * self.expected, self.signals)
        doubt = math.sqrt(anyway * (1.0 - anyway / self.signals))
        return min(max((self.right - anyway - doubt) / (self.signals - anyway + _DOUBT), 0.0), _MOST)

    @property
    def silence(self) -> float:
        """The factor that reduces the change rate of a page without a signal."""
        excess = self.excess
        return 1.0 if excess < LEAST else 1.0 - excess * self.right / (self.right + self.unsaid + 1.0)

    def after(self, *, signalled: bool, changed: bool, chance: float) -> Trust:
        """Return the evidence after a visit. ``chance`` is the probability of a change according to our estimate
        alone."""
        if signalled:
            kept = (_KEPT * self.signals + 1.0, _KEPT * self.right + changed, _KEPT * self.expected + chance)
            return Trust(*kept, *self[3:])
        kept = (_KEPT * self.silences + 1.0, _KEPT * self.unsaid + changed, _KEPT * self.foreseen + chance)
        return Trust(*self[:3], *kept)


def hear(page: Page, stated: Stated, now: float) -> Page | None:
    """Return the page updated by a sitemap or feed; None if there is nothing new."""
    entry, marks, begin = page.entry, page.marks, min(stated.begin, now)
    if stated.frequency != entry.changefreq and stated.frequency and not page.changes:
        entry = entry._replace(changefreq=stated.frequency)
    if stated.begin <= 0.0 or stated.begin > now + DAY or (marks & SIGNALLED and page.stated):
        begin = page.stated  # no date, an impossible date, or one that repeats a known signal
    elif begin > page.visited_at or (stated.end > page.visited_at and 0.0 < page.stated < begin):
        marks |= SIGNALLED
    if (entry.changefreq, marks, begin) == (page.entry.changefreq, page.marks, page.stated):
        return None
    return page._replace(entry=entry, marks=marks, stated=begin)


def in_silence(rate: ChangeRate, trust: Trust) -> ChangeRate:
    """Return the rate at which a page without a signal changes."""
    return ChangeRate(rate.shape, rate.exposure / trust.silence)


def apparent_age(rate: ChangeRate, seconds: float, excess: float) -> float:
    """Return the age at which a page without a signal is as doubtful as one with a signal after ``seconds``."""
    log = math.log1p(seconds / rate.exposure) - math.log1p(-excess) / rate.shape
    return rate.exposure * math.expm1(min(log, _LARGEST))


def trust_key(host: str) -> bytes:
    """Return the META key of a host's record."""
    return _PREFIX + host.encode("ascii")


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[Literal[2], Trust]).decode


def pack_trust(trust: Trust) -> bytes:
    """Encode a host's record for the store."""
    return _encode((_VERSION, trust))


def unpack_trust(value: bytes | None) -> Trust | None:
    """Decode a host's record; None if it is invalid."""
    try:
        _, trust = _decode(value or b"")
    except msgspec.DecodeError:
        return None
    return trust if all(0.0 <= each < math.inf for each in trust) else None
