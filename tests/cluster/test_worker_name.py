"""The name of a worker goes to whoever begins after its death in the same directory, and to nobody else."""

from __future__ import annotations

import shutil
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from subprocess import PIPE, Popen

import pytest

from crawler.cluster.drain_file import is_alive
from crawler.cluster.worker_name import WORKERS, own_name
from tests.base.carrier.redis_server import redis_server
from tests.cluster.chain import Chain
from tests.cluster.test_crawl_in_partitions import WORDS, begun, records, workers
from tests.program import crawler, wait_until

WORKER = """
import sys
from pathlib import Path
from crawler.cluster.worker_name import own_name
with own_name(Path(sys.argv[1])) as name:
    print(name, flush=True)
    sys.stdin.read()
"""


@contextmanager
def worker(directory: Path) -> Iterator[tuple[Popen[str], str]]:
    """A process, and the name that it has."""
    with Popen([sys.executable, "-c", WORKER, str(directory)], stdin=PIPE, stdout=PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()


def killed(directory: Path) -> str:
    """The name of a worker that is dead."""
    with worker(directory) as (process, name):
        process.kill()
        process.wait()
    return name


def files(directory: Path) -> list[str]:
    return sorted(path.name for path in (directory / WORKERS).iterdir())


def test_the_name_of_a_killed_worker_is_taken_and_that_of_a_living_one_is_not(tmp_path: Path) -> None:
    dead = killed(tmp_path)
    with worker(tmp_path) as (first, name):
        assert name == dead
        first.send_signal(signal.SIGSTOP)  # it does nothing, and lives
        with worker(tmp_path) as (_, other), own_name(tmp_path) as own:
            assert len({name, other, own}) == 3
            assert files(tmp_path) == sorted({name, other, own})
        assert files(tmp_path) == sorted({name, other}), "one that ends in order leaves nothing"
        with own_name(tmp_path) as own:
            assert own == other


def test_workers_that_begin_together_have_names_of_their_own(tmp_path: Path) -> None:
    left = killed(tmp_path)
    with ExitStack() as stack:
        processes = [
            stack.enter_context(
                Popen([sys.executable, "-c", WORKER, str(tmp_path)], stdin=PIPE, stdout=PIPE, text=True)
            )
            for _ in range(8)
        ]
        try:
            names = [process.stdout.readline().strip() for process in processes if process.stdout is not None]
        finally:
            for process in processes:
                process.kill()
    assert len(set(names)) == len(processes)
    assert left in names


@pytest.mark.parametrize("where", ["in a copy of the directory", "after the machine began again"])
def test_nobody_gets_a_name_from_elsewhere(tmp_path: Path, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    first = tmp_path / "first"
    first.mkdir()
    dead = killed(first)
    if where == "in a copy of the directory":
        shutil.copytree(first, tmp_path / "second")
        directory = tmp_path / "second"
    else:
        (tmp_path / "boot_id").write_text("12345678-1234-1234-1234-123456789abc\n")
        monkeypatch.setattr("crawler.job.crawl_file.BOOT_ID", tmp_path / "boot_id")
        directory = first
    with own_name(directory) as name:
        assert name != dead
        assert files(directory) == [name], "what is of no use to anybody is removed"


def test_a_worker_that_is_killed_and_begun_again_has_its_claims_at_once(tmp_path: Path) -> None:
    def holders() -> list[bytes]:
        return [server.say("HGET", f"crawler:{{news:p{number}}}:state", "holder") for number in range(4)]

    with redis_server(tmp_path / "server") as server, Chain(6, 8, 0.05) as chain:
        words = ("--job", tmp_path / "crawl", *WORDS, "--quiet", "--engine", server.url, "--crawl", "news")
        with begun(chain, *words, "--partitions", "1") as process:
            before, (dies,) = holders(), workers(process.pid)
            process.kill()
            wait_until(lambda: not is_alive(dies), "the worker is dead too")
        assert all(before)
        ran = crawler(*chain.seeds, *words, "--partitions", "1")
        assert ran.code == 0, ran.err
        assert holders() == before, "whoever waits until they have run out has another name"
        assert records(tmp_path / "crawl") == Counter(dict.fromkeys(chain.pages, 1))
