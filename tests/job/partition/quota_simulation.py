"""The pages of a whole crawl, shared out over its partitions, in a model: partitions and a bank that lose power, over a
carrier that loses notes and reads old ones again. One life follows from one number."""

from __future__ import annotations

import random

from crawler.job.partition.quota import CrawlQuota, Grant, PartitionQuota, Recall, Wish

HOPED = 5


class Node:
    """A partition that fetches ``work`` pages if it may. Its disk has what was synced."""

    def __init__(self, number: int, work: int) -> None:
        self.number = number
        self.work = work
        self.fetched = 0
        self.epoch = 1
        self.quota = PartitionQuota(self.epoch, 0)
        self.disk = 0

    def sync(self) -> None:
        self.disk = self.fetched

    def lose_power(self) -> None:
        self.epoch, self.fetched = self.epoch + 1, self.disk
        self.quota = PartitionQuota(self.epoch, self.fetched)

    def step(self) -> Wish | None:
        while self.fetched < min(self.work, self.quota.total):
            self.fetched += 1
        if self.fetched < self.work:
            return self.quota.wish(self.work - self.fetched + HOPED)  # what is pending may turn out to be no page
        self.quota.give_back(self.fetched)
        return self.quota.wish(0)

    def hear(self, said: Grant | Recall) -> None:
        if isinstance(said, Recall):
            self.quota.recall(said)
        else:
            self.quota.hear(said)


class World:
    """Nodes and a bank, with what was sent and not received. The carrier loses entries, and reads old ones again, each
    stream in its order."""

    def __init__(self, limit: int, works: list[int], chance: random.Random) -> None:
        self.limit = limit
        self.nodes = [Node(number, work) for number, work in enumerate(works)]
        self.bank = CrawlQuota(1, limit, len(works))
        self.to_bank: list[tuple[int, Wish]] = []
        self.to_node: list[list[Grant | Recall]] = [[] for _ in works]
        self.late: list[tuple[int, Grant | Recall]] = []  # notes of the bank that arrive after later ones
        self.read_bank, self.read_node = 0, [0] * len(works)
        self.chance = chance

    def check(self) -> None:
        assert sum(max(node.fetched, node.quota.total) for node in self.nodes) <= self.limit
        if not self.bank.unheard:
            assert all(node.quota.total <= self.bank.allowances[node.number].total for node in self.nodes)

    def node_step(self, node: Node, *, lossy: bool) -> None:
        wish = node.step()
        if wish is not None and not (lossy and self.chance.random() < 0.5):
            self.to_bank.append((node.number, wish))

    def bank_step(self, *, lossy: bool) -> None:
        while self.read_bank < len(self.to_bank):
            sender, wish = self.to_bank[self.read_bank]
            self.read_bank += 1
            self._answer(sender, self.bank.hear(sender, wish), lossy=lossy)
        for number in self.bank.unheard:
            self._answer(number, Recall(self.bank.term), lossy=lossy)

    def _answer(self, number: int, said: Grant | Recall, *, lossy: bool) -> None:
        if not (lossy and self.chance.random() < 0.5):
            self.to_node[number].append(said)
        elif self.chance.random() < 0.5:
            self.late.append((number, said))

    def deliver(self, node: Node) -> None:
        inbox = self.to_node[node.number]
        while self.read_node[node.number] < len(inbox):
            node.hear(inbox[self.read_node[node.number]])
            self.read_node[node.number] += 1

    def trouble(self) -> None:
        node = self.chance.choice(self.nodes)
        kind = self.chance.randrange(5)
        if kind == 0:
            node.lose_power()
            self.read_node[node.number] = self.chance.randint(0, self.read_node[node.number])
        elif kind == 1:
            self.bank = CrawlQuota(self.bank.term + 1, self.limit, len(self.nodes))
            self.read_bank = self.chance.randint(0, self.read_bank)
        elif kind == 2:  # the carrier loses everything
            self.to_bank.clear()
            self.read_bank = 0
            self.to_node = [[] for _ in self.nodes]
            self.read_node = [0] * len(self.nodes)
        elif kind == 3:
            for number, said in self.late:
                self.to_node[number].append(said)
            self.late.clear()
        else:
            node.sync()


def spend(limit: int, works: list[int], seed: int, troubles: int) -> None:
    """Let partitions with so much work share the limit. Raises AssertionError."""
    chance = random.Random(seed)
    world = World(limit, works, chance)
    for _ in range(troubles):
        for _ in range(chance.randrange(4)):
            world.node_step(chance.choice(world.nodes), lossy=True)
            world.check()
        if chance.random() < 0.6:
            world.bank_step(lossy=True)
        if chance.random() < 0.6:
            world.deliver(chance.choice(world.nodes))
            world.check()
        if chance.random() < 0.3:
            world.trouble()
            world.check()
        if chance.random() < 0.1:  # there is more to do
            chance.choice(world.nodes).work += 3
    works = [node.work for node in world.nodes]
    for _ in range(4 * (limit + sum(works) + 10)):
        for node in world.nodes:
            world.node_step(node, lossy=False)
        world.bank_step(lossy=False)
        for node in world.nodes:
            world.deliver(node)
        world.check()
    assert sum(node.fetched for node in world.nodes) == min(limit, sum(works))


def spend_by_chance(seed: int) -> list[str]:
    """A life of chance. Returns what is wrong with it."""
    chance = random.Random(seed)
    works = [chance.randint(0, 12) for _ in range(chance.randint(1, 4))]
    try:
        spend(chance.randint(0, 25), works, seed, chance.randint(0, 120))
    except AssertionError as error:
        return [str(error) or "more pages than the limit, or fewer than there could be"]
    return []
