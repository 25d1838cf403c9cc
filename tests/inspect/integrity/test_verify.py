"""A job damaged in every place: ``verify`` names it, and the same command heals the job or refuses in one line."""

from __future__ import annotations

import os
import shutil
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from crawler.base.kv import Family
from crawler.frontier.entry import decode_entry
from crawler.job.metrics.catalogue import Counters
from crawler.job.records import DIGEST_SIZE, decode_counters, encode_counters
from crawler.job.recovery import COUNTERS, kept_hash
from tests.jobs import (
    Stopped,
    change,
    explain,
    flip,
    hide_behind_the_cursor,
    manifests,
    rows,
    store_of,
    verify,
)
from tests.program import Ran, crawler, running, wait_until
from tests.site import Site, linked, tree


def newest_only(job: Path) -> Path:
    """A segment that only the newest generation names."""
    newest, older = manifests(job)
    named = {segment.file for segment in older.segments}
    return job / "seen" / next(s.file for s in newest.segments if s.file not in named and s.name.startswith("slice"))


def in_both(job: Path) -> Path:
    """A sealed segment that both generations name."""
    newest, older = manifests(job)
    named = {segment.file for segment in older.segments}
    return job / "seen" / next(s.file for s in newest.segments if s.sealed and s.file in named)


def newest_manifest(job: Path) -> Path:
    return job / "seen" / f"generation-{manifests(job)[0].generation:06d}"


def cut(path: Path, bytes_: int) -> None:
    os.truncate(path, path.stat().st_size - bytes_)


Damage = Callable[[Path], None]

HEALED: dict[str, tuple[Damage, str]] = {  # what is damaged, and how the generation's error names it
    "header of a segment": (lambda job: flip(newest_only(job), 26), r"slice-\d+\.g\d+: .* offset \d+"),
    "checksum of a segment": (lambda job: flip(newest_only(job), -1), r"slice-\d+\.g\d+: .* offset \d+"),
    "sealed segment of both generations": (lambda job: flip(in_both(job), 60), r"slice-\d+\.g\d+: .* offset"),
    "body of a manifest": (lambda job: flip(newest_manifest(job), -9), r"generation-\d+: .*offset \d+"),
    "checksum of a manifest": (lambda job: flip(newest_manifest(job), 40), r"generation-\d+: .*offset \d+"),
}


def one_line(ran: Ran, *, code: int) -> str:
    assert ran.code == code, ran.err
    assert "Traceback" not in ran.err
    lines = ran.err.strip().splitlines()
    assert len(lines) == 1, ran.err
    assert lines[0].startswith("crawler: ")
    return lines[0]


def names(job: Path, kind: str, **details: object) -> None:
    """``verify`` ends with 1, and one of its findings is this one."""
    ran = verify(job)
    assert ran.code == 1, ran
    assert ran.err == ""
    assert ran.find(kind, **details), ran


def contents(job: Path) -> dict[str, bytes]:
    """What a refusal must leave as it is: everything but RocksDB's own files, the lock's pid and the traceback."""
    files = [path for path in job.rglob("*") if path.is_file() and path.parent.name != "store"]
    return {str(path.relative_to(job)): path.read_bytes() for path in files if path.name not in ("lock", "crash.txt")}


def test_a_job_that_is_whole(job: Path, stopped: Stopped) -> None:
    ran = crawler("verify", job)
    assert (ran.code, ran.out) == (0, f"{job}: whole\n")
    stopped.carries_on_to_the_end(job)


@pytest.mark.parametrize("what", HEALED)
def test_damage_to_the_seen_set_is_named_and_healed(job: Path, stopped: Stopped, what: str) -> None:
    damage, named = HEALED[what]
    damage(job)
    names(job, "generation-damaged", place="seen", error=named)
    asked = len(stopped.site.pages_asked())
    done = len(rows(job))
    stopped.carries_on_to_the_end(job)
    assert len(stopped.site.pages_asked()) - asked == len(tree(60)) - done, "nothing was asked for twice"


def test_a_generation_of_another_version_is_refused(job: Path, stopped: Stopped) -> None:
    path = newest_manifest(job)
    path.write_bytes(path.read_bytes().replace(b"crawler-generation 2 ", b"crawler-generation 7 ", 1))
    named = r"generation-\d+: crawler-generation version 7, this program reads version 2"
    names(job, "generation-damaged", error=named)
    before = contents(job)
    assert "version 7" in one_line(stopped.resume(job), code=2)
    assert contents(job) == before


# -- the output ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bytes_", [1, 400])
def test_an_output_cut_short_after_it_was_made_durable_is_refused(job: Path, stopped: Stopped, bytes_: int) -> None:
    pages = job / "pages.jsonl"
    size = pages.stat().st_size
    cut(pages, bytes_)
    names(job, "output-end", found=size - bytes_, journal=size)
    before = contents(job)
    assert f"pages.jsonl has {size - bytes_} bytes, but {size} were durable" in one_line(stopped.resume(job), code=2)
    assert contents(job) == before


def test_a_record_that_was_changed_is_named_by_its_offset(job: Path) -> None:
    pages = job / "pages.jsonl"
    data = pages.read_bytes()
    last = data.rindex(b"\n", 0, -1) + 1
    flip(pages, last + data[last:].index(b"text/html"))
    names(job, "record-changed", place=r"pages\.jsonl", offset=last, url="^http")


# -- the store -------------------------------------------------------------------------------------------------


def test_a_cursor_behind_the_queue(job: Path, stopped: Stopped) -> None:
    hide_behind_the_cursor(job)
    names(job, "host-cursor", host=r"^127\.0\.0\.1:\d+$", cursor="^01")
    assert "entries counted, none in the store" in one_line(stopped.resume(job), code=1)


def test_a_pending_url_that_is_gone(job: Path, stopped: Stopped) -> None:
    change(job, Family.PENDING, lambda found: (found[-1][0], None))
    (finding,) = verify(job).find("host-count-differs", host=r"^127\.0\.0\.1:\d+$")
    assert finding["found"] == finding["counted"] - 1
    line = one_line(stopped.resume(job), code=1)
    assert "is damaged: host" in line


def test_a_host_record_that_is_gone(job: Path, stopped: Stopped) -> None:
    change(job, Family.HOSTS, lambda found: (found[0][0], None))
    names(job, "host-missing", host=r"^127\.0\.0\.1:\d+$", pending=r"^\d+$")
    before = contents(job)
    assert "store/ is damaged" in one_line(stopped.resume(job), code=2)
    assert contents(job) == before


def test_counters_that_were_changed(job: Path, stopped: Stopped) -> None:
    def more(found: list[tuple[bytes, bytes]]) -> tuple[bytes, bytes]:
        counters = decode_counters(dict(found)[COUNTERS])
        return COUNTERS, encode_counters(replace(counters, pages_fetched=counters.pages_fetched + 1))

    change(job, Family.META, more)
    assert "count-differs" in verify(job).kinds
    assert "store/ is damaged" in one_line(stopped.resume(job), code=2)


@pytest.mark.parametrize(
    ("value", "code"), [(None, 2), (encode_counters(Counters()), 2), (b"\x07" + bytes(192), 1), (b"\x01abc", 1)]
)
def test_counters_that_are_gone_or_none(job: Path, stopped: Stopped, value: bytes | None, code: int) -> None:
    change(job, Family.META, lambda _: (COUNTERS, value))
    checked = verify(job)
    assert checked.code in (1, 2)
    before = contents(job)
    one_line(stopped.resume(job), code=code)
    assert contents(job) == before


@pytest.mark.parametrize(
    ("family", "error"),
    [
        (Family.PENDING, "not a frontier entry"),
        (Family.HOSTS, r"host 127\.0\.0\.1:\d+: not a host record of version"),
        (Family.ROBOTS, "not a robots record"),
        (Family.ADMITTED, "not digests: 7 bytes"),
        (Family.DONE, "done event has version"),
    ],
)
def test_a_value_that_nobody_wrote(job: Path, stopped: Stopped, family: Family, error: str) -> None:
    keys: list[bytes] = []

    def garbage(found: list[tuple[bytes, bytes]]) -> tuple[bytes, bytes]:
        keys.append(found[-1][0])
        return found[-1][0], b"garbage"

    change(job, family, garbage)
    names(job, "row-damaged", error=error, place="store", family=family.value, key=keys[0].hex(), severity="damaged")
    ran = stopped.resume(job)
    assert "Traceback" not in ran.err
    if ran.code:
        one_line(ran, code=1)
    else:
        assert len(rows(job)) == len(tree(60)), "what does not matter for the crawl does not stop it"


def test_a_key_that_nobody_wrote(job: Path) -> None:
    for family in (Family.PENDING, Family.HOSTS):
        with store_of(job) as store:
            batch = store.batch()
            batch.put(family, b"\xff\xfe\0\x01", b"garbage")
            store.write(batch)
        names(job, "row-damaged", family=family.value, key="^fffe0001$")


def test_every_fault_is_named_not_only_the_first(job: Path) -> None:
    with store_of(job):
        """Opening replays the log into tables."""
    with store_of(job):
        """A second time, so that nothing is left in the log."""
    tables = sorted((job / "store").glob("*.sst"), key=lambda path: path.stat().st_size)[-2:]
    for table in tables:
        flip(table, 20)
    flip(newest_only(job), -20)
    pages = job / "pages.jsonl"
    second = pages.read_bytes().index(b"\n") + 1
    flip(pages, second)
    found = verify(job)
    for table in tables:
        assert found.find("store-hole", error=rf"Corruption: .*{table.name} offset 0 "), found
    assert found.find("generation-damaged", error="^slice-"), found
    assert found.find("line-damaged", offset=second), found


@pytest.mark.parametrize("finished", [True, False])
def test_a_url_that_the_seen_set_does_not_know(job: Path, finished: bool) -> None:
    """The journal names another URL in its place, so all counts agree."""
    with store_of(job) as store:
        pending = {decode_entry(value).href for _, value in store.scan(Family.PENDING, b"")}
        wanted = {row["url"] for row in rows(job)} if finished else pending
        hashed = kept_hash(store)
        assert hashed is not None
        digests = {hashed.digest_keys([url]) for url in wanted}
        key, value = next(
            (key, value) for key, value in store.scan(Family.ADMITTED, b"") if value[-DIGEST_SIZE:] in digests
        )
        batch = store.batch()
        batch.put(Family.ADMITTED, key, value[:-DIGEST_SIZE] + bytes(DIGEST_SIZE))
        store.write(batch)
    for path in (job / "seen").iterdir():
        path.unlink()  # it is made from the journal
    if finished:
        names(job, "finished-not-seen", offset=r"^\d+$")
    else:
        names(job, "pending-not-seen", missing=1)


@pytest.mark.parametrize("damaged", [False, True])
def test_an_output_that_grew_by_a_hole_is_read_in_little_room(job: Path, damaged: bool) -> None:
    pages = job / "pages.jsonl"
    if damaged:  # the store cannot say where it ends
        change(job, Family.DONE, lambda found: (found[-1][0], found[-1][1].replace(b"\x01", b"\x07", 1)))
        flip(pages, -1)
    os.truncate(pages, 2**28)
    tracemalloc.start()
    ran = verify(job)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert ran.code == damaged
    assert peak < 2**26


@pytest.mark.parametrize("missing", ["store", "store/CURRENT"])
def test_a_store_that_is_gone_does_not_cost_the_output(job: Path, stopped: Stopped, missing: str) -> None:
    path = job / missing
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()
    names(job, "unreadable", error="cannot open the store")
    before = contents(job)
    ran = stopped.resume(job)
    assert ran.code in (1, 2)
    assert len(ran.err.strip().splitlines()) == 1
    assert "Traceback" not in ran.err
    assert contents(job) == before


def test_explaining_a_url_whose_records_are_damaged(job: Path) -> None:
    href = rows(job)[-1]["url"]
    pages = job / "pages.jsonl"
    data = pages.read_bytes()
    start = data.rindex(b"\n", 0, -1) + 1
    flip(pages, data.index(b'"status"', start))
    change(job, Family.ROBOTS, lambda found: (found[0][0], b"garbage"))
    found = explain(job, href)
    assert found["robots"]["state"] == "damaged"
    assert "not a robots record" in found["robots"]["reason"]
    assert found["damage"].startswith(f"pages.jsonl: offset {start}: not a record")
    assert found["host_row"]["fetched"], "what can be read is told"
    assert found["record"] is None


# -- a running job ---------------------------------------------------------------------------------------------


def test_a_running_job_is_whole_at_every_moment(tmp_path: Path) -> None:
    pages = {path: linked([]) + page for path, page in tree(600).items()}
    (tmp_path / "quick.toml").write_text("[durability]\nsync_interval = 0.02\ncheckpoint_interval = 0.02\n")
    with Site(pages, latency=0.01) as site:
        (tmp_path / "seeds.txt").write_text(site.url("/") + "\n")
        job = tmp_path / "job"
        options = ("--allow-private", "--delay", "0", "--per-host", "2", "--capacity", "32", "--quiet")
        with running(tmp_path / "seeds.txt", "--job", job, "--config", tmp_path / "quick.toml", *options) as process:
            wait_until(lambda: (job / "seen").is_dir() and len(manifests(job)) == 2, "two generations are written")
            looks = 0
            while process.poll() is None and looks < 4:
                ran = crawler("verify", job)
                assert (ran.code, ran.out, ran.err) == (0, f"{job}: whole\n", "")
                looks += 1
            assert looks
