"""How many hosts are in which state: the same that the table of hosts says, at a bounded price."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from crawler.base.kv import Family
from crawler.base.settings.parts import BudgetSettings, PolitenessSettings
from crawler.base.settings.sites import Sites
from crawler.engine.run import Run
from crawler.frontier.host import Host
from crawler.frontier.host_status import HostState, state_of
from crawler.frontier.politeness import HoldReason
from crawler.frontier.states import IN_LINE
from crawler.inspect.host_table import chosen_hosts, host_rows
from crawler.inspect.hosts_now import HostsNow
from crawler.job.job import Job
from crawler.web.fetch import Failure, FailureKind, Response
from tests.frontier.hosts import made_host
from tests.jobs import crawler
from tests.laboratory import Laboratory, links
from tests.site import Site

NOW = 1_700_000_000.0
HOSTS = {
    HostState.BLOCKED: made_host("a.test:80", size=1, blocked=True, retired=True),
    HostState.RETIRED: made_host("b.test:80", size=1, retired=True, paused=True),
    HostState.PAUSED: made_host("c.test:80", size=1, paused=True),
    HostState.IDLE: Host("d.test:80"),
    HostState.SNOOZED: made_host("e.test:80", size=1, next_time=NOW + 60, hold_reason=HoldReason.SNOOZED),
    HostState.HELD: made_host("k.test:80", size=1, next_time=NOW + 1, hold_reason=HoldReason.RETRY_AFTER),
    HostState.WAITING: made_host("f.test:80", size=1, next_time=NOW + 1, hold_reason=HoldReason.GAP),
    HostState.READY: made_host("g.test:80", size=1, next_time=NOW - 1, hold_reason=HoldReason.SNOOZED),
    HostState.LEASED: made_host("h.test:80", size=1, leased=1, taken=1, next_time=NOW + 60),
    HostState.ROBOTS: made_host("i.test:80", size=1, leased=1, side_request=True, next_time=NOW - 1),
    HostState.QUEUED: made_host("j.test:80", size=1, state=IN_LINE),
}


def test_each_state_is_told() -> None:
    assert {state_of(host, NOW, BudgetSettings()): state for state, host in HOSTS.items()} == {s: s for s in HostState}
    assert state_of(made_host("k.test:80", fetched=3), NOW, BudgetSettings(host_pages=3)) is HostState.BLOCKED


def test_while_a_crawl_runs_they_are_those_of_its_table(tmp_path: Path) -> None:
    dead = Failure(FailureKind.REFUSED, "connection refused", 0.0)
    busy = Response(429, {}, "text/html", "utf-8", b"", None, "300", 0.0, 0)
    pages: dict[str, Any] = {f"http://h{n}.test/": links([f"/{m}" for m in range(9)]) for n in range(20)}
    pages |= {f"http://dead{n}.test/{m}": dead for n in range(3) for m in range(9)}
    pages |= {f"http://busy{n}.test/": busy for n in range(4)}
    lab = Laboratory(tmp_path / "job", pages)
    lab.settings = replace(lab.settings, politeness=PolitenessSettings(delay=5.0, backoff_first=2.0, patience="short"))
    looks: list[tuple[Counter[str], dict[str, int]]] = []

    async def look(crawl: Run, job: Job) -> None:
        assert crawl.stats()["hosts_by_state"] is None
        await asyncio.sleep(1)
        assert crawl.job.change_hosts(lambda batch: job.frontier.overrides.pause("h3.test:80", batch))
        assert crawl.job.change_hosts(lambda batch: job.frontier.overrides.block("h4.test:80", batch))
        while True:
            await asyncio.sleep(1)
            now = lab.now + asyncio.get_running_loop().time()
            stored = list(job.store.rows(Family.HOSTS))
            names = (key.decode() for key, _ in stored)
            serving = crawl.serving
            working = {name: row for name in names if (row := job.frontier.describe_known(name, now, serving))}
            settings, beside = Sites(lab.settings), HostsNow(job.store, serving=serving)
            rows = host_rows(chosen_hosts(stored, settings, beside), settings, now, beside, working)
            crawl.gauges.settle()
            looks.append((Counter(row["state"] for row in rows), crawl.stats()["hosts_by_state"]))

    lab.run(*pages, max_time=400, during=look)
    assert len(looks) > 300
    for table, counts in looks:
        assert counts == {state.value: table[state.value] for state in HostState}
    met = set().union(*(table for table, _ in looks))
    assert met >= {state.value for state in HostState} - {"ready", "robots", "queued"}


def test_of_a_job_that_does_not_run_they_are_counted_on_the_spot(tmp_path: Path) -> None:
    words = ("--allow-private", "--ignore-robots", "--delay", "0", "--max-pages", "1", "--quiet")
    with Site({"/": "x"}) as site:
        (tmp_path / "seeds").write_text(f"http://127.0.0.1:1/\nhttp://127.0.0.1:2/\n{site.url('/')}\n")
        assert crawler("crawl", tmp_path / "seeds", "--job", tmp_path / "job", *words).code == 0
    stats = json.loads(crawler("stats", tmp_path / "job", "--json").out)
    table = json.loads(crawler("hosts", tmp_path / "job", "--json").out)["hosts"]
    assert stats["hosts"] == 3
    counts = stats["hosts_by_state"]
    assert sum(counts.values()) == 3
    # A moment lies between the two commands.
    waiting = Counter("waiting" if row["state"] == "ready" else row["state"] for row in table)
    assert counts["waiting"] + counts["ready"] == waiting["waiting"]
