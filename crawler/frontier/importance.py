"""How important a URL is, as far as a crawl can tell while it runs: the measure behind ``--order score``.

OPIC, online page importance computation (Abiteboul, Preda and Cobena 2003, "Adaptive On-Line Page Importance
Computation", WWW): each page has a *score* (the paper calls it cash); when the page is fetched, its score is shared
equally among the pages that it links to. What a page gathers over time tends to its PageRank, with no matrix; the page
with the highest score is fetched next.

    a seed begins with a score of 1
    a page with score C and L links in scope brings C / L to each page that it links to, pending or not
    what a page without links has is gone, as is what goes to links out of scope

A pending URL's entry cannot be found by its key: that takes an exact index of all URLs, and this crawler does without.
So the score that a URL is found with is stored in its entry (``Entry.score``), and what later links bring is kept in a
table of fixed size, a count-min sketch (Cormode and Muthukrishnan 2005) by the hash of the URL: never too little, and
too much only where two URLs meet in both rows. All of it is halved now and then, so that it is of the last million
links. The table is not stored; a restart forgets it. What the pending URLs of a host have together is stored with the
host.

The score is used twice. Of the first entries of a host, those of its window, the one with the highest score is next. A
host whose pages have more together than the mean joins a front queue before that of its next entry, one class for each
factor of four, three at most; one with less, behind it. So important hosts have more turns, and none starves.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import frexp

import mmh3
import numpy as np

from crawler.frontier.entry import FRESH_SLOT_SIZE, Entry, decode_entry
from crawler.frontier.host import Host
from crawler.settings import CLASSES

SEED_SCORE = 1.0
LEVELS = 3  # classes by which a host can be before or behind that of its next entry
CELLS = 2**20  # in each of two rows: 8 MB

_CLASS_AT = 1  # in a row of a window


class Importance:
    """The score of all that is pending."""

    def __init__(self, *, active: bool) -> None:
        """Not ``active``, nothing has a score."""
        self.active = active
        self.total = 0.0  # of all hosts
        self._cells = np.zeros((2, CELLS if active else 1), np.float32)
        self._links = 0  # since all was halved

    def bring(self, host: Host, amount: float, before: float = 0.0) -> None:
        """Links to the host's pages were found; ``before``: what they had, where it was not taken into account yet."""
        host.tally.opic_score += amount
        self.total += amount + before

    def credit(self, href: str, amount: float) -> None:
        """A link to a URL that was known already was found."""
        one, other = _places(href)
        self._cells[0, one] += amount
        self._cells[1, other] += amount
        self._links += 1
        if self._links >= CELLS:
            self._cells *= 0.5
            self._links = 0

    def opic_score(self, entry: Entry) -> float:
        """What the entry has: what it was found with, and what links have brought since."""
        one, other = _places(entry.href)
        return entry.score + float(min(self._cells[0, one], self._cells[1, other]))

    def share(self, host: Host, entry: Entry) -> float:
        """What a page of the host hands on."""
        return min(host.tally.opic_score, self.opic_score(entry)) if self.active else 0.0

    def spend(self, host: Host, entry: Entry) -> None:
        """A page of the host is done."""
        if self.active:
            spent = self.share(host, entry)
            host.tally.opic_score -= spent
            self.total = max(0.0, self.total - spent)

    def best(self, rows: Sequence[bytes]) -> int:
        """Which of a window's rows is to be taken: the one with the highest score of the first one's class."""
        place, most = 0, -1.0
        for at, row in enumerate(rows):
            if row[_CLASS_AT] != rows[0][_CLASS_AT]:
                break
            opic_score = self.opic_score(decode_entry(row[FRESH_SLOT_SIZE:]))
            if opic_score > most:
                place, most = at, opic_score
        return place

    def front(self, host: Host, hosts: int) -> int:
        """The class of the host's front queue; it is one of ``hosts`` with something pending."""
        if self.total <= 0.0:
            return host.queue.front
        # The ratio to the mean is at least 2 ** (power - 1) and less than 2 ** power.
        _, power = frexp(host.tally.opic_score * hosts / self.total)
        step = max(-LEVELS, min(LEVELS, power // 2)) if host.tally.opic_score > 0.0 else -LEVELS
        return max(0, min(CLASSES - 1, host.queue.front - step))


def _places(href: str) -> tuple[int, int]:
    one, other = mmh3.hash64(href, signed=False)
    return one % CELLS, other % CELLS
