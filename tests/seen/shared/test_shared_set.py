"""One behaviour suite for shared sets in memory, on a server and on a cluster of three."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingTCPServer

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawler.base.carrier.engine_address import Login, RedisAddress, Server
from crawler.base.carrier.redis_servers import RedisServers, slot_of
from crawler.seen.filters import DIGEST_BYTES
from crawler.seen.shared.open_set import Producer, connect, find_set
from crawler.seen.shared.pieces import (
    BLOCK,
    RECORD,
    SetParameters,
    digests_of,
    divide,
    geometry_of,
    part_of,
    shards_for,
    unpack_all,
)
from crawler.seen.shared.redis_bloom import ModuleSet
from crawler.seen.shared.redis_shards import PatientServers
from crawler.seen.shared.set_address import parse_set, read_secret
from crawler.seen.shared.set_figures import statistics
from crawler.seen.shared.shard import put
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
from tests.base.carrier.redis_server import SLOTS, RedisServer, redis_cluster, redis_server
from tests.examples import TIMES
from tests.seen.shared.kits import HASH, Kit, MemoryKit, RedisKit, module_path, parameters

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
@given(whole=st.integers(1, 10_000), power=st.integers(0, 10))
def test_the_parts_of_a_slice_cover_it_and_overlap_in_one_block_at_most(whole: int, power: int) -> None:
    parts = [part_of(whole, shard, 2**power) for shard in range(2**power)]
    assert parts[0][0] == 0
    assert sum(parts[-1]) == whole
    for (first, blocks), (after, _) in pairwise(parts):
        assert blocks >= 1
        assert after in (first + blocks, first + blocks - 1)


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


def test_a_set_has_shards_whose_strings_are_small() -> None:
    assert [shards_for(capacity) for capacity in (1, 2**18, 2**20, 10**7, 10**9)] == [16, 16, 64, 1024, 4096]
    for capacity in (2**20, 10**7):
        made = SetParameters(0.001, capacity, 2.0, 0.85, shards_for(capacity))
        assert 20_000 < geometry_of(made, 0, 0).size < 100_000


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
    with pytest.raises(SharedSetError, match="another session of this producer"):
        first.add_many(keys(50, 100))
    with pytest.raises(SharedSetError, match="another session of this producer"):
        first.add_many(keys(50, 100))
    assert statistics(second) == before
    second.end()  # an answer that was lost
    third = kit.producer(made, "one")
    assert third.claims == 0
    assert third.add_many(keys(150)) == list(range(100, 150))


def test_of_a_producer_without_a_name_nothing_is_kept(tmp_path: Path) -> None:
    with redis_server(tmp_path) as server:
        kit = RedisKit([server])
        for name in (None, "one"):
            seen = kit.producer(parameters(), name)
            seen.add_many(keys(20))
            seen.end()
        states = [key for key in server.say("KEYS", "*") if key.endswith(b":state")]
        kept = {field for key in states for field in server.say("HKEYS", key) if field[:2] in (b"r:", b"p:", b"c:")}
        assert kept == {b"r:one"}
        assert {server.say("HSTRLEN", key, "r:one") for key in states} == {24}
        kit.close()


def test_watched_keys_are_thinned_out_alike(kits: Callable[[str], Kit]) -> None:
    made = SetParameters(0.05, 60_000, 2.0, 0.85, 1024)  # 64 keys a shard are watched
    digests = HASH.digest_keys(keys(120_000))
    in_shard = next(part for part in divide(digests, made.shards) if part.shard == 7)
    own = digests_of(in_shard.records)
    memory, server = kits("memory").producer(made), kits("server").producer(made)
    for seen in (memory, server):
        seen.add_digests(own)
    measured = [statistics(seen)["fpp_measured"] for seen in (memory, server)]
    assert measured[0] == measured[1]
    assert 16 <= measured[0]["sample"] <= 64 < len(own) // DIGEST_BYTES


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
    with pytest.raises(SharedSetError, match="another session of this producer"):
        dead.add_many(keys(10, 500))
    assert not any(stranger.contains_many(keys(10, 500)))


def test_a_nameless_producer_leaves_nothing(kit: Kit) -> None:
    made = parameters(SURE)
    kit.producer(made).add_many(keys(10))
    assert kit.producer(made).claims == 0


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


def test_a_shard_that_is_gone_is_an_error_and_not_an_empty_one(server: RedisServer) -> None:
    kit = RedisKit([server])
    made = parameters()
    seen = kit.producer(made)
    seen.add_many(keys(100))
    server.say("DEL", f"crawler:seen:{{{kit.address.name}:2}}:slice:1")
    for call in (lambda: seen.add_many(keys(100)), lambda: kit.producer(made).contains_many(keys(100))):
        with pytest.raises(SharedSetError, match="shard 2 of the set is gone, or a part of it"):
            call()
    kit.close()


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

    assert "made with another secret" in told()
    stored = server.say("GET", key)
    server.say("SET", key, stored.replace(b'"version": 1', b'"version": 2'))
    assert "by another version of this program (format 2; this one knows 1)" in told()
    server.say("SET", key, b'{"format": "something"}')
    assert "not a seen-set of this program" in told()
    for damage in (b'"capacity": 0', b'"capacity": "x"'):
        server.say("SET", key, stored.replace(b'"capacity": 1000', damage))
        assert "its head is damaged" in told()
    server.say("SET", key, stored.replace(b'"ready"', b'"done"'))
    assert "its head is damaged" in told()
    server.say("SET", key, b"[" * 100_000)
    assert "not a seen-set of this program" in told()
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
    with pytest.raises(SharedSetRefusedError, match="somebody changed its head"):
        kit.producer(parameters())
    kit.close()


def test_a_set_that_lost_its_head_is_not_begun_again_over_its_rest(server: RedisServer) -> None:
    kit = RedisKit([server])
    kit.producer(parameters()).add_many(keys(10))
    server.say("DEL", f"crawler:seen:{{{kit.address.name}}}:set")
    for _ in range(2):
        with pytest.raises(SharedSetError, match=r"lost its head.*delete the rest of that set, or choose another name"):
            kit.producer(parameters())
    kit.close()


@pytest.mark.parametrize(
    "damage",
    [
        ("HDEL", "slices"),
        ("HSET", "slices", "12345"),
        ("HDEL", "n:1"),
        ("HSET", "n:1", "some"),
        ("HDEL", "most", "watched"),
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
    with pytest.raises(SharedSetError, match="shard 2 of the set is gone, or a part of it"):
        seen.add_many(keys(200))
    assert server.say("GET", f"crawler:seen:{{{kit.address.name}:2}}:slice:1") == held
    if rest[0] != "r:somebody":
        with pytest.raises(SharedSetError, match="shard 2 of the set is gone, or a part of it"):
            statistics(seen)
    kit.close()


def test_a_set_that_was_made_again_is_not_mistaken_for_the_old_one(server: RedisServer) -> None:
    kit = RedisKit([server])
    seen = kit.producer(parameters())
    server.say("FLUSHALL")
    kit.producer(parameters())
    with pytest.raises(SharedSetError, match="another set of that name"):
        seen.add_many(keys(10))
    kit.close()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("redis://127.0.0.1:1", "names no set"),
        ("redis://127.0.0.1:1/", "the set's name ''"),
        ("redis://127.0.0.1:1/a b", "the set's name 'a b'"),
        ("redis:///a", "names no set"),
        ("redis://u:secret@h/a", "holds a user or a password"),
        ("redis://h:0/a", "is not HOST:PORT"),
    ],
)
def test_addresses_that_are_refused(text: str, told: str) -> None:
    with pytest.raises(SharedSetRefusedError, match=told) as caught:
        parse_set(text)
    assert "secret" not in str(caught.value)


def test_addresses_and_secrets() -> None:
    assert str(parse_set("rediss://a:1,b/x.y-z")) == "rediss://a:1,b:6379/x.y-z"
    assert read_secret({}) is None
    found = read_secret({"CRAWLER_FILTER_SECRET": "00112233445566778899aabbccddeeff"})
    assert found == HASH
    with pytest.raises(SharedSetRefusedError, match="32 hexadecimal digits") as caught:
        read_secret({"CRAWLER_FILTER_SECRET": "not so secret"})
    assert "not so" not in str(caught.value)


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


def test_the_shards_of_a_set_are_on_all_servers(cluster: list[RedisServer]) -> None:
    kit = RedisKit(cluster)
    kit.producer(parameters(shards=64)).add_many(keys(500))
    prefix = f"crawler:seen:{{{kit.address.name}:"
    for server in cluster:
        assert any(key.startswith(prefix.encode()) for key in server.say("KEYS", "*"))
    assert {slot_of(f"{prefix}1}}:state"), slot_of(f"{prefix}1}}:slice:3")} <= set(range(SLOTS))
    kit.close()


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


def test_a_set_of_the_module_that_is_there_in_part_is_made_on_at_once() -> None:
    """Its maker died, or another one makes it now. A stand-in answers as the module does."""
    reserved: list[bytes] = []

    class Answers(StreamRequestHandler):
        def handle(self) -> None:
            while count := self.rfile.readline()[1:]:
                words = [self.rfile.read(int(self.rfile.readline()[1:]) + 2)[:-2] for _ in range(int(count))]
                self.wfile.write(self.answer(words))

        def answer(self, words: list[bytes]) -> bytes:
            match words[0]:
                case b"INFO":
                    return b"$19\r\nredis_version:7.4.0\r\n"
                case b"BF.RESERVE":
                    reserved.append(words[1])
                    return b"-ERR item exists\r\n"
                case b"CLIENT":
                    return b"+OK\r\n"
                case _:
                    return b"-ERR This instance has cluster support disabled\r\n"

    with ThreadingTCPServer(("127.0.0.1", 0), Answers) as stand_in:
        threading.Thread(target=stand_in.serve_forever, daemon=True).start()
        address = RedisAddress((Server(*stand_in.server_address),), False)
        servers = PatientServers(RedisServers(address, Login(None, None)), patience=0.2)
        ModuleSet(servers, "set", parameters(shards=4), HASH).make()
        servers.close()
        stand_in.shutdown()
    assert reserved == [b"crawler:seen:{set:%d}:module" % shard for shard in range(4)]


def test_a_server_without_the_module_is_refused(server: RedisServer) -> None:
    kit = RedisKit([server])
    with pytest.raises(SharedSetRefusedError, match="neither RedisBloom nor valkey-bloom"):
        kit.open(parameters(), module=True)
    kit.close()
