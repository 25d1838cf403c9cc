"""``forget`` and ``repair`` of a crawl in partitions."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from crawler.job.job_lock import JobLock
from tests.cluster.chain import Chain
from tests.cluster.test_crawl_in_partitions import in_two, records
from tests.program import crawler

CHAINS, LENGTH = 4, 5


def in_one(directory: Path, *more: str) -> tuple[str | Path, ...]:
    """In one process, which starts sooner than two."""
    return in_two(directory, "--seen", "exact", "--partitions", "1", *more)


@pytest.fixture(scope="module")
def chain() -> Iterator[Chain]:
    with Chain(CHAINS, LENGTH) as web:
        yield web


@pytest.fixture(scope="module")
def finished(chain: Chain, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("finished") / "crawl"
    ran = crawler(*chain.seeds, *in_one(directory))
    assert ran.code == 0, ran.err
    return directory


@pytest.fixture
def directory(finished: Path, tmp_path: Path) -> Path:
    return shutil.copytree(finished, tmp_path / "crawl")


def test_what_is_forgotten_is_fetched_again_when_another_partition_finds_it(chain: Chain, directory: Path) -> None:
    pages = [chain.url(0, step) for step in range(3)]
    unknown = chain.url(CHAINS + 1, 0)
    before = Counter(chain.asked)
    ran = crawler("forget", directory, *pages[:2], unknown)
    assert ran.code == 1, ran.err
    assert [line.rpartition(": ")[0].partition(":")[0] for line in ran.out.splitlines()][:2] == ["forgotten"] * 2
    again = crawler(*chain.seeds, *in_one(directory))
    assert again.code == 0, again.err
    assert Counter(chain.asked) - before == Counter(pages[:2]), "what they link to is still known"
    assert records(directory) == Counter(dict.fromkeys(chain.pages, 1)) + Counter(pages[:2])
    assert crawler("verify", directory).code == 0


def test_nothing_is_changed_while_the_crawl_runs(chain: Chain, directory: Path) -> None:
    words = ("forget", directory, chain.url(0, 0)), ("repair", directory)
    for place in (directory, directory / "partitions" / "02"):  # of the first process, and of any worker
        lock = JobLock(place)
        for each in words:
            ran = crawler(*each)
            assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
            assert "in use" in ran.err
        lock.release()


def test_no_url_is_forgotten_if_one_is_pending(chain: Chain, tmp_path: Path) -> None:
    directory = tmp_path / "crawl"
    ran = crawler(*chain.seeds, *in_one(directory, "--max-pages", "3"))
    assert ran.code == 0, ran.err
    done = set(records(directory))
    waiting = next(chain.url(number, 0) for number in range(CHAINS) if chain.url(number, 0) not in done)
    ran = crawler("forget", directory, *done, waiting)
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert f"{waiting} is pending" in ran.err
    ran = crawler("forget", directory, *done)
    assert ran.code == 0, "none of them was forgotten before"


def test_each_partition_is_repaired(directory: Path) -> None:
    assert crawler("repair", directory).out == f"{directory}: whole, 0 of 4 partitions had to be repaired\n"
    (directory / "partitions" / "01" / "job.json").unlink()
    (directory / "partitions" / "03" / "run.json").write_text("{")
    assert crawler("verify", directory).code == 1
    ran = crawler("repair", directory)
    assert ran.code == 0, ran.out + ran.err
    changed = {line.split(": ")[0] for line in ran.out.splitlines()[:-1]}
    assert changed == {str(directory / "partitions" / number) for number in ("01", "03")}
    assert ran.out.splitlines()[-1] == f"{directory}: whole, 2 of 4 partitions had to be repaired"
    assert crawler("verify", directory).code == 0
    assert json.loads(crawler("repair", directory, "--json").out) == {"was_whole": True, "changes": [], "findings": []}


def test_what_belongs_elsewhere_is_told_and_not_moved(chain: Chain, directory: Path) -> None:
    parts = directory / "partitions"
    places = sorted(path.name for path in parts.iterdir())[:2]
    (parts / places[0]).rename(parts / "aside")
    (parts / places[1]).rename(parts / places[0])
    (parts / "aside").rename(parts / places[1])
    before = records(directory)
    ran = crawler("repair", directory, "--json")
    assert ran.code == 1
    told = json.loads(ran.out)
    assert {(each["kind"], each["partition"]) for each in told["findings"]} >= {
        ("host-elsewhere", int(place)) for place in places
    }
    assert records(directory) == before
    again = crawler(*chain.seeds, *in_one(directory))
    assert (again.code, again.err.count("\n")) == (2, 1), again.err
    shutil.rmtree(parts / places[0])
    assert "partition-gone" in crawler("repair", directory, "--json").out
