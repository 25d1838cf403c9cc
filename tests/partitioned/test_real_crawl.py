"""What is seen of a crawl that ``crawler --partitions`` runs, while it runs and after it has ended."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
import zipfile
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.asked import enters, opened
from tests.partitioned.crawls import told
from tests.program import PATIENCE, crawler, running, wait_until
from tests.site import Site, tree

ADDRESSES = ("127.0.0.2", "127.0.0.5", "127.0.0.6", "127.0.0.9")


def test_a_crawl_of_several_processes(tmp_path: Path) -> None:
    job = tmp_path / "crawl"
    with ExitStack() as up:
        sites = [up.enter_context(Site(tree(25), latency=0.05, address=(name, 0))) for name in ADDRESSES]
        seeds = [site.url("/") for site in sites]
        options = ("--partitions", "2", "--partition-count", "4", "--allow-private", "--delay", "0", "--per-host", "1")
        crawl = up.enter_context(running(*seeds, "--job", job, *options, "--output", "wacz", "--quiet"))
        wait_until(lambda: crawler("stats", job).code == 0, "the first partitions")
        wait_until(lambda: told("stats", job)["pages_fetched"] > 0, "the first pages")
        with running("dashboard", job) as board:
            url = enters(board.stdout)
            wait_until(lambda: told("stats", job)["pages_fetched"] > 10, "more pages")
            with opened(f"{url}api/stats") as answer:
                shown = json.loads(answer.read())
            assert shown["state"] == "running"
            assert 0 < shown["pages_fetched"] <= 100
            if crawl.poll() is None:
                asked = urllib.request.Request(
                    f"{url}api/control",
                    b'{"do": "stop"}',
                    {"Content-Type": "application/json"},
                )
                with pytest.raises(urllib.error.HTTPError, match="409"):
                    opened(asked)
        assert crawl.wait(PATIENCE) == 0
        urls = {site.url(path) for site in sites for path in tree(25)}
    whole = told("stats", job)
    assert whole["state"] == "ended"
    assert whole["pages_fetched"] == len(urls)
    assert sum(line["messages_waiting"] for line in whole["partitions"]) == 0
    records = [json.loads(line) for line in crawler("tail", job, "--all").out.splitlines()]
    assert Counter(record["url"] for record in records) == Counter(urls)
    assert told("verify", job) == {"whole": True, "findings": []}
    with zipfile.ZipFile(job / "archive.wacz") as package:
        pages = [json.loads(line)["url"] for line in package.read("pages/pages.jsonl").splitlines()[1:]]
    assert Counter(pages) == Counter(urls)
