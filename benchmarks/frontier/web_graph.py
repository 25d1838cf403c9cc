"""A web that looks like one: hosts and pages of very different importance, and a crawl of it through the frontier."""

from __future__ import annotations

import random
from bisect import bisect
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from crawler.base.settings.parts import PolitenessSettings
from crawler.frontier.entry import Entry
from crawler.frontier.frontier import Frontier
from crawler.frontier.lease import Done
from crawler.frontier.opic_score import SEED_SCORE
from crawler.frontier.order import Order, default_class
from tests.memory_store import MemoryStore

START = 1_700_000_000.0


class WebGraph:
    """Pages on hosts. Half of the links stay on their host; the others lead to a host by a Zipf law and there, more
    often than not, to one of its first pages. A page that nothing leads to is linked from the one before it."""

    def __init__(self, hosts: int, pages: int, links: int, seed: int) -> None:
        chance = random.Random(seed)
        self.links: dict[str, list[str]] = {}
        weights = list(accumulate(1 / (rank + 1) for rank in range(hosts)))
        # Which host is an important one says nothing about when it is met.
        names = chance.sample(range(hosts), hosts)

        def page(host: int, number: int) -> str:
            return f"http://h{names[host]}.test/{number}"

        def of(host: int) -> str:
            return page(host, min(int(chance.paretovariate(0.8)) - 1, pages - 1))

        def somewhere() -> int:
            return bisect(weights, chance.random() * weights[-1])

        for host in range(hosts):
            for number in range(pages):
                targets = [of(host if chance.random() < 0.5 else somewhere()) for _ in range(chance.randint(1, links))]
                if number + 1 < pages:
                    targets.append(page(host, number + 1))
                self.links[page(host, number)] = targets
        self.seeds = [page(hosts - 1 - at, 0) for at in range(3)]

    def reachable(self) -> set[str]:
        found, waiting = set(self.seeds), list(self.seeds)
        while waiting:
            for target in self.links[waiting.pop()]:
                if target not in found:
                    found.add(target)
                    waiting.append(target)
        return found

    def pagerank(self, damping: float = 0.85, rounds: int = 60) -> dict[str, float]:
        """Of all pages, adding up to 1."""
        at = {href: number for number, href in enumerate(self.links)}
        sources = np.repeat(np.arange(len(at)), [len(targets) for targets in self.links.values()])
        targets = np.array([at[target] for each in self.links.values() for target in each])
        degree = np.bincount(sources, minlength=len(at))
        rank: npt.NDArray[np.float64] = np.full(len(at), 1 / len(at))
        for _ in range(rounds):
            flow = np.bincount(targets, rank[sources] / degree[sources], minlength=len(at))
            rank = (1 - damping) / len(at) + damping * flow
        return dict(zip(at, rank / rank.sum(), strict=True))


def crawled(web: WebGraph, order: Order, *, delay: float, slots: int = 8) -> list[str]:
    """The pages in the order in which they are fetched, with so many requests of 0.1 s in flight."""
    store = MemoryStore()
    frontier = Frontier(store, PolitenessSettings(delay=delay), order=order, robots=False)
    seen = set(web.seeds)
    batch = store.batch()
    score = SEED_SCORE if order is Order.SCORE else 0.0
    frontier.admit([Entry(href, 0, seed=True, score=score) for href in web.seeds], batch)
    store.write(batch)
    now, fetched, flying = START, [], []
    while frontier.queued or flying:
        while len(flying) < slots and (lease := frontier.take(now)) is not None:
            flying.append((now + 0.1, lease))
        ready = frontier.next_ready()
        if not flying:
            assert ready is not None
            now = ready
            continue
        now, lease = flying.pop(0)
        assert lease.entry is not None
        fetched.append(lease.entry.href)
        links = list(dict.fromkeys(web.links[lease.entry.href]))
        new = [href for href in links if href not in seen]
        seen.update(new)
        batch = store.batch()
        each = frontier.share(lease) / len(links)
        depth = lease.entry.depth + 1
        priority = default_class(order, depth, seed=False)
        known = set(links) - set(new)
        frontier.credit([href for href in links if href in known], each, batch)
        frontier.admit([Entry(href, depth, priority=priority, score=each) for href in new], batch)
        frontier.finish(lease, Done(), now, batch)
        store.write(batch)
        frontier.written()
    return fetched


def early(web: WebGraph, fetched: list[str], part: float) -> float:
    """How much of the PageRank of all that is fetched is on the first part of it."""
    rank = web.pagerank()
    first = fetched[: round(part * len(fetched))]
    return sum(rank[href] for href in first) / sum(rank[href] for href in fetched)
