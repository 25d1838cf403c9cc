"""What every carrier does alike. The eight verbs say it in ``crawler/base/carrier/verbs.py``."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from crawler.base.carrier.verbs import START, Carrier, Entry, StaleEpochError
from tests.base.carrier.kits import Kit, LocalKit, MemoryKit, RedisKit
from tests.base.carrier.redis_server import RedisServer, redis_cluster, redis_server

LONG = 30.0  # seconds: of a claim that must not run out, and of a wait that must not be needed


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with redis_server(tmp_path_factory.mktemp("redis")) as made:
        yield made


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[RedisServer]]:
    with redis_cluster(tmp_path_factory.mktemp("cluster")) as made:
        yield made


@pytest.fixture(params=["memory", "local", "redis", "cluster"])
async def kit(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Kit]:
    made: Kit
    if request.param == "memory":
        made = MemoryKit()
    elif request.param == "local":
        made = LocalKit(tmp_path)
        await made.start()
    elif request.param == "redis":
        made = RedisKit([request.getfixturevalue("server")])
    else:
        made = RedisKit(request.getfixturevalue("cluster"))
    yield made
    await made.close()


@pytest.fixture
async def carrier(kit: Kit) -> Carrier:
    return await kit.open()


async def all_of(carrier: Carrier, stream: str, after: str = START, most: int = 1_000) -> list[Entry]:
    return (await carrier.read({stream: after}, most, 0)).get(stream, [])


async def data_of(carrier: Carrier, stream: str, after: str = START) -> list[bytes]:
    return [entry.data for entry in await all_of(carrier, stream, after)]


async def until(happens: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(LONG):
        while not await happens():  # noqa: ASYNC110 - it happens in another process
            await asyncio.sleep(0.01)


class TestStreams:
    async def test_entries_keep_their_order_and_have_one_position(self, carrier: Carrier) -> None:
        first = await carrier.append("p1", "p2", 1, [b"a", b"b"])
        second = await carrier.append("p1", "p3", 7, [b"c"])
        entries = await all_of(carrier, "p1")
        assert [entry.data for entry in entries] == [b"a", b"b", b"c"]
        assert [entry.position for entry in entries[1:]] == [first, second]
        assert len({START, *(entry.position for entry in entries)}) == 4
        assert await carrier.last(["p1", "p2"]) == [second, START]

    async def test_reading_goes_on_after_any_entry(self, carrier: Carrier) -> None:
        await carrier.append("p1", "p2", 1, [b"%d" % number for number in range(10)])
        entries = await all_of(carrier, "p1")
        for number, entry in enumerate(entries):
            assert await all_of(carrier, "p1", entry.position) == entries[number + 1 :]
        assert await all_of(carrier, "p1", entries[2].position, most=3) == entries[3:6]

    async def test_one_read_is_of_many_streams_and_names_those_with_entries(self, carrier: Carrier) -> None:
        for number in range(4):
            await carrier.append(f"p{number}", "p9", 1, [b"%d" % number, b"x", b"y"])
        passed = await carrier.last(["p2"])
        found = await carrier.read({"p0": START, "p1": START, "p2": passed[0], "p8": START}, 2, 0)
        assert {name: [entry.data for entry in entries] for name, entries in found.items()} == {
            "p0": [b"0", b"x"],
            "p1": [b"1", b"x"],
        }

    async def test_entries_are_any_bytes_up_to_a_large_batch(self, carrier: Carrier) -> None:
        link_batches = [b"", bytes(range(256)), b"\r\n$3\r\n", b"x" * 64 * 1024, b"\xff" * 300_000]
        await carrier.append("p1", "p2", 1, link_batches)
        assert await data_of(carrier, "p1") == link_batches

    async def test_trimmed_entries_are_gone_and_others_keep_their_positions(self, carrier: Carrier) -> None:
        await carrier.append("p1", "p2", 1, [b"a", b"b", b"c", b"d"])
        entries = await all_of(carrier, "p1")
        await carrier.trim("p1", START)
        assert await all_of(carrier, "p1") == entries
        await carrier.trim("p1", entries[1].position)
        await carrier.trim("p1", entries[0].position)
        assert await all_of(carrier, "p1") == entries[2:]
        assert await all_of(carrier, "p1", entries[0].position) == entries[2:]
        assert await all_of(carrier, "p1", entries[2].position) == entries[3:]

    async def test_the_last_entry_is_known_after_it_was_trimmed(self, carrier: Carrier) -> None:
        last = await carrier.append("p1", "p2", 1, [b"a", b"b"])
        await carrier.trim("p1", last)
        assert await all_of(carrier, "p1") == []
        assert await carrier.last(["p1"]) == [last]
        assert await carrier.append("p1", "p2", 1, []) == last
        after = await carrier.append("p1", "p2", 1, [b"c"])
        assert await all_of(carrier, "p1", last) == [Entry(after, b"c")] == await all_of(carrier, "p1")

    async def test_what_is_not_there_can_be_trimmed(self, carrier: Carrier) -> None:
        elsewhere = await carrier.append("p1", "p2", 1, [b"a"])
        await carrier.trim("p5", elsewhere)
        assert await carrier.last(["p5"]) == [START]

    async def test_hundreds_of_streams_at_once(self, kit: Kit) -> None:
        senders = [await kit.open() for _ in range(3)]
        names = [f"p{number}" for number in range(100)]

        async def send(number: int) -> None:
            for turn in range(3):
                for name in names[number::3]:
                    await senders[number].append(name, "p999", 1, [b"%s %d" % (name.encode(), turn)])

        await asyncio.gather(*(send(number) for number in range(3)))
        found = await (await kit.open()).read(dict.fromkeys(names, START), 10, 0)
        assert {name: [entry.data for entry in found[name]] for name in names} == {
            name: [b"%s %d" % (name.encode(), turn) for turn in range(3)] for name in names
        }


class TestWaiting:
    async def test_a_read_waits_for_what_another_appends(self, kit: Kit) -> None:
        reader, writer = await kit.open(), await kit.open()
        position = await writer.append("p1", "p2", 1, [b"before"])
        read = asyncio.create_task(reader.read({"p1": position, "p3": START}, 10, LONG))
        await asyncio.sleep(0.05)
        assert not read.done()
        await writer.append("p3", "p2", 1, [b"now"])
        async with asyncio.timeout(LONG / 2):
            found = await read
        assert [entry.data for entry in found["p3"]] == [b"now"]
        assert "p1" not in found

    async def test_a_read_ends_when_nothing_came(self, carrier: Carrier) -> None:
        begun = time.monotonic()
        assert await carrier.read({"p1": START, "p2": START}, 10, 0.1) == {}
        assert 0.09 <= time.monotonic() - begun < LONG / 2
        assert await carrier.read({}, 10, 0.01) == {}

    async def test_other_calls_do_not_wait_for_a_read(self, carrier: Carrier) -> None:
        read = asyncio.create_task(carrier.read({"p1": START}, 10, LONG))
        await asyncio.sleep(0)
        async with asyncio.timeout(LONG / 2):
            assert await carrier.claim("p1", "a", 0, LONG) == 1
            await carrier.put("p1", {"k": b"v"})
            assert await carrier.read({"p2": START}, 10, 0) == {}
            await carrier.append("p1", "p2", 1, [b"now"])
            assert [entry.data for entry in (await read)["p1"]] == [b"now"]

    async def test_a_cancelled_read_takes_nothing_with_it(self, kit: Kit) -> None:
        reader, writer = await kit.open(), await kit.open()
        for turn in range(5):
            position = (await reader.last(["p1"]))[0]
            read = asyncio.create_task(reader.read({"p1": position}, 10, LONG))
            await asyncio.sleep(0.01 * (turn % 2))
            read.cancel()
            with pytest.raises(asyncio.CancelledError):
                await read
            await writer.append("p1", "p2", 1, [b"%d" % turn])
            async with asyncio.timeout(LONG / 2):
                found = await reader.read({"p1": position}, 10, LONG)
            assert [entry.data for entry in found["p1"]] == [b"%d" % turn]

    async def test_a_read_after_a_cancelled_one_may_be_of_other_streams(self, kit: Kit) -> None:
        reader, writer = await kit.open(), await kit.open()
        for turn in range(3):
            read = asyncio.create_task(reader.read({"p1": START, f"p{10 + turn}": START}, 10, LONG))
            await asyncio.sleep(0.01)
            read.cancel()
            with pytest.raises(asyncio.CancelledError):
                await read
            await writer.append("p2", "p3", 1, [b"%d" % turn])
            async with asyncio.timeout(LONG / 2):
                found = await reader.read({"p2": START, f"p{20 + turn}": START}, 10, LONG)
            assert [entry.data for entry in found["p2"]] == [b"%d" % number for number in range(turn + 1)]


class TestEpochs:
    async def test_an_older_epoch_of_a_writer_is_refused(self, carrier: Carrier) -> None:
        await carrier.append("p1", "p2", 5, [b"a"])
        last = await carrier.append("p1", "p2", 6, [])
        for entries in ([b"stale"], []):
            with pytest.raises(StaleEpochError):
                await carrier.append("p1", "p2", 5, entries)
        assert await carrier.last(["p1"]) == [last]
        await carrier.append("p1", "p3", 1, [b"b"])
        await carrier.append("p1", "p2", 6, [b"c"])
        await carrier.append("p4", "p2", 5, [b"d"])
        assert await data_of(carrier, "p1") == [b"a", b"b", b"c"]
        assert await data_of(carrier, "p4") == [b"d"]

    async def test_a_claim_lets_its_stream_know_the_epoch_at_once(self, kit: Kit) -> None:
        old, new = await kit.open(), await kit.open()
        before = await old.claim("p1", "old", 0, LONG)
        assert before is not None
        await old.append("p1", "p1", before, [b"mine"])
        assert await old.renew("p1", "old", before, 0)
        after = await new.claim("p1", "new", 0, LONG)
        assert after is not None
        with pytest.raises(StaleEpochError):
            await old.append("p1", "p1", before, [b"stale"])
        await new.append("p1", "p1", after, [b"ours"])
        assert await data_of(new, "p1") == [b"mine", b"ours"]

    async def test_epochs_grow_beyond_the_floor(self, carrier: Carrier) -> None:
        assert await carrier.claim("p1", "a", 0, LONG) == 1
        assert await carrier.claim("p1", "a", 0, LONG) == 2
        assert await carrier.claim("p1", "a", 41, LONG) == 42
        assert await carrier.claim("p1", "a", 7, LONG) == 43
        await carrier.append("p1", "p1", 50, [])
        assert await carrier.claim("p1", "a", 0, LONG) == 51
        assert await carrier.claim("p2", "a", 2**40, LONG) == 2**40 + 1


class TestClaims:
    async def test_a_name_has_one_holder(self, kit: Kit) -> None:
        one, other = await kit.open(), await kit.open()
        epoch = await one.claim("p1", "one", 0, LONG)
        assert epoch == 1
        assert await other.claim("p1", "other", 100, LONG) is None
        assert not await other.renew("p1", "other", 1, LONG)
        assert not await other.renew("p1", "other", 2, LONG)
        assert await other.claim("p2", "other", 0, LONG) == 1
        assert await one.renew("p1", "one", 1, LONG)

    async def test_many_claim_and_one_gets_it(self, kit: Kit) -> None:
        workers = [await kit.open() for _ in range(5)]
        epochs = await asyncio.gather(*(worker.claim("p1", f"w{n}", 0, LONG) for n, worker in enumerate(workers)))
        assert sorted(epochs, key=str) == [1, None, None, None, None]

    async def test_a_claim_runs_out(self, kit: Kit) -> None:
        one, other = await kit.open(), await kit.open()
        begun = time.monotonic()
        assert await one.claim("p1", "one", 0, 0.3) == 1

        async def taken() -> bool:
            return await other.claim("p1", "other", 0, LONG) == 2

        await until(taken)
        assert time.monotonic() - begun > 0.25
        assert not await one.renew("p1", "one", 1, LONG)
        assert await one.claim("p1", "one", 0, LONG) is None

    async def test_a_renewed_claim_is_held(self, kit: Kit) -> None:
        one, other = await kit.open(), await kit.open()
        assert await one.claim("p1", "one", 0, 0.3) == 1
        assert await one.claim("p2", "one", 0, 0.3) == 1
        assert await one.renew("p1", "one", 1, LONG)

        async def taken() -> bool:
            return await other.claim("p2", "other", 0, LONG) is not None

        await until(taken)
        assert await other.claim("p1", "other", 0, LONG) is None

    async def test_a_claim_that_ran_out_can_be_renewed_while_nobody_took_it(self, kit: Kit) -> None:
        one, other = await kit.open(), await kit.open()
        assert await one.claim("p1", "one", 0, 0.05) == 1
        await asyncio.sleep(0.1)
        assert await one.renew("p1", "one", 1, LONG)
        assert await other.claim("p1", "other", 0, LONG) is None

    async def test_a_name_is_given_back_at_once(self, kit: Kit) -> None:
        one, other = await kit.open(), await kit.open()
        assert await one.claim("p1", "one", 0, LONG) == 1
        assert await one.renew("p1", "one", 1, 0)
        assert await other.claim("p1", "other", 0, LONG) == 2

    async def test_an_older_claim_of_the_same_holder_is_not_renewed(self, carrier: Carrier) -> None:
        assert await carrier.claim("p1", "one", 0, LONG) == 1
        assert await carrier.claim("p1", "one", 0, LONG) == 2
        assert not await carrier.renew("p1", "one", 1, LONG)
        assert await carrier.renew("p1", "one", 2, LONG)


class TestValues:
    async def test_values_are_read_of_many_names(self, carrier: Carrier) -> None:
        large = bytes(range(256)) * 256
        await carrier.put("p1", {"a": b"1", "b": large})
        await carrier.put("p2", {"a": b""})
        await carrier.put("p1", {"a": b"2"})
        assert await carrier.get(["p1", "p2", "p3"], "a") == [b"2", b"", None]
        assert await carrier.get(["p2", "p1"], "b") == [None, large]
        assert await carrier.get([], "a") == []

    async def test_a_value_that_is_too_large_is_a_mistake_of_the_caller(self, carrier: Carrier) -> None:
        with pytest.raises(ValueError, match="65537"):
            await carrier.put("p1", {"a": b"x" * (64 * 1024 + 1), "b": b""})
        assert await carrier.get(["p1"], "b") == [None]

    async def test_keys_have_any_characters(self, carrier: Carrier) -> None:
        await carrier.put("crawl", {"status/p1": b"1", "ü {x}": b"2"})
        assert await carrier.get(["crawl"], "status/p1") + await carrier.get(["crawl"], "ü {x}") == [b"1", b"2"]


class TestLoss:
    async def test_a_lost_position_counts_as_the_start(self, kit: Kit) -> None:
        carrier = await kit.open()
        position = await carrier.append("p1", "p2", 3, [b"a", b"b", b"c"])
        await kit.lose()
        assert await carrier.last(["p1"]) == [START]
        assert await carrier.read({"p1": position}, 10, 0) == {}
        again = await carrier.append("p1", "p2", 1, [b"d"])
        assert again != position
        assert await data_of(carrier, "p1", position) == [b"d"]
        assert await carrier.last(["p1"]) == [again]

    async def test_a_lost_position_trims_nothing(self, kit: Kit) -> None:
        carrier = await kit.open()
        position = await carrier.append("p1", "p2", 3, [b"a", b"b", b"c"])
        await kit.lose()
        await carrier.append("p1", "p2", 3, [b"d"])
        await carrier.trim("p1", position)
        assert await data_of(carrier, "p1") == [b"d"]

    async def test_a_lost_claim_is_not_renewed_and_its_floor_holds(self, kit: Kit) -> None:
        one, other = await kit.open(), await kit.open()
        assert await one.claim("p1", "one", 8, LONG) == 9
        await one.put("p1", {"a": b"1"})
        await kit.lose()
        assert not await one.renew("p1", "one", 9, LONG)
        assert await one.get(["p1"], "a") == [None]
        assert await other.claim("p1", "other", 9, LONG) == 10
        with pytest.raises(StaleEpochError):
            await one.append("p1", "p1", 9, [b"stale"])

    async def test_an_equal_epoch_of_another_holder_is_not_renewed(self, kit: Kit) -> None:
        one, other = await kit.open(), await kit.open()
        assert await one.claim("p1", "one", 8, LONG) == 9
        await kit.lose()
        assert await other.claim("p1", "other", 8, LONG) == 9
        assert not await one.renew("p1", "one", 9, LONG)

    async def test_who_waits_gets_what_comes_after_the_loss(self, kit: Kit) -> None:
        reader, writer = await kit.open(), await kit.open()
        position = await writer.append("p1", "p2", 1, [b"a", b"b"])
        read = asyncio.create_task(reader.read({"p1": position}, 10, LONG))
        await asyncio.sleep(0.05)
        await kit.lose()
        await writer.append("p1", "p2", 1, [b"c"])
        async with asyncio.timeout(LONG / 2):
            assert [entry.data for entry in (await read)["p1"]] == [b"c"]
