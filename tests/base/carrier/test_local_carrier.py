"""The carrier of one machine: its socket, its peers, and what dies on either side."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.base.carrier import local_frames
from crawler.base.carrier.local_client import LocalCarrier
from crawler.base.carrier.local_server import LocalServer
from crawler.base.carrier.memory_carrier import Holdings, MemoryCarrier
from crawler.base.carrier.verbs import START, CarrierError, CarrierFullError, CarrierRefusedError, StaleEpochError
from tests.test_repository import ROOT

GREETING = b"crawler-carrier 000000001\n"
SERVE = """
import asyncio, sys
from pathlib import Path
from crawler.base.carrier.local_server import LocalServer

async def main():
    await LocalServer(Path(sys.argv[1])).start()
    print("ready", flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


Start = Callable[[], subprocess.Popen[str]]


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[LocalServer]:
    made = LocalServer(tmp_path)
    await made.start()
    yield made
    await made.close()


@pytest.fixture
async def carrier(server: LocalServer) -> AsyncIterator[LocalCarrier]:
    made = LocalCarrier(server.path)
    yield made
    await made.close()


async def test_a_server_waits_until_its_peers_have_left(server: LocalServer, carrier: LocalCarrier) -> None:
    assert await server.until_left(60.0), "nobody is there yet"
    await carrier.last([])
    assert not await server.until_left(0.05)
    waiting = asyncio.create_task(server.until_left(60.0))
    assert await carrier.claim("p0", "one", 0, 10.0) == 1, "it still serves"
    assert not waiting.done()
    await carrier.close()
    assert await waiting


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Start]:
    """Begins another process that serves in the directory of the test."""
    made: list[subprocess.Popen[str]] = []

    def start() -> subprocess.Popen[str]:
        words = [sys.executable, "-c", SERVE, str(tmp_path)]
        made.append(process := subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True))
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.stdout.close()
        return process

    yield start
    for process in made:
        process.kill()
        process.wait()


async def say(path: Path, *parts: bytes) -> bytes:
    """Everything that the server answers to bytes of somebody else, after which it hears no more."""
    reader, writer = await asyncio.open_unix_connection(str(path))
    for part in parts:
        writer.write(part)
    writer.write_eof()
    try:
        async with asyncio.timeout(10):
            return await reader.read()
    except ConnectionResetError:
        return b""
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


@asynccontextmanager
async def saying(path: Path, said: bytes) -> AsyncIterator[LocalCarrier]:
    """A carrier for a socket on which something else says that to all who connect."""
    ended = asyncio.Event()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(said)
        with suppress(ConnectionError):
            await reader.read()
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
        ended.set()

    server = await asyncio.start_unix_server(talk, str(path))
    carrier = LocalCarrier(path)
    yield carrier
    await carrier.close()
    server.close()
    async with asyncio.timeout(10):
        await ended.wait()


class TestSocket:
    async def test_only_its_user_may_open_it(self, server: LocalServer) -> None:
        assert server.path.stat().st_mode & 0o777 == 0o600
        assert [path.name for path in server.path.parent.iterdir()] == ["carrier.sock"]

    async def test_it_is_gone_when_the_server_is_closed(self, server: LocalServer) -> None:
        await server.close()
        assert not server.path.exists()
        await server.close()

    async def test_that_of_a_dead_server_is_replaced(self, tmp_path: Path, started: Start) -> None:
        process = started()
        process.kill()
        process.wait()
        assert (tmp_path / "carrier.sock").is_socket()
        server = LocalServer(tmp_path)
        await server.start()
        carrier = LocalCarrier(server.path)
        assert await carrier.claim("p1", "one", 0, 10) == 1
        await carrier.close()
        await server.close()

    async def test_that_of_a_living_server_is_left_alone(self, server: LocalServer, carrier: LocalCarrier) -> None:
        other = LocalServer(server.path.parent)
        with pytest.raises(CarrierRefusedError):
            await other.start()
        await other.close()
        assert await carrier.claim("p1", "one", 0, 10) == 1

    async def test_another_file_of_its_name_is_left_alone(self, tmp_path: Path) -> None:
        (tmp_path / "carrier.sock").write_text("mine")
        with pytest.raises(CarrierRefusedError):
            await LocalServer(tmp_path).start()
        assert (tmp_path / "carrier.sock").read_text() == "mine"

    async def test_a_directory_that_is_not_there_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(CarrierRefusedError):
            await LocalServer(tmp_path / "none").start()

    async def test_its_path_may_be_longer_than_an_address(self, tmp_path: Path) -> None:
        deep = tmp_path / ("d" * 120) / ("e" * 120)
        deep.mkdir(parents=True)
        server = LocalServer(deep)
        await server.start()
        carrier = LocalCarrier(server.path)
        assert await carrier.claim("p1", "one", 0, 10) == 1
        with pytest.raises(CarrierRefusedError):
            await LocalServer(deep).start()
        await carrier.close()
        await server.close()
        assert list(deep.iterdir()) == []


class TestDeaths:
    async def test_calls_that_wait_fail_and_later_ones_connect_again(self, tmp_path: Path, started: Start) -> None:
        process = started()
        carrier = LocalCarrier(tmp_path / "carrier.sock")
        position = await carrier.append("p1", "p2", 7, [b"a"])
        read = asyncio.create_task(carrier.read({"p1": position}, 10, 60))
        await asyncio.sleep(0.05)
        process.kill()
        with pytest.raises(CarrierError):
            await read
        process.wait()
        with pytest.raises(CarrierError):
            await carrier.last(["p1"])
        process = started()
        assert await carrier.last(["p1"]) == [START]
        await carrier.append("p1", "p2", 1, [b"b"])
        assert [entry.data for entry in (await carrier.read({"p1": position}, 10, 0))["p1"]] == [b"b"]
        await carrier.close()

    async def test_a_server_that_is_not_there(self, tmp_path: Path) -> None:
        carrier = LocalCarrier(tmp_path / "carrier.sock")
        with pytest.raises(CarrierError):
            await carrier.claim("p1", "one", 0, 10)
        await carrier.close()

    async def test_a_server_that_stands_still_costs_the_patience_and_no_more(
        self, tmp_path: Path, started: Start
    ) -> None:
        process = started()
        carrier = LocalCarrier(tmp_path / "carrier.sock", patience=0.2)
        assert await carrier.claim("p1", "one", 0, 10) == 1
        os.kill(process.pid, signal.SIGSTOP)
        for _ in range(2):
            with pytest.raises(CarrierError):
                await carrier.append("p1", "p2", 1, [b"x" * 4_000_000])
        with pytest.raises(CarrierError):
            await carrier.read({"p1": START}, 10, 0.1)
        os.kill(process.pid, signal.SIGCONT)
        async with asyncio.timeout(10):
            while not await renewed(carrier):  # noqa: ASYNC110 - the other process goes on when it is let
                await asyncio.sleep(0.01)
        assert await carrier.read({"p1": START}, 10, 0) == {}, "what was not sent whole is not appended"
        await carrier.close()

    async def test_closing_fails_what_waits(self, carrier: LocalCarrier) -> None:
        read = asyncio.create_task(carrier.read({"p1": START}, 10, 60))
        await asyncio.sleep(0.05)
        await carrier.close()
        with pytest.raises(CarrierError):
            await read

    async def test_a_client_that_is_gone_waits_for_nothing(self, server: LocalServer, carrier: LocalCarrier) -> None:
        other = LocalCarrier(server.path)
        reads = [asyncio.create_task(other.read({"p1": START}, 10, 60)) for _ in range(20)]
        await asyncio.sleep(0.05)
        await other.close()
        await asyncio.gather(*reads, return_exceptions=True)
        await carrier.append("p1", "p2", 1, [b"a"])
        assert len((await carrier.read({"p1": START}, 10, 0))["p1"]) == 1


async def renewed(carrier: LocalCarrier) -> bool:
    try:
        return await carrier.renew("p1", "one", 1, 10)
    except CarrierError:
        return False


class TestErrors:
    async def test_what_the_verbs_raise_comes_over_the_socket(self, tmp_path: Path) -> None:
        server = LocalServer(tmp_path, MemoryCarrier(Holdings(most_bytes=1_000)))
        await server.start()
        carrier = LocalCarrier(server.path)
        await carrier.append("p1", "p2", 5, [b"a"])
        with pytest.raises(StaleEpochError, match="p2"):
            await carrier.append("p1", "p2", 4, [b"b"])
        with pytest.raises(CarrierFullError):
            await carrier.append("p1", "p2", 5, [b"x" * 2_000])
        assert len((await carrier.read({"p1": START}, 10, 0))["p1"]) == 1
        await carrier.close()
        await server.close()

    async def test_another_version_is_refused_by_both_sides(self, server: LocalServer, tmp_path: Path) -> None:
        assert await say(server.path, b"crawler-carrier 000000002\n", b"\0\0\0\0") in (GREETING, b"")
        async with saying(tmp_path / "newer.sock", b"crawler-carrier 000000012\n") as newer:
            with pytest.raises(CarrierRefusedError, match="12"):
                await newer.last(["p1"])

    async def test_a_socket_of_something_else_is_refused(self, tmp_path: Path) -> None:
        async with saying(tmp_path / "web.sock", b"HTTP/1.1 400 Bad Request\r\n\r\n") as web:
            with pytest.raises(CarrierRefusedError):
                await web.last(["p1"])

    async def test_a_socket_that_says_nothing(self, tmp_path: Path) -> None:
        with socket.socket(socket.AF_UNIX) as silent:
            silent.bind(str(tmp_path / "silent.sock"))
            silent.listen()
            carrier = LocalCarrier(tmp_path / "silent.sock", patience=0.1)
            with pytest.raises(CarrierError):
                await carrier.last(["p1"])
            await carrier.close()

    @pytest.mark.parametrize("answer", [b"\0\0\0\x05hello", b"\xff\xff\xff\xff", b"\0\0\0\x09\x93\xa4done\x01\xa1x"])
    async def test_an_answer_that_is_none_is_an_error(self, answer: bytes, tmp_path: Path) -> None:
        async with saying(tmp_path / "odd.sock", GREETING + answer) as odd:
            with pytest.raises(CarrierError):
                await odd.last(["p1"])


def frames(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data


NONSENSE = st.one_of(
    st.binary(max_size=200),
    st.binary(max_size=200).map(frames),
    st.tuples(
        st.sampled_from(["append", "read", "trim", "last", "claim", "renew", "put", "get", "cancel", "done", "x"]),
        st.lists(
            st.one_of(
                st.integers(-(2**63), 2**64 - 1),
                st.text(max_size=5),
                st.floats(),
                st.none(),
                st.lists(st.binary(max_size=5), max_size=3),
                st.dictionaries(st.text(max_size=3), st.text(max_size=3), max_size=3),
            ),
            max_size=6,
        ),
    ).map(lambda request: frames(local_frames.encode([request[0], *request[1]]))),
)


@given(said=st.lists(NONSENSE, min_size=1, max_size=4), greets=st.booleans())
def test_nonsense_is_dropped_without_a_word(
    said: list[bytes], greets: bool, tmp_path_factory: pytest.TempPathFactory, caplog: pytest.LogCaptureFixture
) -> None:
    directory = tmp_path_factory.mktemp("s")

    async def serve() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: faults.append(str(context)))
        server = LocalServer(directory)
        await server.start()
        answered = await say(server.path, *([GREETING] if greets else []), *said)
        assert answered.startswith(GREETING) or answered == b""
        carrier = LocalCarrier(server.path)
        assert await carrier.claim("another", "one", 0, 10) == 1
        await carrier.close()
        await server.close()

    faults: list[str] = []
    with caplog.at_level(logging.WARNING):
        asyncio.run(serve())
    assert faults == [] == caplog.messages
