"""What a user may name as the engine of a crawl, and what is refused in one line."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.base.carrier.engine_address import Login, RedisAddress, Server, check_crawl_name, parse_engine, read_login
from crawler.base.carrier.open_carrier import open_carrier
from crawler.base.carrier.verbs import START, CarrierError, CarrierRefusedError
from tests.asked import free_port
from tests.base.carrier.kits import crawl_name
from tests.base.carrier.redis_server import RedisServer, redis_server
from tests.documents import page
from tests.web.fetch.certificates import Authority

PASSWORD = "correct horse"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with redis_server(tmp_path_factory.mktemp("redis")) as made:
        yield made


async def refusal(engine: str, crawl: str = "c", environ: dict[str, str] | None = None) -> str:
    with pytest.raises(CarrierRefusedError) as caught:
        await open_carrier(engine, crawl, environ or {})
    assert "\n" not in str(caught.value)
    return str(caught.value)


async def opens(engine: str, environ: dict[str, str] | None = None) -> None:
    carrier = await open_carrier(engine, crawl_name(), environ or {})
    last = await carrier.append("p1", "p2", 1, [b"a"])
    assert [entry.data for entry in (await carrier.read({"p1": START}, 1, 5))["p1"]] == [b"a"]
    await carrier.trim("p1", last)
    assert await carrier.last(["p1"]) == [last]
    assert await carrier.claim("p1", "one", 0, 10) == 1
    assert await carrier.renew("p1", "one", 1, 10)
    assert await carrier.renew("p1", "one", 1, 0)
    await carrier.put("p1", {"a": b"b"})
    assert await carrier.get(["p1"], "a") == [b"b"]
    await carrier.close()


class TestAddresses:
    def test_what_is_understood(self) -> None:
        assert parse_engine("unix:/run/c/carrier.sock") == Path("/run/c/carrier.sock")
        assert parse_engine("unix:c.sock") == Path("c.sock")
        assert parse_engine("redis://a") == RedisAddress((Server("a", 6379),), encrypted=False)
        assert parse_engine("redis://a:1/") == RedisAddress((Server("a", 1),), encrypted=False)
        assert parse_engine("rediss://a.test:1,[::1]:2,[fe80::1%25]") == RedisAddress(
            (Server("a.test", 1), Server("::1", 2), Server("fe80::1%25", 6379)), encrypted=True
        )
        assert str(Server("::1", 2)) == "[::1]:2"

    @pytest.mark.parametrize(
        "engine",
        [
            *(
                "",
                "redis",
                "redis:a:1",
                "http://a",
                "unix:",
                "redis://",
                "redis://a,",
                "redis://a:0",
                "redis://a:65536",
            ),
            *("redis://a:b", "redis://a/1", "redis://a?x=1", "redis://::1", "redis://a b", "nats://a", "redis://[::1"),
        ],
    )
    async def test_what_is_not(self, engine: str) -> None:
        assert "unix:PATH" in await refusal(engine)

    @pytest.mark.parametrize(
        "engine",
        [
            *("redis://:hunter2@a:1", "rediss://me:hunter2@a", "nats://me:hunter2@a", "redis:hunter2"),
            *("redis://a?password=hunter2", "redis://a/:hunter2", "redis://a,hunter2:a"),
        ],
    )
    async def test_a_password_on_a_command_line_is_not_taken_nor_shown(self, engine: str) -> None:
        said = await refusal(engine)
        assert "hunter2" not in said
        assert "CRAWLER_ENGINE_PASSWORD" in said or "unix:PATH" in said

    @given(st.text(max_size=40) | st.text(max_size=30).map(lambda rest: f"redis://{rest}"))
    def test_any_text_is_an_address_or_refused(self, text: str) -> None:
        with suppress(CarrierRefusedError):
            parsed = parse_engine(text)
            assert isinstance(parsed, Path) or all(0 < port < 65_536 and host for host, port in parsed.servers)

    @pytest.mark.parametrize("name", ["", "a b", "{a}", "a:b", "-a", "ä", "a\n", "a" * 65, "../a"])
    async def test_a_crawl_has_a_plain_name(self, name: str) -> None:
        await refusal("redis://127.0.0.1:1", name)

    def test_plain_names_are_taken(self) -> None:
        for name in ("a", "News-2026.11", "0_" + "x" * 62):
            check_crawl_name(name)


def permitted() -> str:
    """The commands that the page names, as an ACL has them."""
    found = re.search(r"^    (\+info .*)$", page("format-carrier.md"), re.MULTILINE)
    assert found is not None
    return found[1]


class TestLogins:
    def test_where_a_password_comes_from(self, tmp_path: Path) -> None:
        (tmp_path / "password").write_text(f"{PASSWORD}\n")
        file = str(tmp_path / "password")
        assert read_login({}) == Login(None, None)
        assert read_login({"CRAWLER_ENGINE_PASSWORD": ""}) == Login(None, None)
        assert read_login({"CRAWLER_ENGINE_PASSWORD": PASSWORD}) == Login(None, PASSWORD)
        assert read_login({"CRAWLER_ENGINE_USER": "me", "CRAWLER_ENGINE_PASSWORD_FILE": file}) == Login("me", PASSWORD)
        assert PASSWORD not in repr(read_login({"CRAWLER_ENGINE_PASSWORD": PASSWORD}))

    @pytest.mark.parametrize(
        ("environ", "said"),
        [
            ({"CRAWLER_ENGINE_USER": "me"}, "without a password"),
            ({"CRAWLER_ENGINE_PASSWORD": "a", "CRAWLER_ENGINE_PASSWORD_FILE": "b"}, "remove one of them"),
            ({"CRAWLER_ENGINE_PASSWORD_FILE": "/nowhere"}, "cannot read /nowhere: No such file"),
            ({"CRAWLER_ENGINE_PASSWORD_FILE": "/dev/null"}, "cannot read /dev/null"),
            ({"CRAWLER_ENGINE_PASSWORD_FILE": __file__}, "exactly one line of text"),
            ({"CRAWLER_ENGINE_PASSWORD": "a\nb"}, "exactly one line of text"),
        ],
    )
    async def test_what_is_no_password(self, environ: dict[str, str], said: str) -> None:
        assert said in await refusal("redis://127.0.0.1:1", environ=environ)

    async def test_a_server_with_a_password(self, tmp_path: Path) -> None:
        with redis_server(
            tmp_path / "r",
            f'requirepass "{PASSWORD}"',
            f"user worker on >secret ~crawler:* {permitted()}",
            "user reader on >secret ~crawler:* +@read +info",
        ) as server:
            await opens(server.url, {"CRAWLER_ENGINE_PASSWORD": PASSWORD})
            await opens(server.url, {"CRAWLER_ENGINE_USER": "worker", "CRAWLER_ENGINE_PASSWORD": "secret"})
            for environ in (
                {},
                {"CRAWLER_ENGINE_PASSWORD": "wrong"},
                {"CRAWLER_ENGINE_USER": "nobody", "CRAWLER_ENGINE_PASSWORD": "secret"},
            ):
                said = await refusal(server.url, environ=environ)
                assert "CRAWLER_ENGINE_PASSWORD" in said
                assert "secret" not in said
                assert "wrong" not in said.replace("WRONGPASS", "")
            reader = {"CRAWLER_ENGINE_USER": "reader", "CRAWLER_ENGINE_PASSWORD": "secret"}
            await refusal(server.url, environ=reader)

    @pytest.mark.parametrize("lacks", ["-evalsha", "-xread", "-xtrim", "-info"])
    async def test_what_is_not_permitted_is_said_before_anything_is_begun(
        self, server: RedisServer, lacks: str
    ) -> None:
        server.say("ACL", "SETUSER", "half", "reset", "on", ">secret", "~*", "+@all", lacks)
        environ = {"CRAWLER_ENGINE_USER": "half", "CRAWLER_ENGINE_PASSWORD": "secret"}
        await refusal(server.url, "half", environ=environ)
        assert server.say("KEYS", "*half*") == []

    async def test_a_password_that_nobody_asked_for(self, server: RedisServer) -> None:
        environ = {"CRAWLER_ENGINE_PASSWORD": PASSWORD}
        await refusal(server.url, environ=environ)


class TestUnfit:
    @pytest.mark.parametrize("policy", ["allkeys-lru", "volatile-ttl"])
    async def test_a_server_that_drops_keys(self, policy: str, tmp_path: Path) -> None:
        with redis_server(tmp_path / "r", f"maxmemory-policy {policy}") as server:
            assert policy in await refusal(server.url)

    async def test_keys_of_another_version(self, server: RedisServer) -> None:
        server.say("SET", "crawler:{later:crawl}:version", "2")
        said = await refusal(server.url, "later")
        assert "2" in said
        assert server.say("KEYS", "*later*") == [b"crawler:{later:crawl}:version"]

    async def test_the_version_is_said_by_who_begins_and_again_when_it_was_lost(self, server: RedisServer) -> None:
        carrier = await open_carrier(server.url, "marked", {})
        assert server.say("KEYS", "*marked*") == [], "who only looks leaves nothing behind"
        for _ in range(2):
            await carrier.put("crawl", {"identity": b"x"})
            assert server.say("GET", "crawler:{marked:crawl}:version") == b"1"
            server.say("FLUSHALL")
        await carrier.close()

    @pytest.mark.parametrize("what", ["stream", "state", "values"])
    async def test_keys_of_another_program(self, what: str, server: RedisServer) -> None:
        server.say("SET", f"crawler:{{other-{what}:p1}}:{what}", "mine")
        carrier = await open_carrier(server.url, f"other-{what}", {})
        with pytest.raises(CarrierRefusedError):
            await (carrier.put("p1", {"a": b"b"}) if what == "values" else carrier.append("p1", "p2", 1, [b"a"]))
        await carrier.close()
        assert server.say("GET", f"crawler:{{other-{what}:p1}}:{what}") == b"mine"

    @pytest.mark.parametrize(
        ("info", "said"),
        [
            (b"redis_version:6.2.14\r\nredis_mode:standalone", "is Redis 6.2.14: 7.0 or later is needed, or Valkey"),
            (b"memcached:1", "is neither Redis nor Valkey"),
        ],
    )
    async def test_another_server(self, info: bytes, said: str) -> None:
        async with answering(b"$%d\r\n%s\r\n" % (len(info), info)) as port:
            assert said in await refusal(f"redis://127.0.0.1:{port}")

    async def test_no_redis_at_all(self) -> None:
        async with answering(b"HTTP/1.1 400 Bad Request\r\n\r\n") as port:
            with pytest.raises(CarrierError) as caught:
                await open_carrier(f"redis://127.0.0.1:{port}", "c", {})
            assert "\n" not in str(caught.value)

    async def test_without_the_package(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in [name for name in sys.modules if name.startswith("crawler.base.carrier.redis")]:
            monkeypatch.delitem(sys.modules, name)
        monkeypatch.setitem(sys.modules, "redis.asyncio.connection", None)
        await refusal("redis://127.0.0.1:1")


@asynccontextmanager
async def answering(info: bytes) -> AsyncIterator[int]:
    """A server that gives this answer to INFO, and +OK to all else."""
    ended = asyncio.Event()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            if line.startswith(b"*"):
                words = [(await reader.readline(), await reader.readline())[1] for _ in range(int(line[1:]))]
                writer.write(info if words[0] == b"INFO\r\n" else b"+OK\r\n")
        writer.close()
        ended.set()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    yield server.sockets[0].getsockname()[1]
    server.close()
    async with asyncio.timeout(10):
        await ended.wait()


async def test_tls_with_a_trusted_certificate_and_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    authority = Authority(tmp_path, "keyUsage=critical,keyCertSign")
    certificate, key = authority.files("DNS:localhost,IP:127.0.0.1")
    port = free_port()
    own = [
        f"tls-port {port}",
        f"tls-cert-file {certificate}",
        f"tls-key-file {key}",
        "tls-auth-clients no",
        "bind 127.0.0.1 127.0.0.2",
    ]
    with redis_server(tmp_path / "r", *own, f"tls-ca-cert-file {authority.file}", 'requirepass "a"') as server:
        environ = {"CRAWLER_ENGINE_PASSWORD": "a"}
        said = await refusal(f"rediss://127.0.0.1:{port}", environ=environ)
        assert "SSL_CERT_FILE" in said
        monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
        await opens(f"rediss://127.0.0.1:{port}", environ)
        await refusal(f"rediss://127.0.0.2:{port}", environ=environ)
        with pytest.raises(CarrierError):
            await open_carrier(f"rediss://127.0.0.1:{server.port}", "c", environ)
