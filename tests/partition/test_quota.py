"""The pages of a whole crawl, shared out over its partitions: never more than the limit, and none left unused."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from crawler.partition.quota import Allowance, Bank, Grant, Purse, Wish

HOPED = 5


class Node:
    """A partition that fetches ``work`` pages if it may. Its disk has what was synced."""

    def __init__(self, number: int, work: int) -> None:
        self.number = number
        self.work = work
        self.fetched = 0
        self.purse = Purse(Allowance())
        self.disk = (Allowance(), 0)

    def sync(self) -> None:
        self.disk = (self.purse.allowance, self.fetched)

    def lose_power(self) -> None:
        allowance, self.fetched = self.disk
        self.purse = Purse(allowance)

    def step(self) -> Wish | None:
        while self.fetched < min(self.work, self.purse.total):
            self.fetched += 1
        if self.fetched < self.work:
            return self.purse.wish(self.work - self.fetched + HOPED)  # what is pending may turn out to be no page
        if self.purse.give_back(self.fetched):
            self.sync()
        return self.purse.wish(0)


class World:
    """Nodes and a bank, with what was sent and not received. The carrier loses entries, and reads old ones again, each
    stream in its order."""

    def __init__(self, limit: int, works: list[int], chance: random.Random) -> None:
        self.limit = limit
        self.nodes = [Node(number, work) for number, work in enumerate(works)]
        self.bank = Bank(limit, len(works), {})
        self.bank_disk: dict[int, Allowance] = {}
        self.to_bank: list[tuple[int, Wish]] = []
        self.to_node: list[list[Grant]] = [[] for _ in works]
        self.read_bank, self.read_node = 0, [0] * len(works)
        self.chance = chance

    def check(self) -> None:
        assert sum(max(node.fetched, node.purse.total) for node in self.nodes) <= self.limit
        held = self.bank.allowances
        assert all(node.purse.total <= held.get(node.number, Allowance()).total for node in self.nodes)

    def node_step(self, node: Node, *, lossy: bool) -> None:
        wish = node.step()
        if wish is not None and not (lossy and self.chance.random() < 0.5):
            self.to_bank.append((node.number, wish))

    def bank_step(self, *, lossy: bool) -> None:
        while self.read_bank < len(self.to_bank):
            sender, wish = self.to_bank[self.read_bank]
            self.read_bank += 1
            grant, changed = self.bank.hear(sender, wish)
            if changed:
                self.bank_disk = dict(self.bank.allowances)
            if not (lossy and self.chance.random() < 0.5):
                self.to_node[sender].append(grant)

    def deliver(self, node: Node) -> None:
        inbox = self.to_node[node.number]
        while self.read_node[node.number] < len(inbox):
            node.purse.hear(inbox[self.read_node[node.number]])
            self.read_node[node.number] += 1

    def trouble(self) -> None:
        node = self.chance.choice(self.nodes)
        kind = self.chance.randrange(4)
        if kind == 0:
            node.lose_power()
            self.read_node[node.number] = self.chance.randint(0, self.read_node[node.number])
        elif kind == 1:
            self.bank = Bank(self.limit, len(self.nodes), self.bank_disk)
            self.read_bank = self.chance.randint(0, self.read_bank)
        elif kind == 2:  # the carrier loses everything
            self.to_bank.clear()
            self.read_bank = 0
            self.to_node = [[] for _ in self.nodes]
            self.read_node = [0] * len(self.nodes)
        else:
            node.sync()


@given(
    st.integers(0, 60),
    st.lists(st.integers(0, 30), min_size=1, max_size=5),
    st.integers(0, 2**32),
    st.integers(0, 200),
)
@settings(max_examples=300, deadline=None)
def test_the_limit_holds_through_losses_and_is_reached_if_there_is_work(
    limit: int, works: list[int], seed: int, troubles: int
) -> None:
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


def test_a_limit_that_was_lowered_grants_nothing_and_one_that_was_raised_goes_on() -> None:
    granted = {0: Allowance(1, 8), 1: Allowance(3, 5)}
    for limit, total, left in ((10, 5, False), (1_000, 9, True)):
        bank = Bank(limit, 2, granted)
        assert bank.hear(1, Wish(Allowance(3, 5), 4)) == (Grant(Allowance(3, 5), left), False), "0 was not heard"
        assert bank.unheard == [0]
        bank.hear(0, Wish(Allowance(1, 8)))
        assert bank.granting == ([1] if left else [])
        grant, changed = bank.hear_again(1)
        assert (grant.gives.total, grant.left, changed) == (total, left, left)


def test_pages_of_a_run_without_a_limit_count() -> None:
    """Whatever the bank granted before, and whether the partition heard of it."""
    for heard in (False, True):
        bank, purse = Bank(30, 1, {}), Purse(Allowance())
        grant, _ = bank.hear(0, purse.wish(4))
        if heard:
            purse.hear(grant)
        assert purse.begin(20)
        assert not purse.begin(20)
        assert bank.hear(0, purse.wish(0))[0].gives.total == 20
        assert bank.left == 10


def test_what_was_given_back_is_granted_to_others() -> None:
    bank, idle, busy = Bank(6, 1, {}), Purse(Allowance()), Purse(Allowance())
    bank.hear(0, idle.wish(0))
    idle.hear(bank.hear(0, idle.wish(3))[0])
    assert idle.total == 3
    while not busy.bank_is_empty:
        busy.hear(bank.hear(1, busy.wish(9))[0])
    assert busy.total == 3
    assert idle.give_back(1)
    grant, _ = bank.hear(0, idle.wish(0))
    assert not idle.hear(grant)
    for _ in range(3):
        busy.hear(bank.hear(1, busy.wish(9))[0])
    assert busy.total == 5
    assert idle.total == 1


def test_nothing_is_given_back_while_an_answer_may_be_on_its_way() -> None:
    purse = Purse(Allowance(1, 4))
    wish = purse.wish(2)
    assert not purse.give_back(1)
    bank = Bank(10, 1, {0: Allowance(1, 4)})
    purse.hear(bank.hear(0, wish)[0])
    assert purse.give_back(1)
    assert purse.allowance == Allowance(3, 1)
