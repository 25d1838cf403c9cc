"""Jobs of other versions of the program are refused, and nothing in them is changed."""

from __future__ import annotations

import asyncio
import hashlib
import json
from pathlib import Path

import pytest

import crawler as library
from crawler import __version__
from crawler.base.kv import Family
from crawler.base.settings.parts import SHAPING
from crawler.frontier.entry import Entry, encode_entry
from crawler.frontier.host import Host, encode_host
from crawler.frontier.page import Page, pack_page
from crawler.frontier.recrawl.change_rate import ChangeRate
from crawler.job import crawl_file, identity, inbox, run_settings
from crawler.job.checkpoint import generations
from crawler.job.checkpoint.envelope import encode_envelope
from crawler.job.crawl_file import CRAWL, partition_directory
from crawler.job.directory import IDENTITY, OtherFormatError
from crawler.job.durable_frontier import DurableFrontier
from crawler.job.identity import read_identity
from crawler.job.metrics.catalogue import Counters
from crawler.job.records import Done, Outcome, encode_counters, encode_done
from crawler.job.store.rocks import RocksStore
from crawler.seen.exact.ledger import LedgerCounts
from crawler.seen.filters import segment_format
from crawler.web.fetch.robots_answers import GoodCopy, encode_robots
from tests.program import crawler
from tests.simulated_web import page

URL = "https://a.test/0"


def make_job(directory: Path) -> Path:
    """A job of this program, one of whose URLs is done."""
    with DurableFrontier(directory, delay=0) as frontier:
        frontier.add([f"https://{host}.test/{number}" for host in "abc" for number in range(4)])
        lease = frontier.take()
        assert lease is not None
        frontier.finish(lease)
        frontier.checkpoint()
    return directory


def foreign_job(directory: Path, magic: str = identity.FORMER_MAGIC, number: int = 9) -> Path:
    """What this program sees of the job of another version: it understands the head of ``job.json`` and no more."""
    directory.mkdir(parents=True)
    (directory / IDENTITY).write_bytes(encode_envelope(magic, number, {"of": "another kind"}))
    (directory / "pages.jsonl").write_bytes(b'{"url":"https://a.test/0"}\n')
    (directory / "store").mkdir()
    (directory / "store" / "CURRENT").write_text("of another kind\n")
    return directory


def foreign_crawl(directory: Path, magic: str = crawl_file.FORMER_MAGIC, number: int = 1) -> Path:
    """The same of a crawl in partitions."""
    foreign_job(partition_directory(directory, 0))
    (directory / CRAWL).write_bytes(encode_envelope(magic, number, {"of": "another kind"}))
    return directory


def state(directory: Path) -> dict[str, tuple[str, int]]:
    """Everything in the directory, also when it was written last."""
    found = {}
    for path in sorted((directory, *directory.rglob("*"))):
        data = path.read_bytes() if path.is_file() else b""
        found[str(path)] = (hashlib.sha256(data).hexdigest(), path.stat().st_mtime_ns)
    return found


COMMANDS = {
    "crawl": (URL, "--job", "{job}"),
    "stats": ("stats", "{job}", "--json"),
    "verify": ("verify", "{job}"),
    "repair": ("repair", "{job}"),
    "explain": ("explain", "{job}", URL),
    "hosts": ("hosts", "{job}"),
    "tail": ("tail", "{job}"),
    "top": ("top", "{job}"),
    "dashboard": ("dashboard", "{job}"),
    "add": ("add", "{job}", "https://a.test/new"),
    "retry": ("retry", "{job}", "--failed"),
    "forget": ("forget", "{job}", URL),
    "export": ("export", "{job}", "--parquet", "{out}"),
    "report": ("report", "{job}", "--out", "{out}"),
    "backup": ("backup", "{job}", "{out}"),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_job_from_before_the_first_format_is_refused_and_left_alone(command: str, tmp_path: Path) -> None:
    job = foreign_job(tmp_path / "job")
    check_refused(job, command, "commit f6e4da37")


@pytest.mark.parametrize("command", [*(name for name in COMMANDS if name != "forget"), "partitions"])
def test_a_crawl_in_partitions_from_before_too(command: str, tmp_path: Path) -> None:
    crawl = foreign_crawl(tmp_path / "crawl")
    check_refused(crawl, command, "commit f6e4da37")


@pytest.mark.parametrize("number", [0, 1, 99])
@pytest.mark.parametrize("command", ["crawl", "stats", "verify", "repair"])
def test_any_other_number_is_refused_too(number: int, command: str, tmp_path: Path) -> None:
    job = foreign_job(tmp_path / "job", identity.MAGIC, number)
    check_refused(job, command, f"format version {number}; this program, crawler {__version__}, opens version 3,")


def test_another_number_of_a_crawl_in_partitions_is_refused_too(tmp_path: Path) -> None:
    crawl = foreign_crawl(tmp_path / "crawl", crawl_file.MAGIC, 1)
    check_refused(crawl, "partitions", f"format version 1; this program, crawler {__version__}, opens version 2,")


def check_refused(job: Path, command: str, said: str) -> None:
    words = COMMANDS.get(command) or (URL, "--job", "{job}", "--partitions", "2")
    before, out = state(job), job.with_name("out")
    ran = crawler(*(word.format(job=job, out=out) for word in words), timeout=30)
    (line,) = ran.err.splitlines()
    assert said in line
    as_json = json.dumps({"error": line.removeprefix("crawler: error: "), "exit": 2}) + "\n"
    assert (ran.code, ran.out) == (2, as_json if "--json" in words else ""), ran
    assert state(job) == before
    assert not out.exists()


def test_the_library_refuses_them_too(tmp_path: Path) -> None:
    job = foreign_job(tmp_path / "job")
    before = state(job)

    async def crawl() -> None:
        async with library.Crawl(job, seeds=[URL]):
            pass

    with pytest.raises(OtherFormatError, match="commit f6e4da37"):
        DurableFrontier(job)
    with pytest.raises(ValueError, match="commit f6e4da37"):
        asyncio.run(crawl())
    assert state(job) == before


def test_of_another_job_nothing_but_its_head_need_be_understood(tmp_path: Path) -> None:
    for head in (b"frontier-job 99 of-another-kind\n\xff", b"crawler-job 1 0\n\xff"):
        (tmp_path / IDENTITY).write_bytes(head)
        with pytest.raises(OtherFormatError):
            read_identity(tmp_path)


def test_a_job_whose_store_says_that_another_version_made_it_is_not_repaired(tmp_path: Path) -> None:
    """Its ``job.json`` is lost, and with it what tells that at once."""
    job = make_job(tmp_path / "job")
    (job / IDENTITY).unlink()
    store = RocksStore(job / "store")
    batch = store.batch()
    batch.put(Family.META, b"format", b"9")
    store.write(batch)
    store.close()
    ran = crawler("repair", job)
    assert ran.code == 2, ran
    assert "another version" in ran.err


# What a job of the format stores. When it no longer holds, what is stored has changed: raise the number, here too.
FORMAT = 3
STORED: dict[str, object] = {
    "families": (
        "admitted asides content done due hosts inlet ledger left_out meta outbox pages payloads pending "
        "requests robots seen soft404 traps"
    ),
    "shaping": ("canonical.rules crawl.order seen.capacity seen.fpp seen.hash seen.kind seen.layout seen.ledger"),
    "versions": {"generation": 2, "segment": 1, "inbox": 1, "run": 1},
    "encoded": {
        "entry": "98ae687474703a2f2f682e746573742f01c0c200000000",
        "host": (
            "9204969bcb0000000000000000cb000000000000000000c0c0cb000000000000000000c0c2c2c299"
            "000000cb0000000000000000c0cb00000000000000000000000000c40102c2"
        ),
        "done": "0394a766657463686564ccc890c41798ae687474703a2f2f682e746573742f01c0c200000000",
        "page": (
            "92029ddc0012ae687474703a2f2f682e746573742f01c0c200000000cb0000000000000000c3c200"
            "c2000000c400c00201cb404e000000000000c0cb4014000000000000c0c0c092cb3ff00000000000"
            "00cb40000000000000000000cb0000000000000000"
        ),
        "counters": f"01dc003c{0:014x}9098{0:026x}8080{0:018x}8080{0:046x}8080{0:016x}",
        "ledger": "01" + "00" * 24,
        "robots": "9701cd01f4cb3ff0000000000000c0c40094ccc8cb0000000000000000c4012ac280",
    },
}


def test_what_is_stored_changes_with_the_format_alone() -> None:
    entry = Entry("http://h.test/", 1)
    again = Page(entry._replace(revisit=True), 2, 1, 60.0, None, 5.0, rate=ChangeRate(1.0, 2.0))
    stored: dict[str, object] = {
        "families": " ".join(sorted(family.value for family in Family)),
        "shaping": " ".join(sorted(f"{table}.{key}" for table, key in SHAPING)),
        "versions": {
            "generation": generations.VERSION,
            "segment": segment_format.VERSION,
            "inbox": inbox.VERSION,
            "run": run_settings.VERSION,
        },
        "encoded": {
            "entry": encode_entry(entry).hex(),
            "host": encode_host(Host("h.test:80")).hex(),
            "done": encode_done(Done(Outcome.FETCHED, 200, entry, ())).hex(),
            "page": pack_page(again).hex(),
            "counters": encode_counters(Counters()).hex(),
            "ledger": LedgerCounts().encode().hex(),
            "robots": encode_robots(page("", status=500), 1.0, GoodCopy(200, 0.0, b"*")).hex(),
        },
    }
    assert FORMAT == identity.VERSION
    assert stored == STORED, "raise the format: docs/internals/versions.md says how"
