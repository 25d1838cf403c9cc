"""The time of a page's next visit: from its change rate, the budget, and the signals of its site.

The estimates are in ``change_rate``, the budget in ``visit_value``, the signals in ``sitemap_dates``. META holds the
budget's threshold and a record for each host that dates its pages.
"""

from __future__ import annotations

import struct

from crawler.base.kv import Batch, Family, Reader
from crawler.base.settings.parts import RecrawlSettings
from crawler.frontier.page import HASTENED, SIGNALLED, Page
from crawler.frontier.recrawl.visit_value import Budget
from crawler.frontier.sitemap_dates import LEAST, Trust, apparent_age, in_silence, pack_trust, trust_key, unpack_trust

_THRESHOLD = b"recrawl-threshold"
_DOUBLE = struct.Struct("<d")
_DRIFT = 0.01  # relative change of the threshold below which it is not stored again
_BELIEVED = 0.5  # least excess at which the policy "adaptive" visits a page at once


class VisitTimes:
    """The intervals of a job's pages."""

    def __init__(self, store: Reader, settings: RecrawlSettings) -> None:
        self._store = store
        self._least = settings.min_interval
        self._budget = None if settings.policy == "adaptive" else Budget(settings, _stored_threshold(store))
        self._threshold = 0.0  # the stored value

    def change(self, settings: RecrawlSettings) -> None:
        """Apply new intervals with the same policy."""
        self._least = settings.min_interval
        if self._budget is not None:
            self._budget = Budget(settings, self._budget.threshold)

    def trust(self, host: str) -> Trust:
        """Return the trust in a host. If its record cannot be read, the trust is empty and must be learned again."""
        return unpack_trust(self._store.get(Family.META, trust_key(host))) or Trust()

    def learn(self, host: str, before: Page, visited_at: float, changed: bool, batch: Batch) -> None:
        """Update the trust in a host after a visit. ``before`` is the page before the visit."""
        if not before.stated or before.rate is None:
            return
        chance = 1.0 - before.rate.unchanged(max(visited_at - before.visited_at, 0.0))
        signalled = bool(before.marks & SIGNALLED)
        trust = self.trust(host).after(signalled=signalled, changed=changed, chance=chance)
        batch.put(Family.META, trust_key(host), pack_trust(trust))

    def interval(self, page: Page, host: str, batch: Batch) -> float | None:
        """Return the seconds until the next visit of a page that was just visited.

        None means that the page keeps its own interval.
        """
        if self._budget is None or page.rate is None:
            return None
        rate = in_silence(page.rate, self.trust(host)) if page.stated else page.rate
        interval = self._budget.interval(rate)
        self._keep(batch)
        # Sitemaps and feeds are read at least at the mean interval, so that their dates stay useful.
        return min(interval, self._budget.mean) if page.entry.sitemap else interval

    def sooner(self, page: Page, trust: Trust, now: float, batch: Batch) -> Page | None:
        """Return the page with an earlier next visit if its site is trusted and signals a change; else None."""
        excess, due = trust.excess, page.due
        if excess < LEAST or due is None or page.rate is None or page.marks & HASTENED or not page.marks & SIGNALLED:
            return None
        age = max(now - page.visited_at, 0.0)
        if self._budget is None:
            after = max(age, self._least) if excess > _BELIEVED else None
        else:
            rate = in_silence(page.rate, trust)
            after = self._budget.sooner(rate, age, apparent_age(rate, age, excess))
        if after is None or page.visited_at + after >= due:
            return None
        if self._budget is not None:
            self._budget.moved(page.interval, after)
            self._keep(batch)
        return page._replace(due=max(page.visited_at + after, now), marks=page.marks | HASTENED)

    def _keep(self, batch: Batch) -> None:
        budget = self._budget
        if budget is not None and abs(budget.threshold - self._threshold) > _DRIFT * self._threshold:
            self._threshold = budget.threshold
            batch.put(Family.META, _THRESHOLD, _DOUBLE.pack(self._threshold))


def _stored_threshold(store: Reader) -> float | None:
    """Return the threshold of an earlier run; None if it is missing or unreadable, so that it must be learned again."""
    stored = store.get(Family.META, _THRESHOLD)
    return _DOUBLE.unpack(stored)[0] if stored is not None and len(stored) == _DOUBLE.size else None
