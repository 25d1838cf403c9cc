"""Limits and signals are obeyed, and other hosts served, while dear bodies come in."""

from __future__ import annotations

import signal
import time
from collections import Counter

from crawler.engine.run import GRACE
from tests.examples import long_or
from tests.hostile.server import head, page
from tests.hostile.web import EVIL, INNOCENT, STALL_MOST, Hostile
from tests.program import wait_until
from tests.site import linked

HOSTS = long_or(10, 20)
MAX_TIME = 1.0
MARGIN = 20.0  # for the start of the program and its last generation, on a busy machine
ROBOTS = b"User-agent: *\n" + b"".join(b"Disallow: /*%d*a*b*c$\n" % number for number in range(100_000))
DEAR = head("Content-Length: 510000", kind="text/plain") + ROBOTS[:510_000]
ENTRIES = "".join(f"<url><loc>http://{EVIL}/{number}</loc></url>" for number in range(long_or(20_000, 50_000)))


def dear_hosts(hostile: Hostile, count: int) -> list[str]:
    """Hosts whose robots.txt takes long to parse, and a page that asks for a rule of it."""
    return [
        hostile.host(f"dear{number}.test", {"/robots.txt": DEAR, "/x": page("<p>x")}) + "/x" for number in range(count)
    ]


def test_a_time_limit_holds_while_dear_robots_txt_come_in(hostile: Hostile) -> None:
    hostile.pages[EVIL] = {"/": page("<p>x")}
    seeds = ["/", *dear_hosts(hostile, HOSTS)]
    with hostile.running("--max-time", str(MAX_TIME), "--concurrency", "64", seeds=seeds) as program:
        crawled = program.end()
    assert crawled.ran.code == 0, crawled.ran.err
    assert crawled.seconds < MAX_TIME + GRACE + MARGIN
    assert crawled.stall < STALL_MOST
    assert {row["outcome"] for row in crawled.of(INNOCENT).values()} <= {"fetched"}
    again = hostile.crawl("--concurrency", "64", seeds=seeds)
    assert Counter(row["outcome"] for row in again.rows if "dear" in row["url"]) == {"fetched": HOSTS}


def test_a_signal_is_obeyed_while_dear_pages_and_sitemaps_come_in(hostile: Hostile) -> None:
    many = page(linked(f"/{number}" for number in range(long_or(40_000, 100_000))))
    listing = page(f"<urlset>{ENTRIES}</urlset>", kind="application/xml")
    paths = [f"/{kind}{number}" for kind in ("many", "sitemap") for number in range(1)]
    hostile.pages[EVIL] = {path: many if path.startswith("/many") else listing for path in paths}
    settings = {"politeness.per_host": 8, "politeness.delay": 0.0}
    with hostile.running(seeds=paths, settings=settings) as program:
        wait_until(lambda: all(hostile.server.count(path) for path in paths), "all are asked for")
        begun = time.monotonic()
        program.process.send_signal(signal.SIGTERM)
        crawled = program.end()
        took = time.monotonic() - begun
    assert crawled.ran.code == 130, crawled.ran.err
    assert took < GRACE + MARGIN
    assert crawled.stall < STALL_MOST
    assert {row["outcome"] for row in crawled.rows} <= {"fetched"}
