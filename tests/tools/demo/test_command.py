"""``crawler demo``: the web and its crawl in one program, to Ctrl-C and back."""

from __future__ import annotations

import signal
from collections import Counter
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from crawler.cli.demo import STATE
from crawler.tools.demo.web import FOLDERS, HOSTS
from tests.asked import enters
from tests.cli.test_dashboard_and_top import ask
from tests.cli.test_keep_open import records
from tests.program import PATIENCE, crawler, running, wait_until

# Nobody watches.
QUICK = ("--delay", "0", "--per-host", "4")

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def job(tmp_path: Path) -> Path:
    return tmp_path / "job"


def host_of(record: Any) -> str:
    return str(urlsplit(record["url"]).hostname).partition(".")[0]


def test_each_host_behaves_as_it_is_said_to(job: Path) -> None:
    ended = crawler("demo", "--once", "--job", job, *QUICK, timeout=200)
    assert ended.code == 0, ended.err
    found: dict[str, list[Any]] = {}
    for record in records(job):
        found.setdefault(host_of(record), []).append(record)
    assert len({record["url"] for record in records(job)}) == len(records(job))
    assert {*found} == {*HOSTS}
    for name in ("dead", "silent"):
        assert {record["outcome"] for record in found[name]} == {"failed"}
        assert len(found[name]) == 6
        assert any(record["via"] is not None for record in found[name]), "something links there"
    assert max(record["seconds"] for record in found["slow"]) > 2
    assert {record["status"] for record in found["busy"]} == {200}
    assert sum(bool(record.get("duplicate_of")) for record in found["mirror"]) > 50
    assert [record["url"].partition("/search")[1] for record in found["guide"] if record["outcome"] == "excluded"] == [
        "/search"
    ]
    statuses = Counter(record["status"] for name in FOLDERS for record in found[name])
    assert statuses[200] > 60
    assert (statuses[301], statuses[404], statuses[410]) == (3, 8, 6)
    assert crawler("verify", job).code == 0


def test_it_lives_until_ctrl_c_and_resumes_where_it_was(job: Path) -> None:
    with running("demo", "--job", job, *QUICK) as process:
        url = enters(process.stderr)
        wait_until(lambda: ask(url, "api/stats")["pages_fetched"] > 150, "the pages come in")
        wait_until(lambda: ask(url, "api/stats")["revisits"] > 5, "pages are visited again")
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 130
    before = records(job)
    state = (job / STATE).read_bytes()
    with running("demo", "--job", job, *QUICK) as process:
        enters(process.stderr)
        seen = len(before) + 3
        wait_until(lambda: len(records(job)) >= seen, "the crawl goes on")
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 130
    assert (job / STATE).read_bytes() == state
    first = Counter(record["url"] for record in records(job) if "visit" not in record)
    assert max(first.values()) == 1, "only revisits ask again"


def test_limits_end_it(job: Path) -> None:
    assert crawler("demo", "--job", job, "--max-pages", "20", *QUICK).code == 0
    assert 20 <= sum(record["outcome"] == "fetched" for record in records(job)) < 100
    assert crawler("demo", "--job", job, "--max-time", "2", "--fail-on-limit", *QUICK).code == 3
