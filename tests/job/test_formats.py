"""Jobs of other formats: newer ones are refused, older ones opened as they are or converted, also when killed."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any, cast

import pytest
from rocksdict import Rdict

from crawler import __version__
from crawler.base.disk.failpoints import CONVERT_POINTS, VARIABLE
from crawler.base.kv import Batch, Family
from crawler.base.settings import SHAPING, Settings
from crawler.frontier import Entry, Host, decode_host, encode_entry, encode_host
from crawler.inspect.integrity.repairer import repair_job
from crawler.inspect.integrity.verifier import verify_job
from crawler.inspect.job_reader import open_job
from crawler.job import inbox, run_settings
from crawler.job.checkpoint import encode_envelope, generations
from crawler.job.directory import IDENTITY, JobError
from crawler.job.durable_frontier import DurableFrontier
from crawler.job.formats import FIRST, KNOWN
from crawler.job.identity import (
    MAGIC,
    OtherFormatError,
    check_readable,
    check_shape,
    read_identity,
    shape_of_job,
    shaping_of,
)
from crawler.job.platform import Platform
from crawler.job.records import Counters, Done, Outcome, encode_counters, encode_done
from crawler.job.store import RocksStore
from crawler.job.store.rocks import database_options
from crawler.seen.exact import LedgerCounts
from crawler.seen.filters import segment_format
from crawler.web.fetch.robots_cache import GoodCopy, encode_robots
from crawler.web.fetch.simulated import page
from tests.job.converting import ADDITIVE, BEFORE, CONVERTING, MARK
from tests.jobs import flip, store_of
from tests.program import PATIENCE, Ran, Started, crawler

URLS = [f"https://{host}.test/{number}" for host in "abc" for number in range(4)]
DONE = 2
NOW = KNOWN.usual
NEXT, LAST = ADDITIVE.newest, CONVERTING.newest


def make_job(directory: Path) -> Path:
    """A job of this program, some of whose URLs are done."""
    with DurableFrontier(directory, delay=0) as frontier:
        frontier.add(URLS)
        for _ in range(DONE):
            lease = frontier.take()
            assert lease is not None
            frontier.finish(lease)
        frontier.checkpoint()
    return directory


def body(job: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((job / IDENTITY).read_bytes().partition(b"\n")[2])
    return content


def as_format(job: Path, number: int, **changes: object) -> Path:
    (job / IDENTITY).write_bytes(encode_envelope(MAGIC, number, body(job) | changes))
    return job


@pytest.fixture
def job(tmp_path: Path) -> Path:
    return make_job(tmp_path / "job")


@pytest.fixture
def older(job: Path) -> Path:
    """The same as a program would have made it that knew neither the ledger nor one of the settings."""
    shaping = body(job)["shaping"]
    del shaping["seen"]["tightening"]
    as_format(job, NOW, shaping=shaping)
    options = database_options()
    families = {family.value: options for family in Family}
    store = Rdict(str(job / "store"), options, column_families=families)
    store.drop_column_family(Family.LEDGER.value)
    store.close()
    with pytest.raises(OSError, match="made by another version of the program: it has no family 'ledger'"):
        RocksStore(job / "store")
    return job


def state(job: Path) -> dict[str, tuple[str, int]]:
    """Everything in the directory, also when it was written last."""
    found = {}
    for path in sorted(job.rglob("*")):
        data = path.read_bytes() if path.is_file() else b""
        found[str(path)] = (hashlib.sha256(data).hexdigest(), path.stat().st_mtime_ns)
    return found


# -- newer jobs ------------------------------------------------------------------------------------------------

COMMANDS = {
    "crawl": ("{seeds}", "--job", "{job}"),
    "stats": ("stats", "{job}", "--json"),
    "verify": ("verify", "{job}"),
    "repair": ("repair", "{job}"),
    "explain": ("explain", "{job}", URLS[0]),
    "hosts": ("hosts", "{job}"),
    "tail": ("tail", "{job}"),
    "dashboard": ("dashboard", "{job}"),
    "top": ("top", "{job}"),
    "add": ("add", "{job}", "https://a.test/new"),
    "forget": ("forget", "{job}", URLS[0]),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_job_of_a_newer_program_is_refused_and_left_alone(job: Path, command: str) -> None:
    seeds = job.with_name("seeds.txt")
    seeds.write_text(URLS[0])
    as_format(job, KNOWN.newest + 1, program="9.8.7")
    # What the newer one stores may be anything.
    (job / "store" / "CURRENT").write_text("of another kind\n")
    (job / "lock").unlink()
    before = state(job)

    ran = crawler(*(word.format(job=job, seeds=seeds) for word in COMMANDS[command]), timeout=30)

    (line,) = ran.err.splitlines()
    assert (ran.code, ran.out) == (2, ""), ran
    assert f"has format version {KNOWN.newest + 1}, written by crawler 9.8.7; " in line
    assert f"this program, crawler {__version__}, reads jobs up to version {KNOWN.newest}" in line
    assert state(job) == before


def test_of_a_newer_job_nothing_but_the_number_need_be_understood(job: Path) -> None:
    (job / IDENTITY).write_bytes(f"{MAGIC} 99 of-another-kind\n\xff".encode("latin-1"))
    with pytest.raises(
        OtherFormatError, match=r"has format version 99; this program, .* reads jobs up to version \d+:"
    ):
        read_identity(job)


def test_the_library_refuses_it_too(job: Path) -> None:
    as_format(job, KNOWN.newest + 1)
    with pytest.raises(JobError, match=f"has format version {KNOWN.newest + 1}"):
        DurableFrontier(job)


# -- additive formats ------------------------------------------------------------------------------------------


def test_a_setting_that_the_job_does_not_know_is_what_it_was_then(older: Path) -> None:
    assert Settings().seen.tightening != BEFORE, "the default is another today"
    shape = shape_of_job(older, ADDITIVE)
    assert shape["seen"]["tightening"] == BEFORE
    check_shape(older, shape, ADDITIVE)
    with pytest.raises(JobError, match=r"seen\.tightening cannot change .*was 0\.5, now 0\.85"):
        check_shape(older, shaping_of(Settings()), ADDITIVE)


def test_an_older_job_is_read_without_being_written(older: Path) -> None:
    before = state(older)
    with open_job(older, ADDITIVE) as looked:
        assert looked.settings.seen.tightening == BEFORE
        assert looked.counters.pending == len(URLS) - DONE
        assert looked.store.get(Family.LEDGER, b"x") is None
        assert looked.store.get_many(Family.LEDGER, [b"x", b"y"]) == [None, None]
        assert not looked.store.holds_prefix(Family.LEDGER, b"")
        assert looked.store.scan(Family.LEDGER, b"") == []
        assert sum(each["count"] for each in looked.restore_seen().seen.statistics()["slices"]) == len(URLS)
    assert list(verify_job(older, ADDITIVE)) == []
    assert state(older) == before


def test_what_runs_makes_it_one_of_the_newest_format_and_keeps_its_settings(older: Path) -> None:
    with DurableFrontier(older, delay=0, platform=Platform(formats=ADDITIVE)) as frontier:
        assert frontier.job.notes == [f"converted from format version {NOW} to {NEXT}"]
        left = take_all(frontier)
    assert len(left) == len(URLS) - DONE
    identity = read_identity(older, ADDITIVE)
    assert (identity.format, identity.converting) == (NEXT, None)
    assert identity.shaping["seen"]["tightening"] == BEFORE
    with pytest.raises(OtherFormatError, match=f"version {NEXT}"):
        read_identity(older)
    assert list(verify_job(older, ADDITIVE)) == []


def take_all(frontier: DurableFrontier) -> list[str]:
    taken = []
    while (lease := frontier.take()) is not None:
        taken.append(lease.url)
        frontier.finish(lease)
    return taken


@pytest.mark.parametrize("lost", ["job.json", "a host"])
def test_an_older_job_is_repaired_as_what_it_is(older: Path, lost: str) -> None:
    if lost == "a host":
        with store_of_older(older) as store:
            batch = store.batch()
            ((key, _), *_) = store.scan(Family.HOSTS, b"")
            batch.delete(Family.HOSTS, key)
            store.write(batch)
    else:
        flip(older / IDENTITY, -10)
    repaired = repair_job(older, 1_700_000_000.0, lambda _: None, formats=ADDITIVE)
    assert not repaired.was_whole
    assert repaired.left == []
    assert read_identity(older, ADDITIVE).format == NEXT
    assert read_identity(older, ADDITIVE).shaping["seen"]["tightening"] == (BEFORE if lost == "a host" else 0.85)
    with DurableFrontier(older, delay=0, platform=Platform(formats=ADDITIVE)) as frontier:
        assert len(take_all(frontier)) == len(URLS) - DONE


class store_of_older:
    """The store of a job without the family, opened without making it."""

    def __init__(self, job: Path) -> None:
        self.path = job / "store"

    def __enter__(self) -> RocksStore:
        self.store = RocksStore(self.path, optional=frozenset({Family.LEDGER}))
        return self.store

    def __exit__(self, *_: object) -> None:
        self.store.close()


# -- formats that must be converted ----------------------------------------------------------------------------


def convert(job: Path, point: str = "") -> Ran:
    process = Started([str(job)], {**os.environ, VARIABLE: point}, subprocess.DEVNULL, module="tests.job.converting")
    try:
        out, err = process.communicate(timeout=PATIENCE)
    finally:
        process.close()
    return Ran(process.wait(), out.decode(), err.decode())


def check_converted(job: Path) -> None:
    identity = read_identity(job, CONVERTING)
    assert (identity.format, identity.converting) == (LAST, None)
    assert identity.shaping["seen"]["tightening"] == BEFORE
    assert not list(job.glob("convert.*"))
    assert (job / "seen" / "converted").read_text() == "x", "converted once"
    with store_of(job) as store:
        assert store.get(Family.META, MARK) == b"x", "converted once"
        assert len(store.scan(Family.PENDING, b"")) == len(URLS) - DONE
        for key, value in store.scan(Family.HOSTS, b""):
            decode_host(key.decode(), value)
    assert list(verify_job(job, CONVERTING)) == []


def test_what_must_be_converted_is_only_read_by_what_converts_it(older: Path) -> None:
    before = state(older)
    with pytest.raises(
        OtherFormatError, match=rf"version {NOW}; this program, .* reads version {LAST}: .* converts it"
    ):
        check_readable(older, CONVERTING)
    with pytest.raises(OtherFormatError, match=rf"version {NOW}, this program repairs version {LAST}"):
        repair_job(older, 0.0, lambda _: None, formats=CONVERTING)
    assert state(older) == before


def test_a_conversion(older: Path) -> None:
    ran = convert(older)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == f"converted from format version {NOW} to {LAST}\n"
    check_converted(older)
    assert convert(older).out == "", "a second run has nothing to convert"


@pytest.mark.parametrize("point", [*CONVERT_POINTS, "convert.aside:2", "convert.placed:2"])
def test_a_conversion_that_is_killed_is_finished_by_the_next_run(older: Path, point: str) -> None:
    ran = convert(older, point)
    assert ran.code == -signal.SIGKILL, f"{point} was not reached: {ran.err}"
    untouched = point in ("convert.copied", "convert.step", "convert.built")
    if untouched:
        assert list(verify_job(older, ADDITIVE)) == [], "the program before it can still use the job"
    else:
        with pytest.raises(OtherFormatError, match=f"has format version {LAST}"):
            read_identity(older, ADDITIVE)
    if not untouched and point != "convert.ended":
        with pytest.raises(OtherFormatError, match=f"is being converted from format version {NOW} to {LAST}"):
            check_readable(older, CONVERTING)
    ran = convert(older)
    assert (ran.code, ran.err) == (0, "")
    check_converted(older)


def test_a_conversion_can_be_killed_again_and_again(older: Path) -> None:
    for point in CONVERT_POINTS:
        assert convert(older, point).code == -signal.SIGKILL, point
    assert convert(older).code == 0
    check_converted(older)


def test_the_program_before_may_go_on_while_nothing_is_marked(older: Path) -> None:
    assert convert(older, "convert.built").code == -signal.SIGKILL
    with DurableFrontier(older, delay=0, platform=Platform(formats=ADDITIVE)) as frontier:
        frontier.add("https://later.test/")
    assert convert(older).code == 0
    with DurableFrontier(older, delay=0, platform=Platform(formats=CONVERTING)) as frontier:
        assert "https://later.test/" in take_all(frontier), "what was copied before it is not used"


# -- the number rises with what is stored ----------------------------------------------------------------------


def test_a_program_older_than_the_first_format_is_named(job: Path) -> None:
    shaping = body(job)["shaping"]
    del shaping["seen"]["ledger"]
    as_format(job, FIRST, shaping=shaping)
    seeds = job.with_name("seeds.txt")
    seeds.write_text(URLS[0])
    for words in (("stats", job), ("verify", job), ("repair", job), (seeds, "--job", job)):
        ran = crawler(*words)
        assert ran.code == 2, ran
        (line,) = ran.err.splitlines()
        assert "older than format version 1" in line
        assert f"crawler {__version__}, reads jobs of version 1 to {KNOWN.newest}" in line


# What jobs of each format store. An entry is never changed: when the last one no longer holds, what is stored has
# changed, and needs a format of its own in `crawler.job.formats`, a row here and jobs in tests/corpus.
STORED: dict[int, dict[str, object]] = {
    1: {
        "families": "admitted content done due hosts ledger meta pages pending robots seen traps",
        "shaping": (
            "canonical.rules crawl.order seen.capacity seen.fpp seen.growth seen.kind seen.layout seen.ledger "
            "seen.tightening"
        ),
        "versions": {"generation": 2, "segment": 1, "batch": 1, "inbox": 1, "run": 1},
        "encoded": {
            "entry": "00000000000100000000000000687474703a2f2f682e746573742f0a",
            "host": "03000000000000ff" + "00" * 38 + "f0bf" + "00" * 46 + "f0bf02" + "00" * 27,
            "done": "0200c8000000000000000100000000000000687474703a2f2f682e746573742f0a",
            "counters": "01" + "00" * 296,
            "ledger": "01" + "00" * 24,
        },
    },
    2: {
        "families": "admitted content done due hosts ledger meta pages pending refused robots seen traps",
        "shaping": (
            "canonical.rules crawl.order seen.capacity seen.fpp seen.growth seen.hash seen.kind seen.layout "
            "seen.ledger seen.tightening"
        ),
        "versions": {"generation": 2, "segment": 1, "batch": 1, "inbox": 1, "run": 1},
        "encoded": {
            "entry": "00000000000100000000000000687474703a2f2f682e746573742f0a",
            "host": "03000000000000ff" + "00" * 38 + "f0bf" + "00" * 46 + "f0bf02" + "00" * 27,
            "done": "0200c8000000000000000100000000000000687474703a2f2f682e746573742f0a",
            "counters": "01" + "00" * 384,
            "ledger": "01" + "00" * 24,
            "robots": "02f401000000000000f03f0000c80000000000000000002a",
        },
    },
    3: {
        "families": (
            "admitted border content done due hosts ledger meta pages pending refused robots seen soft404 traps"
        ),
        "shaping": (
            "canonical.rules crawl.order seen.capacity seen.fpp seen.growth seen.hash seen.kind seen.layout "
            "seen.ledger seen.tightening"
        ),
        "versions": {"generation": 2, "segment": 1, "batch": 1, "inbox": 1, "run": 1},
        "encoded": {
            "entry": "00000000000100000000000000687474703a2f2f682e746573742f0a",
            "host": "03000000000000ff" + "00" * 38 + "f0bf" + "00" * 46 + "f0bf02" + "00" * 27,
            "done": "0200c8000000000000000100000000000000687474703a2f2f682e746573742f0a",
            "counters": "01" + "00" * 416,
            "ledger": "01" + "00" * 24,
            "robots": "02f401000000000000f03f0000c80000000000000000002a",
        },
    },
    4: {
        "families": (
            "admitted asides border content done due hosts ledger meta pages pending refused robots seen soft404 traps"
        ),
        "shaping": (
            "canonical.rules crawl.order seen.capacity seen.fpp seen.growth seen.hash seen.kind seen.layout "
            "seen.ledger seen.tightening"
        ),
        "versions": {"generation": 2, "segment": 1, "batch": 1, "inbox": 1, "run": 1},
        "encoded": {
            "entry": "00000000000100000000000000687474703a2f2f682e746573742f0a",
            "host": "03000000000000ff" + "00" * 38 + "f0bf" + "00" * 46 + "f0bf02" + "00" * 27,
            "done": "0200c8000000000000000100000000000000687474703a2f2f682e746573742f0a",
            "counters": "01" + "00" * 416,
            "ledger": "01" + "00" * 24,
            "robots": "02f401000000000000f03f0000c80000000000000000002a",
        },
    },
    5: {
        "families": (
            "admitted asides border content done due hosts ledger meta pages payloads pending refused robots seen "
            "soft404 traps"
        ),
        "shaping": (
            "canonical.rules crawl.order seen.capacity seen.fpp seen.growth seen.hash seen.kind seen.layout "
            "seen.ledger seen.tightening"
        ),
        "versions": {"generation": 2, "segment": 1, "batch": 1, "inbox": 1, "run": 1},
        "encoded": {
            "entry": "00000000000100000000000000687474703a2f2f682e746573742f0a",
            "host": "03000000000000ff" + "00" * 38 + "f0bf" + "00" * 46 + "f0bf02" + "00" * 27,
            "done": "0200c8000000000000000100000000000000687474703a2f2f682e746573742f0a",
            "counters": "01" + "00" * 504,
            "ledger": "01" + "00" * 24,
            "robots": "02f401000000000000f03f0000c80000000000000000002a",
        },
    },
}
STORED[6] = STORED[5]  # on demand: its records are in several files
STORED[7] = STORED[5] | {"families": str(STORED[5]["families"]).replace("robots", "requests robots")}  # on demand
STORED[8] = STORED[7] | {  # on demand
    "families": str(STORED[7]["families"]).replace("hosts", "hosts inlet").replace("pages", "outbox pages")
}
STORED[9] = STORED[8] | {
    "encoded": {**cast("dict[str, str]", STORED[8]["encoded"]), "counters": "02dc0040" + "00" * 64}
}
STORED[10] = STORED[9]  # on demand: its store says which step it holds


def test_what_is_stored_changes_with_the_format_alone() -> None:
    entry = Entry("http://h.test/", 1)
    stored: dict[str, object] = {
        "families": " ".join(sorted(family.value for family in Family)),
        "shaping": " ".join(sorted(f"{table}.{key}" for table, key in SHAPING)),
        "versions": {
            "generation": generations.VERSION,
            "segment": segment_format.VERSION,
            "batch": Batch().encode()[1],
            "inbox": inbox.VERSION,
            "run": run_settings.VERSION,
        },
        "encoded": {
            "entry": encode_entry(entry).hex(),
            "host": encode_host(Host("h.test:80")).hex(),
            "done": encode_done(Done(Outcome.FETCHED, 200, entry, ())).hex(),
            "counters": encode_counters(Counters()).hex(),
            "ledger": LedgerCounts().encode().hex(),
            "robots": encode_robots(page("", status=500), 1.0, GoodCopy(200, 0.0, b"*")).hex(),
        },
    }
    assert max(STORED) == KNOWN.newest, "each format has its row"
    assert stored == STORED[KNOWN.newest], "raise the format: docs/reference/versions.md says how"


def test_a_store_without_a_family_that_it_never_had_is_not_called_damaged(older: Path) -> None:
    as_format(older, NOW, shaping=shaping_of(Settings()))
    seeds = older.with_name("seeds.txt")
    seeds.write_text(URLS[0])
    before = state(older)
    for words in (("stats", older), ("verify", older), ("repair", older), (seeds, "--job", older)):
        ran = crawler(*words)
        assert (ran.code, ran.out) == (2, ""), ran
        (line,) = ran.err.splitlines()
        assert "made by another version of the program: it has no family 'ledger'" in line
    assert {name: each[0] for name, each in state(older).items() if not name.endswith("lock")} == {
        name: each[0] for name, each in before.items() if not name.endswith("lock")
    }
