"""A crawl whose workers meet at a server: it may forget everything, and lets nobody in that does not belong there."""

from __future__ import annotations

import os
import signal
from collections import Counter
from pathlib import Path

from tests.base.carrier.redis_server import redis_server
from tests.cluster.chain import Chain
from tests.cluster.test_crawl_in_partitions import WORDS, begun, ended, records, workers
from tests.program import crawler, wait_until


def test_a_server_that_forgets_everything_costs_no_page(tmp_path: Path) -> None:
    with redis_server(tmp_path / "server", "appendonly no") as server, Chain(12, 10, 0.05) as chain:
        words = ("--job", tmp_path / "crawl", *WORDS, "--quiet", "--engine", server.url, "--crawl", "news")
        with begun(chain, *words, "--partitions", "2") as process:
            server.say("FLUSHALL")
            ran = ended(process)
        assert ran.code == 0, ran.err
        assert records(tmp_path / "crawl") == Counter(dict.fromkeys(chain.pages, 1))
        again = crawler(*chain.seeds, *words)
        assert again.code == 0, again.err
        assert set(chain.asked.values()) == {1}, "a crawl that has ended asks for nothing again"


def test_a_worker_that_is_replaced_while_the_server_is_down_waits_for_it(tmp_path: Path) -> None:
    with redis_server(tmp_path / "server") as server, Chain(6, 8, 0.05) as chain:
        words = ("--job", tmp_path / "crawl", *WORDS, "--quiet", "--engine", server.url, "--crawl", "news")
        with begun(chain, *words, "--partitions", "1") as process:
            os.set_blocking(process.stderr.fileno(), False)
            said = []
            server.kill()
            os.kill(workers(process.pid)[0], signal.SIGKILL)

            def waits() -> bool:
                said.append((process.stderr.read() or b"").decode())
                return "this worker starts when" in "".join(said) or process.poll() is not None

            wait_until(waits, "the new worker waits")
            server.start()
            ran = ended(process)
        assert ran.code == 0, "".join(said) + ran.err
        assert records(tmp_path / "crawl") == Counter(dict.fromkeys(chain.pages, 1))


def test_a_worker_goes_on_where_the_server_has_lost_everything_and_nobody_else_is_there(tmp_path: Path) -> None:
    with redis_server(tmp_path / "server", "appendonly no") as server, Chain(12, 10, 0.05) as chain:
        reached = ("--engine", server.url, "--crawl", "news", "--quiet")
        with begun(chain, "--job", tmp_path / "crawl", *WORDS, *reached, "--partitions", "1") as process:
            process.send_signal(signal.SIGINT)
            assert ended(process).code == 130
        server.say("FLUSHALL")
        ran = crawler("work", "--dir", tmp_path / "crawl", *reached)
        assert ran.code == 0, ran.err
        assert records(tmp_path / "crawl") == Counter(dict.fromkeys(chain.pages, 1))
        assert server.say("HEXISTS", "crawler:{news:crawl}:values", "settings"), "those who join need them"
        server.say("FLUSHALL")
        other = crawler("work", "--dir", tmp_path / "crawl", *reached[:2], "--crawl", "other")
        assert (other.code, other.err.count("\n")) == (2, 1), other.err


def test_settings_that_are_not_passed_on_come_from_a_file(tmp_path: Path) -> None:
    with redis_server(tmp_path / "server") as server, Chain(2, 2) as chain:
        config = tmp_path / "crawl.toml"
        config.write_text('[[site]]\nmatch = "127.0.0.1"\nheaders = ["X-Secret: s3cret"]\n')
        reached = ("--engine", server.url, "--crawl", "news", "--quiet")
        first = crawler(*chain.seeds, "--job", tmp_path / "a", *WORDS, *reached, "--config", config)
        assert first.code == 0, first.err
        ran = crawler("work", "--dir", tmp_path / "a", *reached)
        assert (ran.code, ran.err.count("\n")) == (2, 1), ran.err
        assert "--config" in ran.err
        given = crawler("work", "--dir", tmp_path / "a", *reached, "--config", config)
        assert given.code == 0, given.err


def test_who_does_not_belong_there_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    password = {"CRAWLER_ENGINE_PASSWORD": "s3cret"}
    with redis_server(tmp_path / "server", "appendonly no", "requirepass s3cret") as server, Chain(1, 2) as chain:
        common = (*chain.seeds, *WORDS, "--quiet", "--engine", server.url)
        begin = crawler(*common, "--job", tmp_path / "crawl", "--crawl", "news", env=password)
        assert begin.code == 0, begin.err
        stored = ("--store", f"file:{tmp_path / 'store'}")
        (tmp_path / "file").touch()
        for words, env, about in (
            (("--crawl", "news"), {"CRAWLER_ENGINE_PASSWORD": "wr0ng"}, "CRAWLER_ENGINE_PASSWORD"),
            (("--crawl", "news", "--fpp", "0.25"), password, "seen.fpp"),
            (("--crawl", "news", "--partition-count", "5"), password, "4 partitions"),
            (("--crawl", "news", *stored), {"CRAWLER_ENGINE_PASSWORD": "wr0ng"}, "CRAWLER_ENGINE_PASSWORD"),
            (("--crawl", "news", *stored), password, "is another crawl"),
            (("--host-key", "address", *stored), password, "politeness.host_key"),
            (("--crawl", "free", "--partitions", "2", "--known", "nosuch", *stored), password, "crawl.known"),
            (("--crawl", "free", *stored, "--engine", f"redis://u:s3cret@{server.url[8:]}"), {}, "others could read"),
        ):
            ran = crawler(*common, "--job", tmp_path / "other", *words, env=env)
            assert (ran.code, ran.err.count("\n")) == (2, 1), ran.err
            assert about in ran.err
            assert "s3cret" not in ran.err
            assert "wr0ng" not in ran.err
        unknown = crawler(
            "work", "--engine", server.url, "--crawl", "unknown", "--dir", tmp_path / "other", env=password
        )
        assert (unknown.code, unknown.err.count("\n")) == (2, 1), unknown.err
        other = crawler(*common, "--job", tmp_path / "crawl", "--crawl", "another", env=password)
        assert (other.code, other.err.count("\n")) == (2, 1), other.err
        file = crawler(*common, "--job", tmp_path / "file", "--crawl", "free", env=password)
        assert (file.code, file.err.count("\n")) == (2, 1), file.err
        free = crawler(*common, "--job", tmp_path / "free", "--crawl", "free", env=password)
        assert free.code == 0, free.err
    for more in ((), stored):
        gone = crawler(*common, "--job", tmp_path / "other", "--crawl", "news", *more, env=password)
        assert (gone.code, gone.err.count("\n")) == (2, 1), gone.err
    assert {path.name for path in tmp_path.iterdir()} == {"server", "crawl", "free", "file"}
