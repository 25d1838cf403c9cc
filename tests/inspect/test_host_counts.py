"""What a host has counted is what the output holds of it, whatever was lost in between."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from crawler.base.kv import Family
from crawler.frontier import decode_host
from crawler.frontier.host import encode_host
from tests.jobs import Stopped, change, repair, rows, stopped_job, verify


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stopped]:
    with stopped_job(tmp_path_factory.mktemp("stopped"), 20) as made:
        yield made


def miscount(job: Path) -> None:
    def one_more(found: list[tuple[bytes, bytes]]) -> tuple[bytes, bytes]:
        ((key, value),) = found
        host = decode_host(key.decode(), value)
        host.tally.fetched += 1
        host.tally.failed += 2
        return key, encode_host(host)

    change(job, Family.HOSTS, one_more)


def test_a_host_that_counts_other_than_the_output_holds_is_named_and_mended(stopped: Stopped, tmp_path: Path) -> None:
    job = stopped.copy(tmp_path / "job")
    assert verify(job).code == 0
    count = len(rows(job))
    miscount(job)
    found = verify(job)
    assert found.code == 1
    (finding,) = found.findings
    assert finding["kind"] == "host-output-count"
    assert (finding["counted_fetched"], finding["counted_failed"]) == (count + 1, 2)
    assert (finding["found_fetched"], finding["found_failed"]) == (count, 0)
    assert repair(job).code == 0
    assert verify(job).code == 0
    stopped.carries_on_to_the_end(job)


def test_records_that_are_lost_with_the_power_are_counted_once(stopped: Stopped, tmp_path: Path) -> None:
    job = stopped.copy(tmp_path / "job")
    # The generation stands for what came before it: only what is newer may be lost.
    (job / "seen").rename(job / "seen.gone")
    (job / "seen").mkdir()
    pages = job / "pages.jsonl"
    lines = pages.read_bytes().splitlines(keepends=True)
    pages.write_bytes(b"".join(lines[:-3]) + lines[-3][:10])
    stopped.carries_on_to_the_end(job)
