"""How fresh do policies of revisits keep pages, and how far is that from the best that the same requests can buy?

    python benchmarks/frontier/freshness.py [--pages 1000]

Pages change at random (Poisson), at rates that nobody tells the policies: log-normal, ``rate`` changes a unit of time
in the median, from ``spread`` 0.5 (most rates within a factor of three) to 2 (within a factor of fifty either way; what
studies of the web report is at least as wide). The unit is ``recrawl.mean_interval``. Each policy runs for 160 units,
the first 60 do not count. Figures are the share of time that pages are fresh, and visits of a page in a unit.

    fixed      one interval for all pages, chosen so that the requests are those of the policy it is compared with
    best       the best allocation of these requests for somebody who knows all rates: a bound for any policy
    adaptive   the interval grows by 0.4 after no change and shrinks by 0.2 after one: ``recrawl.policy = "adaptive"``
    freshness  the default
    lost       how far the policy is from best

Then the same with sitemaps that date the last changes of the pages and are read four times a unit; the schedule itself
is driven, on a store in memory:

    none       no dates
    true       each page has the date of its last change
    noisy      two changes of five have no date, and as many dates are of no change
    lying      each page has the date of the reading

``fixed`` and ``best`` are those without dates again: who knows when pages change can do better than ``best``.
"""

from __future__ import annotations

import argparse
import heapq
import math
import random
import sys
from bisect import bisect_right
from pathlib import Path
from typing import Protocol

sys.path.append(str(Path(__file__).resolve().parents[2]))

from benchmarks.kit.machine import describe_machine
from crawler.base.settings.parts import RecrawlSettings
from crawler.frontier.entry import Entry
from crawler.frontier.page import Answer
from crawler.frontier.recrawl.change_rate import after_visit, first_guess
from crawler.frontier.recrawl.visit_value import Budget
from crawler.frontier.revisits import Revisits
from crawler.frontier.sitemap_dates import Stated
from tests.memory_store import MemoryStore

UNITS, WARM_UP = 160.0, 60.0
DAY = 86_400.0
SETTINGS = RecrawlSettings(enabled=True, mean_interval=DAY)


class Policy(Protocol):
    """Chooses intervals, in units."""

    def visited(self, page: int, elapsed: float, *, changed: bool) -> float: ...


class Fixed:
    def __init__(self, interval: float) -> None:
        self._interval = interval

    def visited(self, page: int, elapsed: float, *, changed: bool) -> float:
        return self._interval


class Adaptive:
    def __init__(self, pages: int) -> None:
        self._intervals = [1.0] * pages

    def visited(self, page: int, elapsed: float, *, changed: bool) -> float:
        longer = self._intervals[page] * (0.8 if changed else 1.4)
        self._intervals[page] = min(max(longer, SETTINGS.min_interval / DAY), SETTINGS.max_interval / DAY)
        return self._intervals[page]


class Freshness:
    def __init__(self, pages: int) -> None:
        self._budget, self._first = Budget(SETTINGS), first_guess(DAY)
        self._rates = [self._first] * pages

    def visited(self, page: int, elapsed: float, *, changed: bool) -> float:
        rate = self._rates[page] = after_visit(self._rates[page], elapsed * DAY, changed=changed, first=self._first)
        return self._budget.interval(rate) / DAY


def run(rates: list[float], policy: Policy, seed: int = 1) -> tuple[float, float]:
    """(freshness, visits of a page in a unit)."""
    chance = random.Random(seed)
    last = [0.0] * len(rates)
    change = [chance.expovariate(rate) for rate in rates]
    queue = [(chance.random(), page) for page in range(len(rates))]
    heapq.heapify(queue)
    fresh, visits = 0.0, 0
    while queue:
        now, page = heapq.heappop(queue)
        fresh += max(0.0, min(now, change[page], UNITS) - max(last[page], WARM_UP))
        if now >= UNITS:
            continue
        visits += now > WARM_UP
        changed, elapsed = change[page] < now, now - last[page]
        last[page] = now
        if changed:
            change[page] = now + chance.expovariate(rates[page])
        heapq.heappush(queue, (now + policy.visited(page, elapsed, changed=changed), page))
    whole = len(rates) * (UNITS - WARM_UP)
    return fresh / whole, visits / whole


def run_with_dates(
    rates: list[float], site: str, units: float = UNITS, warm_up: float = WARM_UP
) -> tuple[float, float]:
    """(freshness, visits of a page in a unit) of the schedule of a job, whose site dates its pages so."""
    chance, settings = random.Random(1), RecrawlSettings(enabled=True, mean_interval=DAY, min_interval=60.0)
    store = MemoryStore()
    revisits = Revisits(store, settings, lambda _: 1.0)
    web = _Web(rates, chance, 0.4 if site == "noisy" else 0.0)
    hrefs = [f"http://h.test/{page}" for page in range(len(rates))]
    numbers = {href: page for page, href in enumerate(hrefs)}
    last, fresh, visits = [0.0] * len(rates), 0.0, 0

    def visit(entry: Entry, now: float) -> None:
        nonlocal fresh, visits
        page = numbers[entry.href]
        web.pass_to(page, now)
        begin = max(last[page], warm_up)
        fresh += max(0.0, min(now, units, web.first_change_after(page, last[page])) - begin)
        visits += warm_up < now < units
        last[page] = now
        batch = store.batch()
        answer = Answer(web.versions[page].to_bytes(16, "big"))
        revisits.finish(entry, answer, now * DAY, batch, excluded=False)
        store.write(batch)

    for page, href in enumerate(hrefs):
        visit(Entry(href, 0), page / len(rates) + 1e-6)
    reading, heard = 1.0, dict[int, float]()
    while (due := revisits.next_due()) is not None and min(due / DAY, reading) < units:
        if reading <= due / DAY:
            if site != "none":
                batch = store.batch()
                for page in range(len(rates)):
                    web.pass_to(page, reading)
                dates = [reading] * len(rates) if site == "lying" else web.dates
                said = {page: date for page, date in enumerate(dates) if heard.get(page) != date}
                heard.update(said)
                statements = {hrefs[page]: Stated(date * DAY, date * DAY) for page, date in said.items()}
                revisits.heed(statements, reading * DAY, batch)
                store.write(batch)
            reading += 0.25
            continue
        batch = store.batch()
        begun = revisits.begin(due, 1, batch)
        store.write(batch)
        for entry in begun:
            visit(entry, due / DAY)
    for page in range(len(rates)):
        web.pass_to(page, units)
        fresh += max(0.0, min(units, web.first_change_after(page, last[page])) - max(last[page], warm_up))
    whole = len(rates) * (units - warm_up)
    return fresh / whole, visits / whole


class _Web:
    """Pages that change, and the dates that their site gives them: a share ``noise`` of the changes is not dated, and
    as many dates are of no change."""

    def __init__(self, rates: list[float], chance: random.Random, noise: float) -> None:
        self._rates, self._chance, self._noise = rates, chance, noise
        self.versions = [1] * len(rates)
        self.dates = [1e-6] * len(rates)
        self._changes: list[list[float]] = [[] for _ in rates]
        self._next = [chance.expovariate(rate) for rate in rates]
        self._false = [self._after(page, 0.0) for page in range(len(rates))]

    def pass_to(self, page: int, now: float) -> None:
        while min(self._next[page], self._false[page]) <= now:
            if self._false[page] < self._next[page]:
                self.dates[page] = self._false[page]
                self._false[page] = self._after(page, self._false[page])
                continue
            at = self._next[page]
            self.versions[page] += 1
            self._changes[page].append(at)
            if self._chance.random() >= self._noise:
                self.dates[page] = at
            self._next[page] = at + self._chance.expovariate(self._rates[page])

    def first_change_after(self, page: int, visit: float) -> float:
        changes = self._changes[page]
        at = bisect_right(changes, visit)
        return changes[at] if at < len(changes) else math.inf

    def _after(self, page: int, now: float) -> float:
        return now + self._chance.expovariate(self._noise * self._rates[page]) if self._noise else math.inf


def best(rates: list[float], visits: float) -> float:
    """The greatest freshness with so many visits of a page in a unit, all rates known."""

    def share(rate: float, threshold: float) -> float:
        """Rate times interval, where a visit is worth the threshold."""
        low, high = 0.0, 100.0
        for _ in range(50):
            middle = (low + high) / 2
            low, high = (middle, high) if 1 - (1 + middle) * math.exp(-middle) < threshold * rate else (low, middle)
        return high

    low, high = 1e-9, 1e9
    for _ in range(60):
        middle = math.sqrt(low * high)
        spent = sum(rate / share(rate, middle) for rate in rates if middle * rate < 1) / len(rates)
        low, high = (middle, high) if spent > visits else (low, middle)
    found = [share(rate, high) if high * rate < 1 else math.inf for rate in rates]
    return sum(-math.expm1(-each) / each for each in found if each < math.inf) / len(rates)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=int, default=1_000)
    pages = parser.parse_args().pages
    print(*describe_machine(), sep="\n")
    print(f"\n{'spread':>6}{'rate':>6}  {'policy':10}{'visits':>8}{'fresh':>8}{'fixed':>8}{'best':>8}{'lost':>8}")
    for spread in (0.5, 1.0, 1.5, 2.0):
        for median in (0.1, 0.3, 1.0):
            chance = random.Random(7)
            rates = [median * chance.lognormvariate(0, spread) for _ in range(pages)]
            for name, policy in (("adaptive", Adaptive(pages)), ("freshness", Freshness(pages))):
                fresh, visits = run(rates, policy)
                fixed, bound = run(rates, Fixed(1 / visits))[0], best(rates, visits)
                figures = "".join(f"{figure:8.3f}" for figure in (visits, fresh, fixed, bound, bound - fresh))
                print(f"{spread:6}{median:6}  {name:10}{figures}", flush=True)
    print(f"\n{'spread':>6}{'rate':>6}  {'dates':10}{'visits':>8}{'fresh':>8}{'fixed':>8}{'best':>8}")
    for spread, median in ((1.0, 0.1), (1.0, 0.3), (1.5, 0.3), (1.5, 1.0)):
        chance = random.Random(7)
        rates = [median * chance.lognormvariate(0, spread) for _ in range(pages // 4)]
        for site in ("none", "true", "noisy", "lying"):
            fresh, visits = run_with_dates(rates, site)
            fixed, bound = run(rates, Fixed(1 / visits))[0], best(rates, visits)
            figures = "".join(f"{figure:8.3f}" for figure in (visits, fresh, fixed, bound))
            print(f"{spread:6}{median:6}  {site:10}{figures}", flush=True)


if __name__ == "__main__":
    main()
