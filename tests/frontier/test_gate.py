"""Whole crawls on a virtual clock, held to rules that the world keeps by itself: nobody hurt, nobody forgotten, no slot
idle, whatever servers, clocks and dying processes do."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawler.base.settings.parts import BudgetSettings, PolitenessSettings
from crawler.frontier.host_status import HostState
from crawler.frontier.limits import MemoryLimits
from tests.examples import TIMES
from tests.frontier.hosts import in_memory
from tests.frontier.world import START, Protocol, Temper, World, jain

PLAIN = {Temper.PLAIN: 1.0}


def held_to_the_rules(world: World, protocol: Protocol) -> None:
    assert (protocol.early, protocol.overlaps, protocol.idle, protocol.slow_over) == (0, 0, 0, 0)
    assert not protocol.stalled
    assert world.frontier.queued == world.frontier.leased == 0
    wanted = {f"http://{server.name}/{page}" for server in world.servers for page in range(server.pages)}
    assert protocol.finished == dict.fromkeys(wanted, 1), "every URL ends once"


def test_a_web_of_all_tempers_nobody_is_hurt_and_hosts_have_equal_turns() -> None:
    world = World(7, 100, 70, slots=12, sessions=False)
    world.seed(20)
    protocol = world.run(requests=3_000)
    plain = [server for server in world.servers if server.temper is Temper.PLAIN]
    assert protocol.saturated_until > world.now - 1.0, "hosts waited for slots all the time"
    assert jain([server.taken for server in plain]) >= 0.95
    assert jain([server.taken / server.stood_ready for server in plain]) >= 0.95
    held_to_the_rules(world, world.run())
    assert {server.temper for server in world.servers} == set(Temper), "each was there"
    assert protocol.throttled
    assert protocol.retried
    assert protocol.retired == {f"{s.name}:80" for s in world.servers if s.temper is Temper.DYING}


@pytest.mark.parametrize("per_host", [3])
def test_without_robots_txt_dead_hosts_are_retired_and_their_urls_reported(per_host: int) -> None:
    politeness = PolitenessSettings(delay=0.5, per_host=per_host)
    world = World(8, 60, 60, slots=12, robots=False, politeness=politeness)
    world.seed(60)
    protocol = world.run()
    held_to_the_rules(world, protocol)
    gone = {f"{s.name}:80" for s in world.servers if s.temper in (Temper.DEAD, Temper.DYING)}
    assert protocol.retired == gone
    for server in world.servers:
        if server.temper is Temper.DEAD:
            row = world.frontier.describe(f"{server.name}:80", world.now)
            assert row is not None
            assert (row.state.value, row.failed, row.fetched, row.pending) == ("retired", 60, 0, 0)
            # 5 failures, 3 snoozes and the last try, not 60 times 4 of them.
            assert row.errors["timeout" if "timeout" in row.errors else "refused"] <= 9 * per_host


@given(seed=st.integers(0, 2**32), per_host=st.integers(1, 2), delay=st.sampled_from([0.0, 1.0]), robots=st.booleans())
@settings(max_examples=6 * TIMES)
def test_hosts_at_one_address_share_its_gap(seed: int, per_host: int, delay: float, robots: bool) -> None:
    politeness = PolitenessSettings(host_key="address", per_host=per_host, delay=delay)
    world = World(seed, 14, 8, slots=6, politeness=politeness, robots=robots)
    world.seed(4)
    held_to_the_rules(world, world.run())


@given(
    seed=st.integers(0, 2**32),
    key=st.sampled_from(["host", "ports", "domain", "address"]),
    stops=st.lists(
        st.tuples(st.integers(1, 400), st.sampled_from([0.0, 3_600.0, -3_600.0, -1e6])), min_size=1, max_size=3
    ),
    told=st.booleans(),
)
@settings(max_examples=10 * TIMES)
def test_dying_and_clocks_that_jump_make_no_burst_and_no_stall(
    seed: int, key: str, stops: list[tuple[int, float]], told: bool
) -> None:
    tempers = {**dict.fromkeys(Temper, 1.0), Temper.SLOW: 0.0, Temper.PLAIN: 4.0}
    if key != "host" and not told:  # of a key that several share the world does not know which host's gap to shorten to
        stops = [(requests, min(offset, 0.0)) for requests, offset in stops]
    politeness = PolitenessSettings(host_key="host" if key == "ports" else key)
    name = "h{1}.test:1{0}" if key == "ports" else "h{0}.shared{1}.test"
    world = World(seed, 14, 20, slots=6, politeness=politeness, tempers=tempers, name=name)
    world.seed(20)
    for requests, offset in stops:
        world.run(requests=world.protocol.requests + requests)
        world.lose_everything(offset, told=told)
    protocol = world.run()
    held_to_the_rules(world, protocol)
    # The longest that anything may be held is an hour; no jump makes it a day.
    assert protocol.seconds < 24 * 3_600


def test_dead_hosts_do_not_take_the_slots_of_others() -> None:
    def pages_in_two_minutes(share: float, dead: float) -> int:
        politeness = PolitenessSettings(delay=0.0, backoff_first=0.001, patience="endless")
        tempers = {Temper.PLAIN: 1 - dead, Temper.DEAD: dead}
        world = World(5, 60, 10_000, slots=8, politeness=politeness, robots=False, tempers=tempers, share=share)
        world.seed(50)
        protocol = world.run(until=START + 120)
        assert protocol.slow_over == 0
        return protocol.outcomes["fetched"]

    alone = pages_in_two_minutes(0.25, 0.0)
    assert pages_in_two_minutes(0.25, 0.5) > 0.6 * alone, "a quarter of the slots, and the first look at each"
    assert pages_in_two_minutes(1.0, 0.5) < 0.5 * alone, "what it would be without the bound"


def test_one_slow_host_with_many_slots_leaves_the_others_theirs() -> None:
    politeness = PolitenessSettings(delay=0.0, per_host=16)
    world = World(5, 2, 10_000, slots=16, politeness=politeness, robots=False, tempers=PLAIN)
    slow, quick = world.servers
    slow.latency, quick.latency = 20.0, 0.5
    world.seed(500)
    world.run(until=START + 200)
    # For the first twenty seconds nobody knows which of the two is slow.
    assert quick.taken + slow.taken > 0
    row = world.frontier.describe("h1.test:80", world.now)
    assert row is not None
    assert row.fetched > 12 / 0.5 * 170 * 0.8
    assert world.frontier.describe("h0.test:80", world.now).in_flight <= 4  # type: ignore[union-attr]


def test_a_budget_survives_a_restart() -> None:
    world = World(2, 4, 20, robots=False, tempers=PLAIN, budget=BudgetSettings(host_pages=5))
    world.seed(20)
    for requests in (6, 12):
        world.run(requests=requests)
        world.lose_everything()
    held_to_the_rules(world, world.run())
    assert Counter(world.protocol.outcomes) == {"fetched": 20, "excluded": 60}


@pytest.mark.parametrize("restarts", [False, True])
def test_the_hosts_of_a_domain_have_a_budget_together(restarts: bool) -> None:
    budget = BudgetSettings(domain_pages=23)
    politeness, memory = PolitenessSettings(per_host=2), MemoryLimits(waiting=4, resting=1, idle=1)
    name = "h{0}.shared{1}.test"
    world = World(
        2, 15, 12, robots=False, tempers=PLAIN, budget=budget, politeness=politeness, name=name, memory=memory
    )
    world.seed(12)
    for requests in (20, 40) if restarts else ():
        world.run(requests=requests)
        world.lose_everything()
    protocol = world.run()
    held_to_the_rules(world, protocol)
    rows = [world.frontier.describe(server.host, world.now) for server in world.servers]
    for domain in range(3):
        own = [row for row in rows[5 * domain : 5 * domain + 5] if row is not None]
        assert sum(row.fetched for row in own) == 23
        assert {(row.state, row.rule) for row in own} == {(HostState.BLOCKED, "budget")}
        assert all(row.reason.startswith("domain_pages: ") for row in own)
        assert all(row.reason.endswith(f" have been used by hosts of shared{domain}.test") for row in own)
    assert protocol.outcomes["fetched"] + protocol.outcomes["excluded"] == 180


def test_a_host_that_is_resumed_by_hand_is_asked_after_its_gap() -> None:
    world = World(1, 1, 50, robots=False, tempers={Temper.DEAD: 1.0})
    world.seed(50)
    name = f"{world.servers[0].name}:80"
    for state in ("snoozed", "retired"):
        for second in range(3_600):
            world.run(until=START + second)
            row = world.frontier.describe(name, world.now)
            if row is not None and row.state.value == state:
                break
        else:
            raise AssertionError(f"an hour, and never {state}")
        batch = world.store.batch()
        assert world.frontier.overrides.resume(name, batch)
        world.store.write(batch)
        row = world.frontier.describe(name, world.now)
        assert row is not None
        assert (row.state.value, row.rule) in (("ready", "gap"), ("waiting", "gap"), ("idle", "gap"))
        assert row.wait_seconds <= 1.0
    assert not world.frontier.overrides.resume("unheard-of.test:80", world.store.batch())
    assert not world.frontier.overrides.resume("süß.test:80", world.store.batch())


@pytest.mark.parametrize(("key", "robots"), [("host", True), ("ports", False), ("domain", True), ("address", False)])
def test_hosts_that_are_put_away_while_they_wait_keep_their_place(key: str, robots: bool) -> None:
    memory = MemoryLimits(waiting=4, resting=1, idle=1, names=2)
    politeness = PolitenessSettings(host_key="host" if key == "ports" else key, per_host=2)
    name = "h{1}.test:1{0}" if key == "ports" else "h{0}.shared{1}.test"
    world = World(11, 24, 10, slots=8, politeness=politeness, robots=robots, name=name, memory=memory)
    world.seed(6)
    world.run(requests=100)
    world.lose_everything()
    held_to_the_rules(world, world.run())


@pytest.mark.parametrize("key", ["domain"])
def test_memory_does_not_grow_with_the_hosts_that_stand_in_a_line(key: str) -> None:
    memory = MemoryLimits(waiting=30, resting=5, idle=5, passed_over=10)  # there are up to 20 sessions
    politeness = PolitenessSettings(delay=0.1, host_key=key, patience="endless")
    tempers = {Temper.PLAIN: 0.5, Temper.SLOW: 0.5}
    name = "h{0}.shared.test" if key == "domain" else "h{0}.test"  # hosts of several domains would not meet in a line
    world = World(
        12, 300, 3, slots=20, politeness=politeness, robots=False, tempers=tempers, name=name, memory=memory, share=0.1
    )
    world.seed(3)
    longest = most = 0
    for _ in range(40):
        world.run(requests=world.protocol.requests + 20)
        rows = [world.frontier.describe(f"{server.name}:80", world.now) for server in world.servers]
        longest = max(longest, sum(row is not None and row.rule == "turn" for row in rows))
        most = max(most, in_memory(world.frontier, (f"{server.name}:80" for server in world.servers)))
    assert longest > 40, "the line was long"
    assert most <= 20 + 30 + 2 * 5 + 10, "what is leased, what may stay, and what the last step left to be put away"
    held_to_the_rules(world, world.run())
