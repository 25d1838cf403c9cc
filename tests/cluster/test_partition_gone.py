"""A partition whose directory is gone: begun anew it would lack what the others sent to it, and nobody would know."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

from tests.cluster.chain import Chain
from tests.cluster.test_crawl_in_partitions import begun, ended, in_two, records
from tests.program import crawler


def _fullest(directory: Path) -> Path:
    return max(directory.glob("partitions/*"), key=lambda path: (path / "pages.jsonl").stat().st_size)


def test_a_crawl_does_not_go_on_without_a_partition_that_had_begun(tmp_path: Path) -> None:
    directory, aside = tmp_path / "crawl", tmp_path / "aside"
    with Chain(6, 4) as chain:
        assert crawler(*chain.seeds, *in_two(directory)).code == 0
        whole = records(directory)
        lost = _fullest(directory)
        lost.rename(aside)

        ran = crawler(*chain.seeds, *in_two(directory))
        assert (ran.code, ran.err.count("\n")) == (2, 1), ran.err
        assert str(lost) in ran.err
        assert not lost.exists()
        told = json.loads(crawler("stats", directory, "--json").out)["partitions"]
        assert [part["partition"] for part in told if part["state"] == "gone"] == [int(lost.name)]
        lines = crawler("stats", directory).out.splitlines()
        assert [line.split() for line in lines if line.startswith(lost.name)] == [[lost.name, "gone"]]
        checked = crawler("verify", directory, "--json")
        findings = json.loads(checked.out)["findings"]
        assert checked.code != 0
        assert [(found["kind"], found["partition"]) for found in findings] == [("partition-gone", int(lost.name))]

        aside.rename(lost)
        assert crawler(*chain.seeds, *in_two(directory)).code == 0
        assert records(directory) == whole
        assert crawler("verify", directory).code == 0


def test_a_partition_that_goes_while_the_crawl_runs_stops_it(tmp_path: Path) -> None:
    directory = tmp_path / "crawl"
    with Chain(20, 6) as chain, begun(chain, *in_two(directory, "--rate", "20")) as process:
        lost = _fullest(directory)
        lost.rename(tmp_path / "aside")
        ran = ended(process)
        assert ran.code == 1, ran.err
        assert str(lost) in ran.err.splitlines()[-1]
        assert not os.path.lexists(lost)


def test_a_partition_of_another_crawl_is_refused(tmp_path: Path) -> None:
    with Chain(6, 4) as chain:
        for name in ("one", "other"):
            assert crawler(*chain.seeds, *in_two(tmp_path / name)).code == 0
        mine = _fullest(tmp_path / "one")
        aside = mine.rename(tmp_path / "aside")
        shutil.copytree(tmp_path / "other" / "partitions" / mine.name, mine)
        ran = crawler(*chain.seeds, *in_two(tmp_path / "one"))
        assert (ran.code, ran.err.count("\n")) == (2, 1), ran.err
        assert str(mine) in ran.err

        shutil.rmtree(mine)
        aside.rename(mine)
        assert crawler(*chain.seeds, *in_two(tmp_path / "one")).code == 0


def test_a_damaged_partition_is_named_with_its_repair(tmp_path: Path) -> None:
    directory = tmp_path / "crawl"
    with Chain(6, 4) as chain:
        assert crawler(*chain.seeds, *in_two(directory)).code == 0
        for table in (_fullest(directory) / "store").glob("*.sst"):
            table.write_bytes(b"\xff" * table.stat().st_size)
        ran = crawler(*chain.seeds, *in_two(directory))
    assert (ran.code, ran.err.count("\n")) == (1, 1), ran.err
    assert f"crawler repair {directory}" in ran.err
