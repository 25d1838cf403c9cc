"""A machine burns with its disk: others have all of it that anybody relied on, and the crawl is complete.

``benchmarks/partitions/burning.py`` is the long form.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from warcio.archiveiterator import ArchiveIterator

from crawler.job.crawl_file import partition_directories
from crawler.job.directory import holds_job
from tests.base.carrier.redis_server import redis_server
from tests.cluster.chain import Chain
from tests.cluster.test_crawl_in_partitions import WORDS, begun, ended, records
from tests.program import crawler, running, wait_until

pytestmark = pytest.mark.long

FLAGS = (*WORDS, "--quiet", "--output", "warc,bodies", "--concurrency", "8")


def numbers(directory: Path) -> set[int]:
    """The partitions that are at home there."""
    return {int(path.name) for path in partition_directories(directory)}


def copied(directory: Path) -> set[int]:
    """Those of which it has a whole replica."""
    return {int(path.name) for path in directory.glob("replicas/[0-9][0-9]") if holds_job(path)}


def responses(directory: Path) -> Counter[str]:
    """How often each URL is in the archives of the partitions. A damaged record would raise."""
    found = Counter[str]()
    for path in directory.glob("partitions/*/warc/*"):
        with path.open("rb") as file:
            for each in ArchiveIterator(file, verify_http=True, check_digests="raise"):
                each.content_stream().read()
                if each.rec_type == "response":
                    found[each.rec_headers.get_header("WARC-Target-URI")] += 1
    return found


@contextmanager
def on_two_machines(home: Path, chain: Chain, *words: str) -> Iterator[tuple[Any, Any, tuple[str, ...]]]:
    """A crawl with a worker in each of the directories ``one`` and ``two``, as soon as all partitions have replicas.
    ``words`` are for the second worker."""
    with ExitStack() as stack:
        server = stack.enter_context(redis_server(home / "server"))
        reached = ("--engine", server.url, "--crawl", "news", "--workers", "2")
        first = stack.enter_context(begun(chain, "--job", home / "one", *FLAGS, *reached, pages=0))
        wait_until(lambda: bool(server.say("HEXISTS", "crawler:{news:crawl}:values", "settings")), "the crawl is known")
        second = stack.enter_context(running("work", "--dir", home / "two", *reached, *(words or ("--quiet",))))
        wait_until(
            lambda: (
                len(numbers(home / "one") | numbers(home / "two")) == 4
                and numbers(home / "one") <= copied(home / "two")
                and numbers(home / "two") <= copied(home / "one")
            ),
            "each machine has a replica of all that the other one has",
        )
        yield first, second, reached


def test_a_machine_that_burns_costs_no_page_and_no_output(tmp_path: Path) -> None:
    with Chain(8, 26, 0.15) as chain, on_two_machines(tmp_path, chain) as (first, second, reached):
        known = chain.begun
        wait_until(lambda: chain.begun > known + 10, "pages are asked for")
        lost = numbers(tmp_path / "two")
        assert lost
        assert sum(chain.asked.values()) < len(chain.pages) - 40, "much is left"
        second.kill()
        second.wait()
        shutil.rmtree(tmp_path / "two")
        with running("work", "--dir", tmp_path / "three", *reached, "--quiet") as third:
            ran = ended(first)
            last = ended(third)
        assert ran.code == 0, ran.err
        assert last.code == 0, last.err
        homes = [numbers(tmp_path / name) for name in ("one", "three")]
        assert (homes[0] | homes[1], homes[0] & homes[1]) == ({0, 1, 2, 3}, set())
        once = Counter(dict.fromkeys(chain.pages, 1))
        assert records(tmp_path / "one") + records(tmp_path / "three") == once
        assert responses(tmp_path / "one") + responses(tmp_path / "three") == once
        assert sum(chain.asked.values()) <= len(once) + 8 + 10, "what was in flight, and a tenth of a second"
        for name in (each for each in ("one", "three") if numbers(tmp_path / each)):
            verified = crawler("verify", tmp_path / name)
            assert verified.code == 0, verified.out + verified.err
