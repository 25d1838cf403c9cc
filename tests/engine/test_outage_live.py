"""Our own line is down for a while, with real servers and connections. Each host is an address of loopback."""

from __future__ import annotations

import contextlib
import json
import signal
from collections import Counter
from pathlib import Path

from crawler.job.live_status import read_live
from tests.jobs import rows, verify
from tests.program import crawler, running, wait_until
from tests.site import Site, tree

HOSTS = [f"127.0.0.{number}" for number in range(2, 12)]


def test_a_crawl_that_is_killed_in_an_outage_loses_nothing(tmp_path: Path) -> None:
    """Ten hosts of ten ports, which go away together. The next process begins while they are gone."""
    job, seeds = tmp_path / "job", tmp_path / "seeds.txt"
    options = (seeds, "--job", job, "--allow-private", "--delay", "0.05", "--quiet", "--scope", "host")

    def is_down() -> bool:
        live = read_live(job)
        return live is not None and live.stats["outage"]["now"]

    sites = [Site(tree(40), address=(host, 0)) for host in HOSTS]
    with contextlib.ExitStack() as up:
        for site in sites:
            up.enter_context(site)
        seeds.write_text("".join(f"http://{site.hosts[0]}/\n" for site in sites))
        with running(*options) as crawl:
            wait_until(lambda: all(len(site.asked) > 3 for site in sites), "each has been asked")
            up.close()
            wait_until(is_down, "it is an outage")
            crawl.send_signal(signal.SIGKILL)
            crawl.wait()
    with running(*options) as crawl, contextlib.ExitStack() as up:
        wait_until(is_down, "it is an outage for the next process too")
        assert json.loads(crawler("explain", job, f"http://{sites[0].hosts[0]}/page/39", "--json").out)["paused"]
        for site in sites:
            host, port = site.hosts[0].split(":")
            up.enter_context(Site(tree(40), address=(host, int(port))))
        assert crawl.wait() == 0
    assert Counter(row["outcome"] for row in rows(job)) == {"fetched": 40 * len(HOSTS)}
    assert verify(job).code == 0
