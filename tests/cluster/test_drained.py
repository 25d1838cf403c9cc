"""``crawler work --drain`` and ``--forget-partition``, as one types them, with real processes over Redis."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

from tests.cluster.chain import Chain
from tests.cluster.test_burnt_machine import numbers, on_two_machines
from tests.cluster.test_crawl_in_partitions import ended, records
from tests.program import crawler, wait_until


def test_a_worker_that_is_drained_leaves_a_directory_that_nobody_needs(tmp_path: Path) -> None:
    with Chain(8, 26, 0.15) as chain, on_two_machines(tmp_path, chain) as (first, second, _):
        assert numbers(tmp_path / "two")
        drained = crawler("work", "--drain", "--dir", tmp_path / "two")
        assert drained.code == 0, drained.err
        assert ended(second).code == 0
        assert numbers(tmp_path / "one") == {0, 1, 2, 3}
        shutil.rmtree(tmp_path / "two")
        ran = ended(first)
        assert ran.code == 0, ran.err
        assert records(tmp_path / "one") == Counter(dict.fromkeys(chain.pages, 1))
        assert sum(chain.asked.values()) == len(chain.pages), "visits under way had time to end"


def test_what_nobody_can_take_stays(tmp_path: Path) -> None:
    assert crawler("work", "--drain", "--dir", tmp_path).code == 2
    with Chain(8, 26, 0.15) as chain, on_two_machines(tmp_path, chain) as (first, second, reached):
        known = chain.begun
        had = min(numbers(tmp_path / "one"))
        refused = crawler("work", "--dir", tmp_path / "three", *reached, "--forget-partition", str(had))
        assert refused.code == 2
        assert f"partition {had} is not gone" in refused.err
        wait_until(lambda: chain.begun > known + 10, "the replicas keep pace")
        first.kill()
        first.wait()
        shutil.rmtree(tmp_path / "one")
        wait_until(lambda: numbers(tmp_path / "two") == {0, 1, 2, 3}, "the replicas go on")
        drained = crawler("work", "--drain", "--dir", tmp_path / "two")
        assert drained.code == 1
        assert "no other worker could take them" in drained.err
        assert ended(second).code == 130
