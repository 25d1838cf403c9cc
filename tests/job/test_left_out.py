"""URLs that a rule of ours excluded: read if the settings of their rule changed, queued again once, also if killed."""

from __future__ import annotations

import json
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec.msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from crawler.base.disk import CRASH_AT
from crawler.base.kv import Batch, Family, Row
from crawler.base.settings.parts import FetchSettings, Settings
from crawler.frontier.entry import Entry, decode_entry, encode_entry
from crawler.job.found import Found
from crawler.job.job import Job
from crawler.job.left_out import ROWS, LeftOutError, LimitRow, OwnRules, decode_row
from crawler.job.platform import Platform
from crawler.job.recovery import stored_counters
from crawler.url.refusal.forbidden_targets import Rule, refusal_of
from crawler.url.urls.canonicaliser import canonicalise
from tests.durability.power import Inline
from tests.jobs import findings, rows, store_of, verify
from tests.laboratory import START, Laboratory, links
from tests.memory_store import MemoryStore
from tests.program import crawler
from tests.site import Site, tree

INSIDE = [f"http://10.0.0.1/{number}" for number in range(3 * ROWS + 5)]
PAGES = 60
CONFIG = "[politeness]\ndelay = 0.0\n[durability]\nsync_interval = 0.02\ncheckpoint_interval = 0.06\n"


class Reading(MemoryStore):
    """Counts how often the rows of a family are read."""

    def __init__(self) -> None:
        super().__init__()
        self.scans: Counter[Family] = Counter()

    def scan(self, family: Family, start: bytes, end: bytes | None = None, limit: int | None = None) -> list[Row]:
        self.scans[family] += 1
        return super().scan(family, start, end, limit)


def opened(directory: Path, store: MemoryStore, **fetch: Any) -> Job:
    """The job as a run with these settings opens it."""
    settings = replace(Settings(), fetch=FetchSettings(**fetch))
    job = Job(directory, settings, START, Platform(open_store=lambda _: store, executor=Inline))
    job.enforce(OwnRules.of(settings, store))
    return job


def refusing(directory: Path, store: MemoryStore) -> None:
    """A first run, which is led to addresses inside."""
    job = opened(directory, store)
    assert not job.left_out.left
    for at in range(0, len(INSIDE), 100):
        job.admit(Found([canonicalise(href) for href in INSIDE[at : at + 100]], 1, "http://a.test/", found_at=START))
    assert job.counters.urls_held_back == {Rule.PRIVATE_ADDRESS: len(INSIDE)}
    job.close()


def pending(store: MemoryStore) -> Counter[str]:
    return Counter(decode_entry(value).href for _, value in store.rows(Family.PENDING))


@pytest.mark.parametrize("killed_after", range(5))
def test_a_run_that_permits_them_queues_each_once_whenever_it_is_killed(tmp_path: Path, killed_after: int) -> None:
    store = Reading()
    refusing(tmp_path, store)
    permitted = {"allow_networks": ("10.0.0.0/8",)}
    job = opened(tmp_path, store, **permitted)
    for _ in range(killed_after):
        job.change_hosts(job.left_out.step)
    job.close()  # as a kill would: close writes nothing

    job = opened(tmp_path, store, **permitted)
    while job.left_out.left:
        job.change_hosts(job.left_out.step)
    assert job.counters.pending == job.frontier.queued == len(INSIDE)
    assert job.counters.urls_returned == len(INSIDE)
    assert not job.counters.urls_held_back
    assert not store.scan(Family.LEFT_OUT, b"")
    job.close()
    job = opened(tmp_path, store, **permitted)
    assert not job.left_out.left
    assert pending(store) == Counter(INSIDE)
    job.close()


def test_settings_that_change_while_rows_are_looked_at(tmp_path: Path) -> None:
    store = Reading()
    refusing(tmp_path, store)
    job = opened(tmp_path, store, allow_networks=("192.168.0.0/16",))
    job.change_hosts(job.left_out.step)
    job.close()
    job = opened(tmp_path, store, allow_private=True)
    while job.left_out.left:
        job.change_hosts(job.left_out.step)
    assert pending(store) == Counter(INSIDE)
    job.close()


@pytest.mark.parametrize(
    "point", ["step.written:1", "step.written:3", "step.marked:9", "step.recorded:20", "sync.done:2"]
)
def test_kills_of_a_run_that_queues_them_again(tmp_path: Path, point: str) -> None:
    with Site(tree(PAGES)) as site:
        urls = [site.url(path) for path in tree(PAGES)]
        (tmp_path / "seeds.txt").write_text("\n".join(urls))
        (tmp_path / "c.toml").write_text(CONFIG)
        words = (tmp_path / "seeds.txt", "--job", tmp_path / "job", "--config", tmp_path / "c.toml", "--quiet")
        assert crawler(*words).code == 1
        assert len(rows(tmp_path / "job")) == PAGES
        killed = crawler(*words, "--allow-private", env={CRASH_AT: point})
        assert killed.code == -signal.SIGKILL
        assert crawler(*words, "--allow-private").code == 0
        assert Counter(row["outcome"] for row in rows(tmp_path / "job")) == {"excluded": PAGES, "fetched": PAGES}
        assert len(site.pages_asked()) <= PAGES + 1
        assert verify(tmp_path / "job").code == 0


@pytest.mark.parametrize("limit", ["[budget]\nhost_pages = 9\n", "[traps]\nmax_variants = 9\n"])
def test_kills_of_a_run_without_the_limit_of_the_first(tmp_path: Path, limit: str) -> None:
    with Site(tree(PAGES, fan=8)) as site:
        job, config = tmp_path / "job", tmp_path / "c.toml"
        words = (site.url("/"), "--job", job, "--config", config, "--allow-private", "--quiet")
        (tmp_path / "c.toml").write_text(CONFIG + limit)
        assert crawler(*words).code == 0
        first = set(site.pages_asked())
        assert len(first) < 20
        (tmp_path / "c.toml").write_text(CONFIG)
        for point in ("step.written:2", "step.marked:5", "step.recorded:20"):
            assert crawler(*words, env={CRASH_AT: point}).code == -signal.SIGKILL
        assert crawler(*words).code == 0
        assert set(site.pages_asked()) == {site.url(path) for path in tree(PAGES, fan=8)}
    fetched = [row for row in rows(tmp_path / "job") if row["outcome"] == "fetched" and row.get("visit", 1) == 1]
    assert len(fetched) == len({row["url"] for row in fetched}) == PAGES
    assert verify(tmp_path / "job").code == 0


def test_a_record_that_a_power_loss_takes_is_held_back_no_more(tmp_path: Path) -> None:
    lab = Laboratory(tmp_path, {"http://a.test/": links(INSIDE[:20])})
    lab.run("http://a.test/")
    output = tmp_path / "pages.jsonl"
    lines = output.read_bytes().splitlines(keepends=True)
    output.write_bytes(b"".join(lines[:10]))
    job = opened(tmp_path, lab.store)
    assert job.counters.urls_excluded == job.counters.urls_held_back[Rule.PRIVATE_ADDRESS]
    assert len(lab.store.scan(Family.LEFT_OUT, b"")) == job.counters.urls_excluded < 20
    job.close()
    lab.run("http://a.test/")
    assert findings(tmp_path, lab.store, stored_counters(lab.store)) == []
    assert len([record for record in lab.records() if record.get("rule")]) == 20


@given(st.sampled_from(Rule), st.sampled_from(["http://10.0.0.1/", "http://a.test:25/x?y", "http://[fc00::1]/"]))
def test_rows(rule: Rule, href: str) -> None:
    refusal = refusal_of("10.0.0.1", 80, FetchSettings())
    assert refusal is not None
    refusal = replace(refusal, rule=rule, subject="25" if rule is Rule.BLOCKED_PORT else "10.0.0.1")
    row = LimitRow(Entry(href, 3, "http://a.test/", priority=1), rule, refusal.subject)
    key, value = f"{rule}\0{href}".encode(), msgspec.msgpack.encode(row)
    assert decode_row(key, value) == row
    for bad in (b"", value[:-1], value[:5], b"\xff\xff" + value[2:], encode_entry(row.entry)):
        with pytest.raises(LeftOutError):
            decode_row(key, bad)
    for other in (key + b"x", f"\0{href}".encode()):
        with pytest.raises(LeftOutError):
            decode_row(other, value)


def test_verify_and_repair(tmp_path: Path) -> None:
    (tmp_path / "seeds.txt").write_text("http://127.0.0.99:8099/\nhttp://127.0.0.98:8099/\n")
    assert crawler(tmp_path / "seeds.txt", "--job", tmp_path / "job", "--quiet").code == 1
    with store_of(tmp_path / "job") as store:
        batch, first = Batch(), store.scan(Family.LEFT_OUT, b"")[0]
        batch.put(Family.LEFT_OUT, first[0], first[1][:-3])
        store.write(batch)
    found = verify(tmp_path / "job")
    assert found.kinds == {"row-damaged", "count-differs"}
    ran = crawler("repair", tmp_path / "job", "--json")
    assert "rows-removed" in ran.out
    assert verify(tmp_path / "job").code == 0
    stats = json.loads(crawler("stats", tmp_path / "job", "--json").out)
    assert stats["urls_held_back"]["private-address"] == 1
