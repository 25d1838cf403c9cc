"""A partition goes on with a replica that was not sent what was fetched."""

from __future__ import annotations

import shutil
from pathlib import Path

from crawler.job.directory import LACKS_BODIES
from tests.cluster.chain import Chain
from tests.cluster.test_crawl_in_partitions import in_two, records
from tests.outputs import parts_of
from tests.program import crawler


def test_its_pages_are_fetched_again_and_a_line_says_how_many(tmp_path: Path) -> None:
    directory = tmp_path / "crawl"
    options = in_two(directory, "--output", "warc")
    with Chain(6, 4) as chain:
        assert crawler(*chain.seeds, *options).code == 0
        whole = records(directory)
        replica = max(directory.glob("partitions/*"), key=lambda path: (path / "pages.jsonl").stat().st_size)
        lacking = (replica / "pages.jsonl").read_bytes().count(b"\n")
        shutil.rmtree(replica / "warc")
        (replica / LACKS_BODIES).touch()

        ran = crawler(*chain.seeds, *options)
        assert ran.code == 0, ran.err
        assert f"partition {int(replica.name)}: {lacking} finished pages are fetched again" in ran.err
        assert records(directory) == whole
        assert parts_of(replica, "warc")
        assert crawler("verify", directory).code == 0
        assert not (replica / LACKS_BODIES).exists()
