"""Crawls by several processes, over chains of pages across hosts: complete, each page once, whatever is killed."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from crawler import Crawl
from crawler.base.carrier.local_client import LocalCarrier
from crawler.base.carrier.verbs import decoded
from crawler.job.partition.end_rounds import Announcement
from tests.asked import asked, enters
from tests.cluster.chain import Chain
from tests.program import PATIENCE, Ran, crawler, running, wait_until

WORDS = ("--scope", "any", "--allow-private", "--ignore-robots", "--delay", "0", "--partition-count", "4")


def in_two(directory: Path, *more: str | Path) -> tuple[str | Path, ...]:
    return ("--job", directory, *WORDS, "--partitions", "2", "--quiet", *more)


def records(directory: Path) -> Counter[str]:
    """How often each URL is in the output of the crawl."""
    lines = (line for path in directory.glob("partitions/*/pages.jsonl") for line in path.read_bytes().splitlines())
    return Counter(json.loads(line)["url"] for line in lines)


def workers(pid: int) -> list[int]:
    """The worker processes of the first process with that pid."""
    with contextlib.suppress(FileNotFoundError):
        children = [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
        return [child for child in children if b"work" in _command(child)]
    return []


def _command(pid: int) -> list[bytes]:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    return []


@contextmanager
def begun(chain: Chain, *words: str | Path, pages: int = 15, env: Mapping[str, str] | None = None) -> Iterator[Any]:
    """A crawl that has asked for some pages."""
    with running(*chain.seeds, *words, env=env) as process:
        wait_until(lambda: sum(chain.asked.values()) >= pages or process.poll() is not None, "pages are asked for")
        assert process.poll() is None, process.stderr.read().decode()
        yield process


def ended(process: Any) -> Ran:
    out, err = process.communicate(timeout=PATIENCE)
    return Ran(process.returncode, out.decode(), err.decode())


def test_a_crawl_goes_on_with_another_number_of_processes_and_more_seeds(tmp_path: Path) -> None:
    with Chain(6, 8) as chain:
        ran = crawler(*chain.seeds[:3], *in_two(tmp_path / "crawl")[:-1])
        assert ran.code == 0, ran.err
        assert re.search(r"^URLs +24 pages", ran.err, re.MULTILINE), "the summary is that of all partitions"
        first = records(tmp_path / "crawl")
        assert len(first) == 24
        plain = crawler(*chain.seeds, "--job", tmp_path / "crawl", *WORDS[:-2])
        assert (plain.code, plain.err.count("\n")) == (2, 1)
        assert "4 partitions" in plain.err
        assert "--partitions" in plain.err
        again = crawler("-", "--job", tmp_path / "crawl", *WORDS, "--partitions", "3", stdin="\n".join(chain.seeds))
        assert again.code == 0, again.err
        assert records(tmp_path / "crawl") == Counter(dict.fromkeys(chain.pages, 1))
        assert set(chain.asked.values()) == {1}
    names = {path.name for path in (tmp_path / "crawl").iterdir()}
    assert names == {"begun", "crawl.json", "lock", "partitions", "settings.json", "workers"}, (
        "neither the socket nor what came from standard input is left"
    )


def test_a_worker_that_is_killed_is_replaced(tmp_path: Path) -> None:
    with Chain(16, 10, 0.1) as chain, begun(chain, *in_two(tmp_path / "crawl")) as process:
        for _ in range(2):
            wait_until(lambda: len(workers(process.pid)) == 2, "both workers run")
            os.kill(workers(process.pid)[0], signal.SIGKILL)
        ran = ended(process)
        assert ran.code == 0, ran.err
        assert ran.err.count("SIGKILL") >= 1
        assert records(tmp_path / "crawl") == Counter(dict.fromkeys(chain.pages, 1))


@pytest.mark.parametrize("all_at_once", [False, True])
def test_the_same_command_goes_on_after_the_first_process_was_killed(tmp_path: Path, all_at_once: bool) -> None:
    with Chain(16, 8, 0.05) as chain:
        words = in_two(tmp_path / "crawl")
        with begun(chain, *words) as process:
            there = workers(process.pid)
            assert len(there) == 2
            process.kill()
            for pid in there if all_at_once else ():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            process.wait()
            wait_until(lambda: not any(b"work" in _command(pid) for pid in there), "the workers end with it")
        assert len(records(tmp_path / "crawl")) < len(chain.pages)
        ran = crawler(*chain.seeds, *words)
        assert ran.code == 0, ran.err
        assert records(tmp_path / "crawl") == Counter(dict.fromkeys(chain.pages, 1))


def test_ctrl_c_stops_all_in_order(tmp_path: Path) -> None:
    with Chain(16, 8, 0.05) as chain:
        words = in_two(tmp_path / "crawl")
        with begun(chain, *words) as process:
            process.send_signal(signal.SIGINT)
            ran = ended(process)
        assert ran.code == 130, ran.err
        before = dict(chain.asked)
        assert dict(records(tmp_path / "crawl")) == before, "what was in flight has been finished"
        ran = crawler(*chain.seeds, *words)
        assert ran.code == 0, ran.err
        assert records(tmp_path / "crawl") == Counter(dict.fromkeys(chain.pages, 1))
        assert set(chain.asked.values()) == {1}


def test_a_second_ctrl_c_ends_all_at_once(tmp_path: Path) -> None:
    with Chain(16, 8, 60.0) as chain, running(*chain.seeds, *in_two(tmp_path / "crawl")) as process:
        wait_until(lambda: chain.begun >= 4, "pages are asked for")
        there = workers(process.pid)
        process.send_signal(signal.SIGINT)
        while b"interrupted" not in process.stderr.readline():
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        ran = ended(process)
        assert ran.code == 130, ran.err
        wait_until(lambda: not any(b"work" in _command(pid) for pid in there), "the workers end with it")


def test_all_processes_read_their_configuration_again(tmp_path: Path) -> None:
    directory, config = tmp_path / "crawl", tmp_path / "crawl.toml"
    config.write_text("[scope]\nexclude = []\n")
    with Chain(6, 1_000, 0.05) as chain, begun(chain, *in_two(directory), "--config", config) as process:
        config.write_text("[scope]\nexclude = ['re:/[0-9]+/[1-9][0-9]*$']\n")
        ran = crawler("reload", directory)
        assert ran.code == 0, ran.err
        assert ran.out.count("scope.exclude") == 2, "each process has said so"
        ran = ended(process)
        assert ran.code == 0, ran.err
        assert len(records(directory)) < 6_000, "nothing more was followed"


def test_a_time_limit_that_is_over_at_once_ends_all(tmp_path: Path) -> None:
    with Chain(2, 1_000, 0.05) as chain:
        ran = crawler(*chain.seeds, *in_two(tmp_path / "crawl", "--max-time", "0.01"))
        assert (ran.code, ran.err) == (0, "")
        assert len(records(tmp_path / "crawl")) < 1_000


def test_a_worker_that_joins_stops_when_the_time_of_the_crawl_is_over(tmp_path: Path) -> None:
    directory = tmp_path / "crawl"
    with (
        Chain(2, 1_000, 0.05) as chain,
        begun(chain, *in_two(directory, "--max-time", "10", "--fail-on-limit")) as process,
    ):
        at = ("--engine", f"unix:{directory / 'carrier.sock'}", "--crawl", "crawl", "--dir", directory)
        with running("work", *at, "--quiet") as other:
            left, ran = ended(other), ended(process)
        assert (ran.code, left.code) == (3, 3), (ran.err, left.err)


def test_a_worker_comes_by_hand_and_goes(tmp_path: Path) -> None:
    directory, config, other_depth = tmp_path / "crawl", tmp_path / "sites.toml", tmp_path / "depth.toml"
    config.write_text('[[site]]\nmatch = "127.0.7.1"\nheaders = ["X-Key: 1"]\n')  # which are not passed on
    other_depth.write_text("[crawl]\nmax_depth = 3\n[politeness]\nhost_key = 'address'\n")
    words = (*in_two(directory), "--partitions", "1", "--config", config)
    with Chain(12, 12, 0.1) as chain, begun(chain, *words) as process:
        at = ("--engine", f"unix:{directory / 'carrier.sock'}", "--crawl")
        for more in (("--config", config, "--fpp", "0.5"), (), ("--config", other_depth)):
            refused = crawler("work", *at, "crawl", "--dir", directory, *more)
            assert (refused.code, refused.err.count("\n")) == (2, 1), "what is fixed is no matter of a worker"
        with running(
            "work", *at, "crawl", "--dir", directory, "--quiet", "--config", config, "--allow-private"
        ) as other:
            wait_until(lambda: _has_partition(directory, other.pid), "it has a partition")
            other.send_signal(signal.SIGINT)
            left = ended(other)
            assert left.code == 130, left.err
        ran = ended(process)
        assert ran.code == 0, ran.err
        assert records(directory) == Counter(dict.fromkeys(chain.pages, 1))
        assert set(chain.asked.values()) == {1}


async def test_who_came_by_hand_learns_of_the_end_although_late(tmp_path: Path) -> None:
    """Without that a worker would wait for ever for the first process."""
    directory = tmp_path / "crawl"
    with Chain(4, 12, 0.1) as chain, begun(chain, *in_two(directory)) as process:
        carrier = LocalCarrier(directory / "carrier.sock")
        await carrier.last([])
        await asyncio.to_thread(wait_until, lambda: not workers(process.pid), "the crawl has ended")
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(1.0)
        told = decoded((await carrier.get(["crawl"], "end"))[0], Announcement)
        assert told is not None
        assert told.ended
        await carrier.close()
        ran = await asyncio.to_thread(ended, process)
        assert ran.code == 0, ran.err
        assert records(directory) == Counter(dict.fromkeys(chain.pages, 1))


def test_hosts_of_one_domain_may_be_in_several_partitions(tmp_path: Path) -> None:
    """Addresses are domains of their own: of these, one partition has none that another has, either way."""
    config, directory = tmp_path / "by-host.toml", tmp_path / "crawl"
    config.write_text('[partitions]\nplaced_by = "host"\n')
    with Chain(6, 4) as chain:
        ran = crawler(*chain.seeds, *in_two(directory, "--config", config))
        assert ran.code == 0, ran.err
        assert records(directory) == Counter(dict.fromkeys(chain.pages, 1))
        assert crawler("verify", directory).code == 0
        config.write_text('[partitions]\nplaced_by = "domain"\n')
        other = crawler(*chain.seeds, *in_two(directory, "--config", config))
        assert (other.code, other.err.count("\n")) == (2, 1)
        assert "partitions.placed_by" in other.err


def _has_partition(directory: Path, pid: int) -> bool:
    return str(pid) in {path.read_text().strip() for path in directory.glob("partitions/*/lock")}


def test_a_crawl_in_a_program_has_no_partitions(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="--partitions"):
        Crawl(tmp_path / "crawl", ["http://127.0.0.1:1/"], partitions=2)
    assert not (tmp_path / "crawl").exists()


def test_the_first_process_serves_the_page_of_the_whole_crawl(tmp_path: Path) -> None:
    words = ("--job", tmp_path / "crawl", *WORDS, "--partitions", "2", "--dashboard", "0")
    with Chain(4, 500, 0.05) as chain, running(*chain.seeds, *words) as process:
        url = enters(process.stderr)

        def stats() -> Any:
            return json.loads(asked(f"{url}api/stats")[1])

        wait_until(lambda: stats()["pages_fetched"] > 0, "the page counts")
        assert len(stats()["partitions"]) == 4
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 130


@pytest.mark.parametrize(
    ("words", "about"),
    [
        (("--partitions", "2", "--output", "-"), "--output -"),
        (("--partitions", "2", "--keep-open"), "--keep-open"),
        (("--partitions", "0"), "partitions.processes"),
        (("--partition-count", "4"), "--partitions N"),
        (("--crawl", "news"), "--partitions N"),
        (("--partitions", "2", "--partition-count", "1025"), "partitions.count"),
        (("--partitions", "2", "--crawl", "a/b"), "'a/b'"),
        (("--engine", "unix:/nowhere/carrier.sock"), "--crawl"),
        (("--engine", "unix:/nowhere/carrier.sock", "--crawl", "a"), "/nowhere/carrier.sock"),
        (("--engine", "carrier:1", "--crawl", "a"), "unix:PATH"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_made(tmp_path: Path, words: tuple[str, ...], about: str) -> None:
    ran = crawler("http://127.0.0.1:1/", "--job", tmp_path / "crawl", *words)
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1), ran.err
    assert about in ran.err
    assert not (tmp_path / "crawl").exists()


def test_another_crawl_in_the_same_directory_is_refused(tmp_path: Path) -> None:
    seed = "http://127.0.0.1:1/"
    job, crawl = tmp_path / "job", tmp_path / "crawl"
    words = ("--allow-private", "--quiet")
    assert crawler(seed, "--job", job, *words).code == 1, "the seed cannot be fetched"
    assert (
        crawler(seed, "--job", crawl, *words, "--partitions", "1", "--partition-count", "2", "--fpp", "0.01").code == 1
    )
    before = {path: path.read_bytes() for path in (job / "job.json", crawl / "crawl.json")}
    for directory, more, about in (
        (job, ("--partitions", "2"), "leave out --partitions"),
        (crawl, ("--partitions", "2", "--partition-count", "3"), "2 partitions"),
        (crawl, ("--partitions", "2", "--fpp", "0.02"), "seen.fpp"),
        (crawl, ("--partitions", "2", "--crawl", "other"), "'other'"),
        (crawl / "partitions" / "01", (), str(crawl)),
    ):
        ran = crawler(seed, "--job", directory, *words, *more)
        assert (ran.code, ran.err.count("\n")) == (2, 1), ran.err
        assert about in ran.err
    assert before == {path: path.read_bytes() for path in before}
    at = f"unix:{crawl}/carrier.sock"
    nobody = crawler("work", "--engine", at, "--crawl", "crawl", "--dir", crawl)
    assert (nobody.code, nobody.err.count("\n")) == (2, 1), nobody.err
    assert "--partitions N" in nobody.err, "it says what to start"
    (crawl / "crawl.json").write_bytes(b"frontier-crawl 9 0\n")
    ran = crawler(seed, "--job", crawl, *words, "--partitions", "2")
    assert (ran.code, ran.err.count("\n")) == (2, 1), ran.err
    assert "version 9" in ran.err
