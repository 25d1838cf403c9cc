"""Estimates the importance of URLs while the crawl runs, for ``--order score``.

OPIC, online page importance computation (Abiteboul, Preda and Cobena 2003, "Adaptive On-Line Page Importance
Computation", WWW): each page has a *score* (the paper calls it cash). When the page is fetched, its score is divided
equally among the pages that it links to. Over time the total score that a page gathers tends to its PageRank, without a
matrix. The page with the highest score is fetched next.

    a seed starts with a score of 1
    a page with score C and L links in scope adds C / L to each page that it links to, pending or not
    the score of a page without links is lost, and so is the share of links out of scope

A pending URL's entry cannot be found by its key: that would take an exact index of all URLs, which this crawler avoids.
The initial score of a URL is therefore stored in its entry (``Entry.score``), and additions by later links are kept in
a table of fixed size, a count-min sketch (Cormode and Muthukrishnan 2005) by the hash of the URL. The sketch never
underestimates, and overestimates only if a URL collides with others in both rows. All cells are halved from time to
time, so that they reflect the last million links. The table is not stored and is lost at a restart. The sum of the
scores of a host's pending URLs is stored with the host.

The score is used twice. Among the entries in a host's window, the one with the highest score is next. A host whose
pending URLs have a higher total score than the mean joins an earlier front queue than that of its next entry: one class
for each factor of four, at most three. A host whose total is below the mean joins a later front queue. Important hosts
therefore get more turns, but every host gets some.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import frexp

import numpy as np

from crawler.base.settings.parts import CLASSES
from crawler.frontier.entry import FRESH_SLOT_SIZE, Entry, decode_entry
from crawler.frontier.host import Host

SEED_SCORE = 1.0
LEVELS = 3  # maximum number of classes by which a host's front queue may differ from the class of its next entry
CELLS = 2**20  # cells per row; two rows take 8 MB

_CLASS_AT = 1  # offset in a row of a window
_LAST = -1.0  # lower than every score


class Importance:
    """The scores of all pending URLs."""

    def __init__(self, *, active: bool) -> None:
        """Unless ``active``, all scores are 0."""
        self.active = active
        self.total = 0.0  # sum of the scores of all hosts
        self._cells = np.zeros((2, CELLS if active else 1), np.float32)
        self._links = 0  # links since the cells were last halved

    def bring(self, host: Host, amount: float, before: float = 0.0) -> None:
        """Add ``amount`` to the score of the host, for new links to its pages.

        ``before`` is the score that the host already had, if ``total`` does not include it yet.
        """
        host.tally.opic_score += amount
        self.total += amount + before

    def credit(self, href: str, amount: float) -> None:
        """Count a link to a known URL."""
        one, other = _places(href)
        self._cells[0, one] += amount
        self._cells[1, other] += amount
        self._links += 1
        if self._links >= CELLS:
            self._cells *= 0.5
            self._links = 0

    def opic_score(self, entry: Entry) -> float:
        """Return the score of the entry: its initial score plus additions by later links."""
        one, other = _places(entry.href)
        return entry.score + float(min(self._cells[0, one], self._cells[1, other]))

    def share(self, host: Host, entry: Entry) -> float:
        """Return the score that a page of the host divides among its links."""
        return min(host.tally.opic_score, self.opic_score(entry)) if self.active else 0.0

    def spend(self, host: Host, entry: Entry) -> None:
        """Subtract the score of a finished page from its host."""
        if self.active:
            spent = self.share(host, entry)
            host.tally.opic_score -= spent
            self.total = max(0.0, self.total - spent)

    def best(self, rows: Sequence[bytes]) -> int:
        """Return the position of the row to take: the one with the highest score in the class of the first row.

        A page that may have killed the process comes last, regardless of its score.
        """
        place, most = 0, 2 * _LAST
        for at, row in enumerate(rows):
            if row[_CLASS_AT] != rows[0][_CLASS_AT]:
                break
            entry = decode_entry(row[FRESH_SLOT_SIZE:])
            opic_score = _LAST if entry.crashes else self.opic_score(entry)
            if opic_score > most:
                place, most = at, opic_score
        return place

    def front(self, host: Host, front: int, hosts: int) -> int:
        """Return the class of the host's front queue.

        ``front`` is the class of its next entry, and ``hosts`` the number of hosts with pending URLs.
        """
        if self.total <= 0.0:
            return front
        # The ratio to the mean is at least 2 ** (power - 1) and less than 2 ** power.
        _, power = frexp(host.tally.opic_score * hosts / self.total)
        step = max(-LEVELS, min(LEVELS, power // 2)) if host.tally.opic_score > 0.0 else -LEVELS
        return max(0, min(CLASSES - 1, front - step))


def _places(href: str) -> tuple[int, int]:
    # Python salts string hashes per process, so an attacker cannot choose URLs that share the cells of another URL.
    number = hash(href)
    return number % CELLS, (number >> 32) % CELLS
