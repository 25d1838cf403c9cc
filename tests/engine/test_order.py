"""Crawls of a real site in each order: stopped, looked at, carried on, whole at the end."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from crawler.base.kv import Family
from crawler.frontier.host import decode_host
from tests.jobs import PAGES, Stopped, crawler, rows, store_of, verify
from tests.site import Site, tree


@pytest.mark.parametrize("order", ["depth", "score"])
def test_a_crawl_in_any_order_is_stopped_and_carried_on(tmp_path: Path, order: str) -> None:
    with Site(tree(PAGES)) as site:
        made = Stopped(site, tmp_path / "seeds.txt", tmp_path / "job")
        made.seeds.write_text(site.url("/") + "\n")
        words = (made.seeds, "--job", made.job, "--allow-private", "--delay", "0", "--quiet", "--concurrency", "1")
        assert crawler(*words, "--order", order, "--max-pages", "12").code == 0
        assert verify(made.job).code == 0
        depths = [int(str(row["depth"])) for row in rows(made.job)]
        assert (max(depths) > 2) == (order == "depth"), "newest first goes deep at once"
        with store_of(made.job) as store:
            (row,) = store.scan(Family.HOSTS, b"")
            assert (decode_host("h", row[1]).tally.opic_score > 0.0) == (order == "score")
        other = "breadth"
        refused = crawler(*words, "--order", other)
        assert refused.code == 2
        assert str(order) in refused.err
        assert "--job" in refused.err
        assert crawler(*words).code == 0
        assert Counter(row["url"] for row in rows(made.job)) == Counter(site.url(path) for path in tree(PAGES))
        assert verify(made.job).code == 0
