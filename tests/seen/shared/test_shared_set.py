"""One behaviour suite for shared sets in memory, on a server and on a cluster of three."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawler.base.carrier.redis_servers import slot_of
from crawler.seen.filters import DIGEST_BYTES
from crawler.seen.shared.open_set import Producer, connect, find_set
from crawler.seen.shared.set_address import parse_set
from crawler.seen.shared.set_figures import statistics
from crawler.seen.shared.shard_geometry import (
    BLOCK,
    RECORD,
    digests_of,
    divide,
    geometry_of,
    unpack_all,
)
from crawler.seen.shared.shard_requests import (
    Add,
    Answer,
    Request,
    Shards,
    SharedSetError,
    SharedSetRefusedError,
    Status,
    Who,
)
from crawler.seen.shared.shared_set import SharedSet
from crawler.seen.shared.transfer import pull, push_bits
from crawler.seen.slices.blocked_slice import BlockedSlice
from crawler.seen.slices.digest_batch import Batch
from crawler.seen.slices.digests import digest_words
from tests.base.carrier.redis_server import RedisServer, redis_cluster, redis_server
from tests.examples import TIMES
from tests.seen.shared.kits import HASH, Kit, MemoryKit, RedisKit, module_path, parameters
from tests.seen.shared.shard import put

SURE = 1e-7  # an fpp at which no key of these tests is mistaken
KITS = ("memory", "server", "cluster")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with redis_server(tmp_path_factory.mktemp("server")) as made:
        yield made


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[RedisServer]]:
    with redis_cluster(tmp_path_factory.mktemp("cluster")) as made:
        yield made


@pytest.fixture
def kits(request: pytest.FixtureRequest) -> Iterator[Callable[[str], Kit]]:
    with ExitStack() as stack:

        def make(name: str) -> Kit:
            kit: Kit
            if name == "memory":
                kit = MemoryKit()
            elif name == "server":
                kit = RedisKit([request.getfixturevalue("server")])
            else:
                kit = RedisKit(request.getfixturevalue("cluster"))
            stack.callback(kit.close)
            return kit

        yield make


@pytest.fixture(params=KITS)
def kit(request: pytest.FixtureRequest, kits: Callable[[str], Kit]) -> Kit:
    return kits(request.param)


def keys(count: int, start: int = 0) -> list[str]:
    return [f"key {number}" for number in range(start, start + count)]


# -- the layout --------------------------------------------------------------------------------------------------


@settings(max_examples=20 * TIMES)
@given(count=st.integers(1, 300), power=st.integers(0, 8), number=st.integers(0, 4))
def test_the_parts_together_have_the_bits_of_a_local_slice(count: int, power: int, number: int) -> None:
    made = parameters(capacity=5000, shards=2**power)
    fpp = made.fpp * (1 - made.tightening) * made.tightening**number
    local = BlockedSlice.sized(int(made.capacity * made.growth**number), fpp, blocks=1)
    digests = HASH.digest_keys(keys(count))
    local.put(Batch(digest_words(digests)))
    whole = bytearray(local.words.nbytes)
    for part in divide(digests, made.shards):
        geometry = geometry_of(made, number, part.shard)
        assert unpack_all(geometry.pack()) == [geometry]
        assert (geometry.whole, geometry.fpp) == (local.blocks_per_region, fpp)
        assert digests_of(part.records) == b"".join(
            digests[at * DIGEST_BYTES : (at + 1) * DIGEST_BYTES] for at in part.positions.tolist()
        )
        memory = bytearray(geometry.size)
        for at in range(0, len(part.records), RECORD):
            put(geometry, memory, part.records[at : at + RECORD])
        for at, byte in enumerate(memory, geometry.first * BLOCK):
            whole[at] |= byte
    assert bytes(whole) == local.words.tobytes()


# -- what every set does -----------------------------------------------------------------------------------------


def test_new_is_new_once_among_three_producers(kit: Kit) -> None:
    made, chance = parameters(SURE, capacity=200), random.Random(1)
    producers = [kit.producer(made) for _ in range(3)]
    new: Counter[str] = Counter()
    asked: set[str] = set()
    for _ in range(40):
        producer = chance.choice(producers)
        batch = [f"key {chance.randrange(3000)}" for _ in range(chance.randrange(1, 200))]
        found = producer.add_many(batch)
        assert found == sorted(found)
        new.update(batch[at] for at in found)
        asked.update(batch)
    assert new == dict.fromkeys(asked, 1)
    for producer in producers:
        assert all(producer.contains_many(sorted(asked)))
        assert not any(producer.contains_many(keys(500, 10_000)))
        assert not producer.lost
        producer.end()
    now = statistics(producers[0])
    assert now["count"] == len(asked)
    assert len(now["slices"]) > 2
    assert now["count_estimated"] == pytest.approx(len(asked), rel=0.05)


def test_it_is_wrong_as_rarely_as_asked_and_says_how_often(kit: Kit) -> None:
    made = parameters(0.02, capacity=2000, shards=16)
    seen = kit.producer(made)
    some = keys(12_000)
    new = sum(len(seen.add_many(some[at : at + 1000])) for at in range(0, len(some), 1000))
    assert all(seen.contains_many(some))
    wrong = sum(seen.contains_many(keys(10_000, 10**6))) / 10_000
    now = statistics(seen)
    assert wrong < made.fpp
    assert now["fpp_estimated"] == pytest.approx(wrong, rel=0.35)
    assert now["count"] == new
    assert len(some) - new == pytest.approx(now["expected_urls_skipped"], rel=0.5, abs=8)
    measured = now["fpp_measured"]
    assert measured["low"] < (len(some) - new) / len(some) < measured["high"]
    assert measured["sample"] == len(some)
    assert all(part["fill"] < 0.6 for part in now["slices"])


def test_all_kits_answer_the_same_and_hold_the_same(kits: Callable[[str], Kit]) -> None:
    """The scripts do what the reference in Python does, up to the bit: with false positives and watched keys."""
    chance = random.Random(2)
    made = parameters(0.2, 300, 4)
    seen = {name: kits(name).producer(made, "one") for name in KITS}
    for _ in range(12):
        batch = HASH.digest_keys([f"key {chance.randrange(20_000)}" for _ in range(chance.randrange(1, 800))])
        probe = HASH.digest_keys(keys(200, chance.randrange(10_000)))
        answers = [(each.add_digests(batch), each.contains_digests(probe)) for each in seen.values()]
        assert answers[1:] == answers[:-1]
    figures = [statistics(each) for each in seen.values()]
    assert figures[1:] == figures[:-1]
    assert figures[0]["fpp_measured"]["value"] > 0
    stored = [[bytes(part.buffer) for part in pull(each).snapshot().segments] for each in seen.values()]
    assert stored[1:] == stored[:-1]


def test_a_producer_whose_name_another_one_had_and_gave_up_is_refused(kit: Kit) -> None:
    made = parameters(SURE)
    first = kit.producer(made, "one")
    assert len(first.add_many(keys(50))) == 50
    second = kit.producer(made, "one")  # while the first lives
    assert second.add_many(keys(100)) == list(range(100)), "what the first may not have passed on is passed on"
    second.end()
    before = statistics(second)
    with pytest.raises(SharedSetError):
        first.add_many(keys(50, 100))
    with pytest.raises(SharedSetError):
        first.add_many(keys(50, 100))
    assert statistics(second) == before
    second.end()  # an answer that was lost
    third = kit.producer(made, "one")
    assert third.claims == 0
    assert third.add_many(keys(150)) == list(range(100, 150))


def test_an_answer_that_was_lost_is_given_again(kit: Kit) -> None:
    """Each request is sent twice, and the answer to the first copy is thrown away."""
    made = parameters(SURE, capacity=300)
    first, other = kit.producer(made), kit.producer(made)
    first.shards = _Twice(first.shards)
    new = [first.add_many(keys(400)), other.add_many(keys(600)), first.add_many(keys(800))]
    assert new == [list(range(400)), list(range(400, 600)), list(range(600, 800))]
    assert not first.lost
    assert statistics(other)["count"] == 800


def test_a_request_that_arrives_late_changes_nothing(kit: Kit) -> None:
    made = parameters(SURE)
    seen, other = kit.producer(made, "one"), kit.producer(made)
    kept = seen.shards = _Noting(seen.shards)
    seen.add_many(keys(50))
    late = [request for request in kept.requests if isinstance(request, Add)]
    seen.add_many(keys(50, 50))
    before = statistics(other)
    assert {answer.status for answer in seen.shards.ask(late)} == {Status.REPLACED}
    assert statistics(other) == before


def test_a_producer_that_dies_leaves_what_it_was_told_last_to_its_next_session(kit: Kit) -> None:
    made = parameters(SURE, capacity=300)
    dead = kit.producer(made, "one")
    assert len(dead.add_many(keys(100))) == 100
    assert len(dead.add_many(keys(100, 100))) == 100
    stranger = kit.producer(made, "two")
    assert stranger.add_many(keys(200)) == []
    again = kit.producer(made, "one")
    assert again.claims == 100
    once_more = kit.producer(made, "one")  # the second session dies before it adds anything
    assert once_more.add_many(keys(300)) == list(range(100, 300))
    assert once_more.add_many(keys(300)) == []
    once_more.end()
    assert kit.producer(made, "one").claims == 0
    with pytest.raises(SharedSetError):
        dead.add_many(keys(10, 500))
    assert not any(stranger.contains_many(keys(10, 500)))


def test_from_a_set_to_a_local_filter_and_back(kit: Kit, kits: Callable[[str], Kit]) -> None:
    made = parameters(0.01, capacity=500, shards=8)
    seen = kit.producer(made)
    for at in range(0, 6000, 500):
        seen.add_many(keys(500, at))
    local = pull(seen)
    probe = keys(8000)
    # A block on the border of two shards has the bits of both here, so that a few more keys are mistaken.
    here, there = local.contains_many(probe), seen.contains_many(probe)
    assert all(own or not other for own, other in zip(here, there, strict=True))
    assert all(here[:6000])
    assert here.count(True) - there.count(True) < 10
    assert len(local) == statistics(seen)["count"]
    assert statistics(seen)["fpp_estimated"] <= local.statistics()["fpp_estimated"] <= made.fpp
    back = SharedSet(MemoryKit().shards, made, Who(b"x", b"one", b"12345678", False), HASH)
    push_bits(local, back)
    assert back.contains_many(probe) == here
    assert statistics(back)["count"] == len(local)
    assert statistics(back)["fpp_measured"] is None
    assert bytes(pull(back).snapshot().segments[0].buffer) == bytes(local.snapshot().segments[0].buffer)
    added = back.add_many(keys(1000, 6000))
    assert [keys(1000, 6000)[at] for at in added] == [
        key for key, known in zip(keys(1000, 6000), local.contains_many(keys(1000, 6000)), strict=True) if not known
    ]


class _Twice:
    """Sends all requests twice."""

    def __init__(self, shards: Shards) -> None:
        self._shards = shards

    def ask(self, requests: Sequence[Request]) -> list[Answer]:
        self._shards.ask(requests)
        return self._shards.ask(requests)

    def close(self) -> None:
        self._shards.close()


class _Noting:
    """Notes the requests."""

    def __init__(self, shards: Shards) -> None:
        self._shards = shards
        self.requests: list[Request] = []

    def ask(self, requests: Sequence[Request]) -> list[Answer]:
        self.requests += requests
        return self._shards.ask(requests)

    def close(self) -> None:
        self._shards.close()


# -- servers -----------------------------------------------------------------------------------------------------


def test_a_set_of_other_producers_is_refused(server: RedisServer) -> None:
    kit = RedisKit([server])
    kit.producer(parameters())
    stranger = Producer(HASH.from_json({"algorithm": "blake2b", "secret": "ff" * 16}))
    key = f"crawler:seen:{{{kit.address.name}}}:set"

    def told() -> str:
        servers = connect(kit.address, {})
        try:
            with pytest.raises(SharedSetRefusedError) as caught:
                find_set(kit.address, stranger, servers)
        finally:
            servers.close()
        assert "\n" not in str(caught.value)
        return str(caught.value)

    told()
    stored = server.say("GET", key)
    server.say("SET", key, stored.replace(b'"version": 1', b'"version": 2'))
    assert "format 2" in told()
    server.say("SET", key, b'{"format": "something"}')
    told()
    for damage in (b'"capacity": 0', b'"capacity": "x"'):
        server.say("SET", key, stored.replace(b'"capacity": 1000', damage))
        told()
    server.say("SET", key, stored.replace(b'"ready"', b'"done"'))
    told()
    server.say("SET", key, b"[" * 100_000)
    told()
    kit.close()


@pytest.mark.parametrize(
    ("was", "now"),
    [
        (b'"shards": 4', b'"shards": 8'),  # its producers would look for their keys elsewhere, and call them new
        (b'"fpp": 0.01', b'"fpp": 0.02'),
        (b'"keys": null', b'"keys": [1]'),
        (b'"strings"', b'"disk"'),
        (b'"id": "', b'"id": "0'),
    ],
)
def test_a_head_that_somebody_changed_is_refused(server: RedisServer, was: bytes, now: bytes) -> None:
    kit = RedisKit([server])
    kit.producer(parameters())
    key = f"crawler:seen:{{{kit.address.name}}}:set"
    stored = server.say("GET", key)
    assert was in stored
    server.say("SET", key, stored.replace(was, now))
    with pytest.raises(SharedSetRefusedError):
        kit.producer(parameters())
    kit.close()


def test_a_set_that_lost_its_head_is_not_begun_again_over_its_rest(server: RedisServer) -> None:
    kit = RedisKit([server])
    kit.producer(parameters()).add_many(keys(10))
    server.say("DEL", f"crawler:seen:{{{kit.address.name}}}:set")
    for _ in range(2):
        with pytest.raises(SharedSetError):
            kit.producer(parameters())
    kit.close()


@pytest.mark.parametrize(
    "damage",
    [
        ("HDEL", "slices"),
        ("HSET", "n:1", "some"),
        ("HSET", "r:somebody", "abc"),
    ],
    ids=" ".join,
)
def test_a_state_that_is_damaged_is_an_error_in_words(server: RedisServer, damage: tuple[str, ...]) -> None:
    kit = RedisKit([server])
    seen = kit.producer(parameters(), "somebody")
    seen.add_many(keys(100))
    held = server.say("GET", f"crawler:seen:{{{kit.address.name}:2}}:slice:1")
    how, *rest = damage
    server.say(how, f"crawler:seen:{{{kit.address.name}:2}}:state", *rest)
    with pytest.raises(SharedSetError, match="shard 2"):
        seen.add_many(keys(200))
    assert server.say("GET", f"crawler:seen:{{{kit.address.name}:2}}:slice:1") == held
    if rest[0] != "r:somebody":
        with pytest.raises(SharedSetError, match="shard 2"):
            statistics(seen)
    kit.close()


@pytest.mark.parametrize(
    "text",
    ["redis://127.0.0.1:1", "redis://127.0.0.1:1/", "redis://127.0.0.1:1/a b", "redis://u:secret@h/a", "redis://h:0/a"],
)
def test_addresses_that_are_refused(text: str) -> None:
    with pytest.raises(SharedSetRefusedError) as caught:
        parse_set(text)
    assert "secret" not in str(caught.value)


def test_a_live_reshard_loses_nothing(cluster: list[RedisServer]) -> None:
    """Every shard moves to another server, key by key, while two producers add."""
    kit = RedisKit(cluster)
    made = parameters(SURE, capacity=400, shards=4)
    moved = threading.Event()
    new: list[Counter[str]] = [Counter(), Counter()]
    asked: list[set[str]] = [set(), set()]

    def produce(number: int) -> None:
        seen, chance = kit.producer(made), random.Random(number)
        rounds = 0
        while not moved.is_set() or rounds < 20:
            batch = [f"key {chance.randrange(6000)}" for _ in range(60)]
            new[number].update(batch[at] for at in seen.add_many(batch))
            asked[number].update(batch)
            rounds += 1
            time.sleep(0.002)
        assert not seen.lost

    kit.producer(made)
    threads = [threading.Thread(target=produce, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    slots = [slot_of(f"crawler:seen:{{{kit.address.name}:{shard}}}:state") for shard in range(made.shards)]
    for slot in slots:
        _move(cluster, slot)
    moved.set()
    for thread in threads:
        thread.join()
    seen = kit.producer(made)
    assert new[0] + new[1] == dict.fromkeys(asked[0] | asked[1], 1)
    assert all(seen.contains_many(sorted(asked[0] | asked[1])))
    for slot in slots:
        _move(cluster, slot, times=2)  # where it was, for other tests
    kit.close()


def _move(cluster: list[RedisServer], slot: int, times: int = 1) -> None:
    """To the next server, one key after the other, with some time for traffic in between."""
    for _ in range(times):
        source = next(server for server in cluster if _owns(server, slot))
        target = cluster[(cluster.index(source) + 1) % 3]
        ids = {server.port: server.say("CLUSTER", "MYID") for server in cluster}
        target.say("CLUSTER", "SETSLOT", slot, "IMPORTING", ids[source.port])
        source.say("CLUSTER", "SETSLOT", slot, "MIGRATING", ids[target.port])
        while found := source.say("CLUSTER", "GETKEYSINSLOT", slot, 1):
            time.sleep(0.02)
            source.say("MIGRATE", "127.0.0.1", target.port, found[0], 0, 5_000)
        for server in (target, source, *cluster):
            server.say("CLUSTER", "SETSLOT", slot, "NODE", ids[target.port])


def _owns(server: RedisServer, slot: int) -> bool:
    """By what it says of itself."""
    mine = server.say("CLUSTER", "MYID")
    return any(begin <= slot <= end and first[2] == mine for begin, end, first, *_ in server.say("CLUSTER", "SLOTS"))


def test_a_module_keeps_a_set(tmp_path_factory: pytest.TempPathFactory) -> None:
    path = module_path()
    with redis_server(tmp_path_factory.mktemp("module"), f"loadmodule {path}") as server:
        kit = RedisKit([server])
        made = parameters(0.001, capacity=500, shards=4)
        one, other = (kit.open(made, module=True).seen for _ in range(2))
        assert len(one.add_many(keys(3000))) > 2980
        assert other.add_many(keys(3000)) == []
        assert all(other.contains_many(keys(3000)))
        assert sum(other.contains_many(keys(3000, 10_000))) < 12
        assert other.statistics()["count"] > 2980  # type: ignore[union-attr]
        kit.close()


def test_a_server_without_the_module_is_refused(server: RedisServer) -> None:
    kit = RedisKit([server])
    with pytest.raises(SharedSetRefusedError):
        kit.open(parameters(), module=True)
    kit.close()
