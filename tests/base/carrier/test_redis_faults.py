"""What happens to a server, and what the carrier makes of it: an error that says so, in time, and nothing wrong after
it."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Iterator
from pathlib import Path
from typing import Any

import pytest

from crawler.base.carrier.engine_address import Login, RedisAddress, parse_engine
from crawler.base.carrier.redis_carrier import RedisCarrier
from crawler.base.carrier.redis_servers import RedisServers, slot_of
from crawler.base.carrier.verbs import (
    START,
    Carrier,
    CarrierError,
    CarrierFullError,
    StaleEpochError,
)
from tests.base.carrier.kits import crawl_name
from tests.base.carrier.redis_server import RedisServer, redis_cluster, redis_server

LONG = 30.0
PATIENCE = 5.0  # a test's own process may stand still for half a second, as while garbage is collected
SHORT = 0.5  # where no answer is what the test is about
# With `everysec` a write waits for up to two seconds while the disk is busy, and the answer does not wait for it.
KEEPS = "appendfsync always"


def carrier_on(*servers: RedisServer, patience: float = PATIENCE, crawl: str | None = None) -> RedisCarrier:
    address = parse_engine("redis://" + ",".join(f"127.0.0.1:{server.port}" for server in servers))
    assert isinstance(address, RedisAddress)
    return RedisCarrier(RedisServers(address, Login(None, None), patience), crawl or crawl_name())


async def data_of(carrier: Carrier, stream: str, after: str = START) -> list[bytes]:
    return [entry.data for entry in (await carrier.read({stream: after}, 10_000, 0)).get(stream, [])]


async def refused(call: Awaitable[Any]) -> str:
    """What a CarrierError says."""
    begun = time.monotonic()
    with pytest.raises(CarrierError) as caught:
        await call
    assert time.monotonic() - begun < LONG / 2
    assert "\n" not in str(caught.value)
    return str(caught.value)


async def eventually(carrier: Carrier) -> None:
    """Until the carrier answers again."""
    async with asyncio.timeout(LONG):
        while True:
            try:
                await carrier.last(["p1"])
                await carrier.get(["p1"], "x")
                await carrier.read({"p1": START}, 1, 0.001)
                return
            except CarrierError:
                await asyncio.sleep(0.02)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[RedisServer]]:
    with redis_cluster(tmp_path_factory.mktemp("cluster")) as made:
        yield made


@pytest.fixture(scope="module")
def lasting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """A server for tests that do it no harm."""
    with redis_server(tmp_path_factory.mktemp("lasting")) as made:
        yield made


@pytest.fixture
async def carriers() -> AsyncIterator[list[RedisCarrier]]:
    """Those in it are closed after the test."""
    made: list[RedisCarrier] = []
    yield made
    for carrier in made:
        await carrier.close()


class TestRestart:
    async def test_with_a_log_everything_is_there_again(self, tmp_path: Path, carriers: list[RedisCarrier]) -> None:
        with redis_server(tmp_path / "r", KEEPS) as server:
            carrier = carrier_on(server)
            carriers.append(carrier)
            epoch = await carrier.claim("p1", "one", 7, LONG)
            assert epoch == 8
            position = await carrier.append("p1", "p1", epoch, [b"a", b"b"])
            await carrier.put("p1", {"x": b"y"})
            read = asyncio.create_task(carrier.read({"p1": position}, 10, LONG))
            await asyncio.sleep(0.1)
            server.kill()
            await refused(read)
            for call in (
                carrier.append("p1", "p1", epoch, [b"lost"]),
                carrier.read({"p1": START}, 10, 1),
                carrier.renew("p1", "one", epoch, LONG),
                carrier.last(["p1"]),
            ):
                await refused(call)
            server.start()
            await eventually(carrier)
            assert await carrier.renew("p1", "one", epoch, LONG)
            assert await carrier.claim("p1", "other", 0, LONG) is None
            assert await data_of(carrier, "p1") == [b"a", b"b"]
            assert await carrier.last(["p1"]) == [position]
            assert await carrier.get(["p1"], "x") == [b"y"]
            with pytest.raises(StaleEpochError):
                await carrier.append("p1", "p1", epoch - 1, [b"stale"])

    async def test_without_a_log_everything_is_lost(self, tmp_path: Path, carriers: list[RedisCarrier]) -> None:
        with redis_server(tmp_path / "r", "appendonly no") as server:
            carrier = carrier_on(server)
            carriers.append(carrier)
            assert await carrier.claim("p1", "one", 7, LONG) == 8
            position = await carrier.append("p1", "p1", 8, [b"a", b"b"])
            server.kill()
            server.start()
            await eventually(carrier)
            assert await carrier.last(["p1"]) == [START]
            assert not await carrier.renew("p1", "one", 8, LONG)
            assert await carrier.claim("p1", "other", 8, LONG) == 9
            await carrier.append("p1", "p1", 9, [b"c"])
            assert await data_of(carrier, "p1", position) == [b"c"]

    async def test_a_position_after_a_lost_end_counts_as_the_start(
        self, tmp_path: Path, carriers: list[RedisCarrier]
    ) -> None:
        with redis_server(tmp_path / "r", "auto-aof-rewrite-percentage 0", KEEPS) as server:
            carrier = carrier_on(server)
            carriers.append(carrier)
            first = await carrier.append("p1", "p2", 1, [b"a"])
            lost = await carrier.append("p1", "p2", 2, [b"b"])
            server.kill()
            (log,) = (server.home / "appendonlydir").glob("*.incr.aof")
            os.truncate(log, log.stat().st_size - 1)
            server.start()
            await eventually(carrier)
            assert await carrier.last(["p1"]) == [first]
            found = await carrier.read({"p1": lost}, 10, LONG)
            assert [(entry.position, entry.data) for entry in found["p1"]] == [(first, b"a")]
            await carrier.append("p1", "p2", 1, [b"the lost epoch is not known"])

    async def test_while_it_reads_its_log_it_cannot_be_used(self, tmp_path: Path, carriers: list[RedisCarrier]) -> None:
        # It looks at its clients after each 1,024 commands that it read.
        with redis_server(tmp_path / "r", "key-load-delay 50", KEEPS) as server:
            carrier = carrier_on(server)
            carriers.append(carrier)
            await carrier.put("p1", {"x": b"y"})
            server.say("EVAL", "for i = 1, 15000 do redis.call('INCR', 'other') end", 0)
            server.kill()
            server.start()
            said = set()
            async with asyncio.timeout(LONG):
                while True:
                    try:
                        assert await carrier.get(["p1"], "x") == [b"y"]
                        break
                    except CarrierError as error:
                        said.add(str(error))
                        await asyncio.sleep(0.01)
            assert any("loading" in text for text in said), said


async def test_forgotten_scripts_are_sent_again(tmp_path: Path, carriers: list[RedisCarrier]) -> None:
    with redis_server(tmp_path / "r") as server:
        carrier = carrier_on(server)
        carriers.append(carrier)
        for epoch in range(1, 4):
            server.say("SCRIPT", "FLUSH")
            assert await carrier.claim("p1", "one", 0, LONG) == epoch
            server.say("SCRIPT", "FLUSH")
            assert await carrier.renew("p1", "one", epoch, LONG)
            server.say("SCRIPT", "FLUSH")
            await asyncio.gather(*(carrier.append("p1", "p1", epoch, [b"%d" % epoch]) for _ in range(3)))
        assert await data_of(carrier, "p1") == [b"1"] * 3 + [b"2"] * 3 + [b"3"] * 3


async def test_a_paused_server_costs_our_patience_and_no_more(tmp_path: Path, carriers: list[RedisCarrier]) -> None:
    with redis_server(tmp_path / "r") as server:
        carrier = carrier_on(server, patience=SHORT)
        carriers.append(carrier)
        await carrier.append("p1", "p2", 1, [b"a"])
        read = asyncio.create_task(carrier.read({"p2": START}, 10, LONG))
        await asyncio.sleep(0.05)
        server.say("CLIENT", "PAUSE", 60_000)
        begun = time.monotonic()
        said = await asyncio.gather(
            *(
                refused(call)
                for call in (
                    carrier.append("p1", "p2", 1, [b"b"]),
                    carrier.read({"p1": START}, 10, 0.1),
                    carrier.renew("p1", "one", 1, LONG),
                    carrier.put("p1", {"x": b"y"}),
                )
            )
        )
        assert time.monotonic() - begun < LONG / 2
        assert all("did not answer" in text for text in said), said
        assert "did not answer" in await refused(read)


async def test_a_full_server_refuses_entries_and_keeps_claims(tmp_path: Path, carriers: list[RedisCarrier]) -> None:
    with redis_server(tmp_path / "r", "maxmemory 6mb") as server:
        carrier = carrier_on(server)
        carriers.append(carrier)
        assert await carrier.claim("p1", "one", 0, LONG) == 1
        taken, said = 0, ""
        while not said and taken < 1_000:
            try:
                await carrier.append("p1", "p2", 1, [b"%d" % taken, b"x" * 64 * 1024])
                taken += 1
            except CarrierError as error:
                said = str(error)
        assert taken > 3
        assert "maxmemory" in said
        server.say("CONFIG", "SET", "maxmemory", "2mb")  # far more than that is in use
        assert await carrier.renew("p1", "one", 1, LONG)
        assert await carrier.claim("p2", "one", 0, LONG) == 1
        with pytest.raises(CarrierFullError):
            await carrier.append("p1", "p2", 2, [b"more"])
        await carrier.check()  # who joins now waits like the others
        entries = (await carrier.read({"p1": START}, 10_000, 0))["p1"]
        assert [entry.data for entry in entries[::2]] == [b"%d" % number for number in range(taken)]
        assert len(entries) == 2 * taken, "all of an append or none"
        await carrier.trim("p1", entries[-1].position)
        server.say("CONFIG", "SET", "maxmemory", "6mb")
        async with asyncio.timeout(LONG):
            while True:
                try:
                    await carrier.append("p1", "p2", 1, [b"again"])
                    break
                except CarrierError:  # memory is given back a little later
                    await asyncio.sleep(0.02)
        assert await data_of(carrier, "p1", entries[-1].position) == [b"again"]


async def test_a_replica_is_not_written_to(tmp_path: Path, carriers: list[RedisCarrier]) -> None:
    with redis_server(tmp_path / "r") as server, redis_server(tmp_path / "s") as other:
        carrier = carrier_on(server)
        carriers.append(carrier)
        await carrier.append("p1", "p2", 1, [b"a"])
        server.say("REPLICAOF", "127.0.0.1", other.port)
        said = await refused(carrier.append("p1", "p2", 1, [b"b"]))
        assert "read only replica" in said or "MASTERDOWN" in said or "loading" in said
        server.say("REPLICAOF", "NO", "ONE")
        await eventually(carrier)
        await carrier.append("p1", "p2", 1, [b"c"])


async def test_lost_connections_are_made_again(tmp_path: Path, carriers: list[RedisCarrier]) -> None:
    with redis_server(tmp_path / "r") as server:
        carrier = carrier_on(server)
        carriers.append(carrier)
        for turn in range(5):
            assert await carrier.read({"p2": START}, 10, 0) == {}
            server.say("CLIENT", "KILL", "TYPE", "normal")
            await eventually(carrier)
            await carrier.append("p1", "p2", 1, [b"%d" % turn])
        assert await data_of(carrier, "p1") == [b"%d" % turn for turn in range(5)]


class TestCluster:
    async def test_any_server_of_it_is_enough_to_name(
        self, cluster: list[RedisServer], carriers: list[RedisCarrier]
    ) -> None:
        crawl = crawl_name()
        carriers.extend(carrier_on(server, crawl=crawl) for server in cluster)
        names = [f"p{number}" for number in range(16)]
        assert len({slot_of(f"crawler:{{{crawl}:{name}}}:state") * 3 // 16_384 for name in names}) == 3
        for carrier, writer in zip(carriers, ("p20", "p21", "p22"), strict=True):
            for name in names:
                await carrier.append(name, writer, 1, [writer.encode()])
        found = await carriers[0].read(dict.fromkeys(names, START), 10, 0)
        assert {name: [entry.data for entry in entries] for name, entries in found.items()} == {
            name: [b"p20", b"p21", b"p22"] for name in names
        }

    async def test_a_live_reshard_loses_nothing_and_keeps_the_order(
        self, cluster: list[RedisServer], carriers: list[RedisCarrier]
    ) -> None:
        crawl = crawl_name()
        carriers.extend(carrier_on(*cluster, crawl=crawl) for _ in range(2))
        writer, reader = carriers
        moved = asyncio.Event()
        got: list[bytes] = []
        errors: list[str] = []

        async def write() -> int:
            number = 0
            while not moved.is_set() or number < 100:
                await writer.append("p1", "p2", 1, [b"%d" % number])
                number += 1
                assert await writer.renew("p1", "one", 1, LONG)
                await asyncio.sleep(0.002)
            return number

        async def read() -> None:
            position = START
            while True:
                try:
                    found = await reader.read({"p1": position, "p3": START}, 10, 1)
                except CarrierError as error:
                    errors.append(str(error))
                    continue
                for entry in found.get("p1", []):
                    position = entry.position
                    got.append(entry.data)
                if position != START and len(got) % 3 == 0:
                    await reader.trim("p1", position)

        assert await writer.claim("p1", "one", 0, LONG) == 1
        await writer.put("p1", {"x": b"y"})
        reading, writing = asyncio.create_task(read()), asyncio.create_task(write())
        await self._move(cluster, slot_of(f"crawler:{{{crawl}:p1}}:state"))
        moved.set()
        total = await writing
        async with asyncio.timeout(LONG):
            while b"%d" % (total - 1) not in got:  # noqa: ASYNC110 - it comes from another process
                await asyncio.sleep(0.01)
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        assert list(dict.fromkeys(got)) == [b"%d" % number for number in range(total)]
        assert len(got) == total, "redirections append nothing twice"
        assert errors == []
        assert await reader.get(["p1"], "x") == [b"y"]
        assert await reader.claim("p1", "other", 0, LONG) is None

    async def _move(self, cluster: list[RedisServer], slot: int) -> None:
        """One key after the other, with some time for traffic in between."""
        source = cluster[slot * 3 // 16_384]
        target = cluster[(cluster.index(source) + 1) % 3]
        ids = {server.port: server.say("CLUSTER", "MYID") for server in cluster}
        target.say("CLUSTER", "SETSLOT", slot, "IMPORTING", ids[source.port])
        source.say("CLUSTER", "SETSLOT", slot, "MIGRATING", ids[target.port])
        while True:
            await asyncio.sleep(0.05)
            keys = source.say("CLUSTER", "GETKEYSINSLOT", slot, 1)
            if not keys:
                break
            source.say("MIGRATE", "127.0.0.1", target.port, keys[0], 0, 5_000)
        await asyncio.sleep(0.05)
        for server in (target, source, *cluster):
            server.say("CLUSTER", "SETSLOT", slot, "NODE", ids[target.port])
        await asyncio.sleep(0.1)

    async def test_a_server_that_stands_still_does_not_stop_the_others(
        self, cluster: list[RedisServer], carriers: list[RedisCarrier]
    ) -> None:
        crawl = crawl_name()
        carrier = carrier_on(*cluster, patience=SHORT, crawl=crawl)
        carriers.append(carrier)
        at = {slot_of(f"crawler:{{{crawl}:p{number}}}:state") * 3 // 16_384: f"p{number}" for number in range(50)}
        for name in at.values():
            await carrier.append(name, "p99", 1, [b"a"])
        os.kill(cluster[0].pid, signal.SIGSTOP)
        try:
            still, going = asyncio.create_task(carrier.append(at[0], "p99", 1, [b"b"])), []
            for name in (at[1], at[2]):
                await carrier.append(name, "p99", 1, [b"b"])
                going.append(await data_of(carrier, name))
            assert going == [[b"a", b"b"]] * 2
            assert "did not answer" in await refused(still)
        finally:
            os.kill(cluster[0].pid, signal.SIGCONT)
        await eventually(carrier)

    async def test_a_server_that_died_is_an_error_until_it_is_back(
        self, cluster: list[RedisServer], carriers: list[RedisCarrier]
    ) -> None:
        crawl = crawl_name()
        carrier = carrier_on(*cluster, patience=4 * SHORT, crawl=crawl)
        carriers.append(carrier)
        at = {slot_of(f"crawler:{{{crawl}:p{number}}}:state") * 3 // 16_384: f"p{number}" for number in range(50)}
        for name in at.values():
            await carrier.append(name, "p99", 1, [b"a"])
        cluster[2].kill()
        await refused(carrier.append(at[2], "p99", 1, [b"b"]))
        await refused(carrier.read(dict.fromkeys(at.values(), START), 10, 1))
        cluster[2].start()
        async with asyncio.timeout(LONG):
            while True:
                try:
                    found = await carrier.read(dict.fromkeys(at.values(), START), 10, 0)
                    break
                except CarrierError:
                    await asyncio.sleep(0.05)
        assert {name: [entry.data for entry in entries] for name, entries in found.items()} == {
            name: [b"a"] for name in at.values()
        }


class TestOthersWrite:
    """What another program, or somebody at a prompt, leaves in the keys of a crawl counts as lost."""

    async def test_an_entry_of_other_fields_is_read_as_nothing(
        self, lasting: RedisServer, carriers: list[RedisCarrier]
    ) -> None:
        carriers.append(carrier := carrier_on(lasting, crawl=(crawl := crawl_name())))
        await carrier.append("p1", "p2", 1, [b"a"])
        lasting.say("XADD", f"crawler:{{{crawl}:p1}}:stream", "*", "x", "1", "y", "2")
        last = await carrier.append("p1", "p2", 1, [b"b"])
        assert await data_of(carrier, "p1") == [b"a", b"", b"b"]
        assert await carrier.last(["p1"]) == [last]

    @pytest.mark.parametrize("value", [b"\xff\xfe", b"garbage", b"", b"12-", b"9" * 30 + b"-1"])
    async def test_a_last_position_that_is_none(
        self, value: bytes, lasting: RedisServer, carriers: list[RedisCarrier]
    ) -> None:
        carriers.append(carrier := carrier_on(lasting, crawl=(crawl := crawl_name())))
        first = await carrier.append("p1", "p2", 1, [b"a"])
        lasting.say("HSET", f"crawler:{{{crawl}:p1}}:state", "last", value)
        assert await carrier.last(["p1"]) == [START]
        assert await carrier.append("p1", "p2", 1, []) == START
        assert await data_of(carrier, "p1", first) == [b"a"], "what may have been lost is read again"
        second = await carrier.append("p1", "p2", 1, [b"b"])
        assert await carrier.last(["p1"]) == [second]
        assert await data_of(carrier, "p1", first) == [b"b"]

    @pytest.mark.parametrize("value", ["x", b"\xff", "nan", "inf", "-inf", "1e300", "-5", "1.5", 2**63, 2**50])
    async def test_an_epoch_that_is_none(
        self, value: str | bytes | int, lasting: RedisServer, carriers: list[RedisCarrier]
    ) -> None:
        carriers.append(carrier := carrier_on(lasting, crawl=(crawl := crawl_name())))
        lasting.say("HSET", f"crawler:{{{crawl}:p1}}:state", "epoch:p1", value, "epoch:p2", value)
        epoch = await carrier.claim("p1", "one", 7, LONG)
        assert epoch == 8
        assert await carrier.renew("p1", "one", epoch, LONG)
        await carrier.append("p1", "p2", 2, [b"a"])
        with pytest.raises(StaleEpochError):
            await carrier.append("p1", "p1", 7, [b"stale"])
        assert await data_of(carrier, "p1") == [b"a"]

    @pytest.mark.parametrize(
        "value", ["x", b"\xff", "9", "9 9 9", "-9 -9", "9 nan", f"{2**50} 1", f"1 {2**53}", "1e9 1"]
    )
    async def test_an_order_that_is_none(
        self, value: str | bytes, lasting: RedisServer, carriers: list[RedisCarrier]
    ) -> None:
        carriers.append(carrier := carrier_on(lasting, crawl=(crawl := crawl_name())))
        lasting.say("HSET", f"crawler:{{{crawl}:p1}}:values", "a", "0", "order:a", value)
        assert await carrier.put("p1", {"a": b"1"}, (1, 1))
        assert not await carrier.put("p1", {"a": b"stale"}, (1, 0))
        assert await carrier.get(["p1"], "a") == [b"1"]

    async def test_a_stream_whose_ids_are_used_up_begins_again(
        self, lasting: RedisServer, carriers: list[RedisCarrier]
    ) -> None:
        carriers.append(carrier := carrier_on(lasting, crawl=(crawl := crawl_name())))
        position = await carrier.append("p1", "p2", 1, [b"a"])
        lasting.say("XADD", f"crawler:{{{crawl}:p1}}:stream", f"{2**64 - 1}-{2**64 - 1}", "d", "z")
        assert "exhausted" in await refused(carrier.append("p1", "p2", 1, [b"b"]))
        await carrier.append("p1", "p2", 1, [b"b"])
        assert await data_of(carrier, "p1", position) == [b"b"]
