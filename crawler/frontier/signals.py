"""What sites say about changes of their pages, and how far they are believed.

Sitemaps and feeds date the last change of the pages that they list. A date after our last visit is a *signal*: the page
is probably not what we have. Some sites date everything with today, or nothing correctly (arXiv 2502.02430, "A Scalable
Crawling Algorithm Utilizing Noisy Change-Indicating Signals", calls signals noisy). So a host is believed as far as it
was right before. Each visit to a page that has a date tells something: with a signal, or in silence, and whether it
found a change. For each host six sums are kept:

    signals   silences    visits to pages with a signal, and to pages without
    right     unsaid      of these, those that found a change
    expected  foreseen    changes that the estimates of the change rates expected there, without the site's word

The *excess* is the probability that a signal means a change, among pages that are unchanged as far as we know: changes
found where there was a signal, beyond what is found there anyway. What is found anyway is what the estimates expect,
corrected by what was found in silence. A host without silences, which dates everything with today, has no excess, and
neither has one whose dates are random. Doubts count against the site, so nothing is believed before it was seen to be
right. *Silence* is worth something too: where most changes have signals, a page without one changes less often than
its rate says.

``changefreq`` is only a guess of the site's: it shifts what is assumed of a page that was never seen to change.

Pure: no clock, no store.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from typing import NamedTuple

from crawler.frontier.page import SIGNALLED, Page
from crawler.frontier.recrawl.change_rate import ChangeRate

DAY = 86_400.0
LEAST = 0.05  # of an excess that counts
_KEPT = 0.98  # of the earlier visits of a kind, at each further one
_SILENCES = 4.0  # seen before anything is believed
_DOUBT = 2.0  # signals that were wrong, assumed first
_MOST = 0.95  # of what is believed
_PREFIX = b"signals/"
_RECORD = struct.Struct("<B6d")
_VERSION = 1
_LARGEST = 700.0  # exponent of a float


class Stated(NamedTuple):
    """What a sitemap or feed says about a page: it last changed between ``begin`` and ``end`` (seconds since 1970; 0
    and 0 if there is no date), and how often it changes: 1
    (hourly) to 3 (rarely), or 0."""

    begin: float
    end: float
    frequency: int = 0


Statements = Mapping[str, Stated]  # by href


class Trust(NamedTuple):
    """How far a host is believed."""

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
        """How much less often a page without a signal changes: a factor of its rate."""
        excess = self.excess
        return 1.0 if excess < LEAST else 1.0 - excess * self.right / (self.right + self.unsaid + 1.0)

    def after(self, *, signalled: bool, changed: bool, chance: float) -> Trust:
        """What is known after a visit. ``chance`` is the probability of a change by the estimate alone."""
        if signalled:
            kept = (_KEPT * self.signals + 1.0, _KEPT * self.right + changed, _KEPT * self.expected + chance)
            return Trust(*kept, *self[3:])
        kept = (_KEPT * self.silences + 1.0, _KEPT * self.unsaid + changed, _KEPT * self.foreseen + chance)
        return Trust(*self[:3], *kept)


def hear(page: Page, stated: Stated, now: float) -> Page | None:
    """The page after a sitemap or feed was read; None if it says nothing new."""
    entry, marks, begin = page.entry, page.marks, min(stated.begin, now)
    if stated.frequency != entry.changefreq and stated.frequency and not page.changes:
        entry = entry._replace(changefreq=stated.frequency)
    if stated.begin <= 0.0 or stated.begin > now + DAY or (marks & SIGNALLED and page.stated):
        begin = page.stated  # no date, none that can be right, or one more of what is known
    elif begin > page.visited_at or (stated.end > page.visited_at and 0.0 < page.stated < begin):
        marks |= SIGNALLED
    if (entry.changefreq, marks, begin) == (page.entry.changefreq, page.marks, page.stated):
        return None
    return page._replace(entry=entry, marks=marks, stated=begin)


def in_silence(rate: ChangeRate, trust: Trust) -> ChangeRate:
    """The rate of changes without a signal."""
    return ChangeRate(rate.shape, rate.exposure / trust.silence)


def apparent_age(rate: ChangeRate, seconds: float, excess: float) -> float:
    """After how many seconds without any signal a page would be as doubtful as it is with one after ``seconds``."""
    log = math.log1p(seconds / rate.exposure) - math.log1p(-excess) / rate.shape
    return rate.exposure * math.expm1(min(log, _LARGEST))


def trust_key(host: str) -> bytes:
    """The META key of a host's record."""
    return _PREFIX + host.encode("ascii")


def pack_trust(trust: Trust) -> bytes:
    """The stored record."""
    return _RECORD.pack(_VERSION, *trust)


def unpack_trust(value: bytes | None) -> Trust | None:
    """The inverse of ``pack_trust``; None for what is no record."""
    if value is None or len(value) != _RECORD.size or value[0] != _VERSION:
        return None
    sums = _RECORD.unpack(value)[1:]
    return Trust(*sums) if all(0.0 <= each < math.inf for each in sums) else None
