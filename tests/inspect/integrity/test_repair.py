"""A job damaged in every place: ``repair`` makes it whole from what is left, and the crawl ends with each page once."""

from __future__ import annotations

import os
import random
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from crawler.base.kv import Family
from crawler.frontier.entry import decode_entry
from crawler.inspect.integrity.finding import Change
from crawler.inspect.integrity.repairer import repair_job
from crawler.job.records import decode_counters, encode_counters
from crawler.job.recovery import COUNTERS, SHAPING_KEPT
from tests.examples import TIMES
from tests.faulty_disk import FaultyDisk, PowerCutError
from tests.jobs import (
    PAGES,
    Stopped,
    Verified,
    change,
    flip,
    hide_behind_the_cursor,
    killed_job,
    manifests,
    repair,
    rows,
    store_of,
    verify,
)
from tests.program import crawler, running, wait_until
from tests.site import Site, tree

NOW = 1_700_000_000.0


def ignore(_: Change) -> None:
    """What is done is not what the test is about."""


def contents(directory: Path) -> dict[str, bytes]:
    files = [path for path in directory.rglob("*") if path.is_file() and path.name not in ("lock", "LOG", "LOCK")]
    return {str(path.relative_to(directory)): path.read_bytes() for path in files if "LOG.old" not in path.name}


def does(job: Path, *done: str) -> Verified:
    """Repair it: all of this is done, among other things, and the job is then whole.

    A repair looks for damage before and after as ``verify`` does; that both say the same has a test of its own.
    """
    ran = repair(job)
    assert not ran.said["was_whole"], "nothing is damaged: the test proves nothing"
    assert (ran.code, ran.findings) == (0, []), ran
    assert ran.done >= set(done), ran
    return ran


def kept(job: Path, name: str) -> list[bytes]:
    return [path.read_bytes() for path in job.glob(f"damaged-*/{name}")]


def test_a_whole_job_is_not_touched(job: Path) -> None:
    before = contents(job)
    ran = repair(job)
    assert (ran.code, ran.said) == (0, {"was_whole": True, "changes": [], "findings": []})
    assert crawler("repair", job).out == f"{job}: intact; nothing was changed\n"
    assert contents(job) == before


def test_too_little_memory_is_no_damage(job: Path, stopped: Stopped, monkeypatch: pytest.MonkeyPatch) -> None:
    before = contents(job)

    def too_little(*_: object) -> None:
        raise MemoryError

    with monkeypatch.context() as scarce:
        scarce.setattr("crawler.seen.slices.bit_storage.np.zeros", too_little)
        for ran in (repair(job), verify(job)):
            assert ran.code == 1
            assert "cannot allocate" in ran.said["error"]
            assert "damaged" not in ran.said["error"]
    after = contents(job)
    assert {name: after[name] for name in before if not name.startswith("store/")} == {
        name: data for name, data in before.items() if not name.startswith("store/")
    }
    stopped.carries_on_to_the_end(job)


def test_a_job_in_use_and_a_directory_without_one_are_refused(stopped: Stopped, tmp_path: Path) -> None:
    assert "holds no crawl" in repair(tmp_path).err
    with running(stopped.seeds, "--job", tmp_path / "job", "--allow-private", "--delay", "9", "--quiet") as process:
        wait_until((tmp_path / "job" / "store").is_dir, "the job is begun")
        ran = repair(tmp_path / "job")
        assert (ran.code, ran.said) == (2, {})
        assert f"in use by process {process.pid}" in ran.err


# -- job.json --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("gone", [False, True])
def test_the_settings_of_the_job_stand_in_the_store_too(job: Path, stopped: Stopped, gone: bool) -> None:
    whole = (job / "job.json").read_bytes()
    if gone:
        (job / "job.json").unlink()
    else:
        flip(job / "job.json", -5)
    does(job, "settings-rebuilt")
    assert (job / "job.json").read_bytes() == whole
    stopped.carries_on_to_the_end(job)


def test_settings_that_are_lost_in_both_places_are_not_guessed(job: Path) -> None:
    flip(job / "job.json", 30)
    change(job, Family.META, lambda _: (SHAPING_KEPT, b"{"))
    before = (job / "pages.jsonl").read_bytes()
    ran = repair(job)
    assert (ran.code, ran.said) == (2, {})
    assert "restore a backup" in ran.err
    assert (job / "pages.jsonl").read_bytes() == before


# -- the seen-set ----------------------------------------------------------------------------------------------


def newest_files(job: Path) -> list[Path]:
    return sorted((job / "seen").glob(f"*{manifests(job)[0].generation:06d}"))


def test_a_damaged_generation_is_set_aside(job: Path, stopped: Stopped) -> None:
    evidence = newest_files(job)[0]
    flip(evidence, 100)
    damaged = evidence.read_bytes()
    does(job, "rebuilt")
    assert kept(job, f"seen/{evidence.name}") == [damaged]
    before = len(stopped.site.pages_asked())
    missing = PAGES - len(rows(job))
    stopped.carries_on_to_the_end(job)
    assert len(stopped.site.pages_asked()) - before == missing, "nothing was asked for twice"


def test_with_every_generation_damaged_the_journal_gives_the_seen_set(job: Path, stopped: Stopped) -> None:
    for path in (job / "seen").iterdir():
        flip(path, path.stat().st_size // 2)
    assert verify(job).code == 1
    does(job, "rebuilt")
    assert verify(job).code == 0, "verify finds what repair does"
    stopped.carries_on_to_the_end(job)


# -- the output ------------------------------------------------------------------------------------------------


def edited(job: Path, edit: Callable[[bytes], bytes]) -> bytes:
    path = job / "pages.jsonl"
    path.write_bytes(edit(path.read_bytes()))
    return path.read_bytes()


OUTPUTS: dict[str, Callable[[bytes], bytes]] = {
    "cut short": lambda data: data[:-300],
    "a byte changed": lambda data: data[:-100] + b"\x00" + data[-99:],
    "a hole": lambda data: data[:-900] + bytes(500) + data[-400:],
    "two lines joined": lambda data: data[:-1].rpartition(b"\n")[0] + data[:-1].rpartition(b"\n")[2] + b"\n",
    "a foreign line": lambda data: b'{"url":"http://never.test/","outcome":"fetched"}\n' + data,
}


@pytest.mark.parametrize("what", OUTPUTS)
def test_a_damaged_output_costs_the_damaged_records_only(job: Path, stopped: Stopped, what: str) -> None:
    whole = len(rows(job))
    damaged = edited(job, OUTPUTS[what])
    good = [line for line in damaged.splitlines(keepends=True) if line.startswith(b'{"url"') and line.endswith(b"}\n")]
    assert does(job).done & {"lines-removed", "urls-pending-again"}
    assert len(rows(job)) >= whole - 4
    assert set((job / "pages.jsonl").read_bytes().splitlines(keepends=True)) <= set(good)
    stopped.carries_on_to_the_end(job)


def test_an_output_that_is_gone_is_begun_anew(job: Path, stopped: Stopped) -> None:
    (job / "pages.jsonl").unlink()
    assert does(job).done & {"urls-pending-again", "urls-forgotten"}
    assert not (job / "pages.jsonl").exists()
    stopped.carries_on_to_the_end(job)


def test_records_whose_addresses_are_gone_are_found_again(job: Path, stopped: Stopped) -> None:
    """The first half of the output is older than what the journal tells of finished URLs."""
    damaged = edited(job, lambda data: data[len(data) // 3 :].partition(b"\n")[2])
    ran = does(job, "urls-forgotten")
    assert "lines-removed" not in ran.done, "the lines that are left are good"
    assert (job / "pages.jsonl").read_bytes() == damaged
    stopped.carries_on_to_the_end(job)


# -- rows of the store -----------------------------------------------------------------------------------------


def drop_all(family: Family) -> Callable[[Path], None]:
    def damage(job: Path) -> None:
        with store_of(job) as store:
            batch = store.batch()
            batch.delete_range(family, b"", b"\xff" * 40)
            store.write(batch)

    return damage


def garbage(family: Family, place: int = -1) -> Callable[[Path], None]:
    return lambda job: change(job, family, lambda found: (found[place][0], b"garbage"))


def gone(family: Family, place: int = -1) -> Callable[[Path], None]:
    return lambda job: change(job, family, lambda found: (found[place][0], None))


def counters(**fields: int) -> Callable[[Path], None]:
    def more(found: list[tuple[bytes, bytes]]) -> tuple[bytes, bytes]:
        stored = decode_counters(dict(found)[COUNTERS])
        return COUNTERS, encode_counters(
            replace(stored, **{name: getattr(stored, name) + by for name, by in fields.items()})
        )

    return lambda job: change(job, Family.META, more)


def foreign(family: Family) -> Callable[[Path], None]:
    return lambda job: change(job, family, lambda _: (b"\xff\xfe\0\x01", b"garbage"))


def wrong_host(job: Path) -> None:
    with store_of(job) as store:
        key, value = store.scan(Family.PENDING, b"")[-1]
        batch = store.batch()
        batch.delete(Family.PENDING, key)
        batch.put(Family.PENDING, b"elsewhere.test:80\0" + key.partition(b"\0")[2], value)
        store.write(batch)


# What is damaged, and what is reported as lost.
STORES: dict[str, tuple[Callable[[Path], None], str]] = {
    "a host record of garbage": (garbage(Family.HOSTS), "rows-removed"),
    "all host records gone": (drop_all(Family.HOSTS), ""),
    "a cursor behind the queue": (hide_behind_the_cursor, ""),
    "a key that is no host": (foreign(Family.HOSTS), "rows-removed"),
    "robots.txt of garbage": (garbage(Family.ROBOTS), "rows-removed"),
    "counters gone": (lambda job: change(job, Family.META, lambda _: (COUNTERS, None)), "counters-lost"),
    "counters of garbage": (lambda job: change(job, Family.META, lambda _: (COUNTERS, b"\7xx")), "counters-lost"),
    "counters that are wrong": (counters(urls_admitted=1, pages_fetched=-3, sequence=-5, hosts=1, next_number=-20), ""),
    "an event of finished URLs of garbage": (garbage(Family.DONE, 3), "rows-removed"),
    "all events of finished URLs gone": (drop_all(Family.DONE), ""),
    "an event of admitted URLs of garbage": (garbage(Family.ADMITTED, 2), "rows-removed"),
    "all events of admitted URLs gone": (drop_all(Family.ADMITTED), ""),
    "a pending URL under another host": (wrong_host, ""),
    "a key of the queue that is none": (foreign(Family.PENDING), "rows-removed"),
    "the output's end of garbage": (
        lambda job: change(job, Family.META, lambda _: (b"output-end", b"xx")),
        "rows-removed",
    ),
}


@pytest.mark.parametrize("what", STORES)
def test_what_one_side_has_lost_the_other_tells(job: Path, stopped: Stopped, what: str) -> None:
    damage, done = STORES[what]
    damage(job)
    does(job, *filter(None, [done]))
    before = len(stopped.site.pages_asked())
    missing = PAGES - len(rows(job))
    stopped.carries_on_to_the_end(job)
    assert len(stopped.site.pages_asked()) - before == missing, "nothing was asked for twice"


@pytest.mark.parametrize("damage", [gone(Family.PENDING), garbage(Family.PENDING)])
def test_a_pending_url_whose_address_is_gone_is_said_and_forgotten(
    job: Path, stopped: Stopped, damage: Callable[[Path], None]
) -> None:
    with store_of(job) as store:
        value = store.scan(Family.PENDING, b"")[-1][1]
    url, via = decode_entry(value).href, decode_entry(value).via
    damage(job)
    assert does(job).find("urls-forgotten", count=1)
    assert stopped.resume(job).code == 0
    found = Counter(row["url"] for row in rows(job))
    # Every page links to its children and its parent: what is gone may have had children that only it names.
    assert max(found.values()) == 1
    assert set(found) <= {stopped.site.url(path) for path in tree(PAGES)}
    assert verify(job).code == 0
    assert url not in found, f"only {via} names it, and that one is finished"
    (job / "seeds.txt").write_text(f"{url}\n")
    assert crawler(job / "seeds.txt", "--job", job, "--allow-private", "--delay", "0", "--quiet").code == 0
    assert Counter(row["url"] for row in rows(job)) == Counter(stopped.site.url(path) for path in tree(PAGES))


# -- RocksDB's own files ---------------------------------------------------------------------------------------


def in_tables(job: Path) -> None:
    for _ in range(2):
        with store_of(job):
            """Opening replays the log into tables."""


def zeros(path: Path, start: int, end: int) -> None:
    data = bytearray(path.read_bytes())
    data[start:end] = bytes(len(data[start:end]))
    path.write_bytes(data)


def manifest(job: Path) -> Path:
    return max((job / "store").glob("MANIFEST-*"))


ROCKS: dict[str, Callable[[Path], None]] = {
    "CURRENT gone": lambda job: (job / "store" / "CURRENT").unlink(),
    "CURRENT of garbage": lambda job: (job / "store" / "CURRENT").write_bytes(b"\0" * 16),
    "MANIFEST gone": lambda job: manifest(job).unlink(),
    "MANIFEST cut": lambda job: os.truncate(manifest(job), manifest(job).stat().st_size // 2),
    "MANIFEST flipped": lambda job: flip(manifest(job), manifest(job).stat().st_size // 2),
}


@pytest.mark.parametrize("what", ROCKS)
def test_a_store_that_does_not_open_is_read_all_the_same(job: Path, stopped: Stopped, what: str) -> None:
    in_tables(job)
    ROCKS[what](job)
    damaged = contents(job / "store")
    assert does(job, "store-repaired").find("quarantined", directory="^damaged-1$")
    assert contents(job / "damaged-1" / "store").items() >= damaged.items(), "the evidence is as it was"
    before = len(stopped.site.pages_asked())
    missing = PAGES - len(rows(job))
    stopped.carries_on_to_the_end(job)
    assert len(stopped.site.pages_asked()) - before == missing, "nothing was lost"


def test_tables_that_cannot_be_read_cost_what_stood_in_them(job: Path, stopped: Stopped) -> None:
    in_tables(job)
    tables = sorted((job / "store").glob("*.sst"), key=lambda path: path.stat().st_size)
    zeros(tables[-1], 0, tables[-1].stat().st_size // 2)
    does(job, "store-repaired")
    assert stopped.resume(job).code == 0
    assert verify(job).code == 0
    assert max(Counter(row["url"] for row in rows(job)).values()) == 1


@pytest.mark.parametrize("part", ["nothing left", "directory gone"])
def test_a_store_that_is_lost_begins_the_crawl_anew(job: Path, stopped: Stopped, part: str) -> None:
    pages = (job / "pages.jsonl").read_bytes()
    if part == "directory gone":
        shutil.rmtree(job / "store")
    else:
        for path in (job / "store").iterdir():
            path.write_bytes(b"")
    does(job, "crawl-restarted")
    assert kept(job, "pages.jsonl") == [pages]
    stopped.carries_on_to_the_end(job)


# -- broken off ------------------------------------------------------------------------------------------------


def hurt_everywhere(job: Path) -> None:
    in_tables(job)
    edited(job, OUTPUTS["a hole"])
    drop_all(Family.HOSTS)(job)
    counters(sequence=-5, urls_admitted=2)(job)
    garbage(Family.ADMITTED, 2)(job)
    flip(job / "job.json", -5)
    for path in newest_files(job):
        flip(path, 60)
    ROCKS["MANIFEST cut"](job)


def test_a_repair_that_is_broken_off_can_be_run_again(stopped: Stopped, tmp_path: Path) -> None:
    damaged = stopped.copy(tmp_path / "damaged")
    hurt_everywhere(damaged)
    broken, cuts = 0, range(0, 48, 10 if TIMES == 1 else 1)
    for calls in (*cuts, 1_000):
        job = tmp_path / f"job-{calls}"
        shutil.copytree(damaged, job)
        try:
            left = repair_job(job, NOW, ignore, FaultyDisk(random.Random(calls), cut_after=calls)).left
        except PowerCutError:
            broken += 1
            left = repair_job(job, NOW, ignore).left
        assert left == []
        if calls % 30 == 0:
            stopped.carries_on_to_the_end(job)
        shutil.rmtree(job)
    assert broken == len(cuts)


def test_repairs_that_lose_their_power(stopped: Stopped, tmp_path: Path) -> None:
    """What no sync had made durable is gone, in part or whole, and the damaged files are still there in the end."""
    damaged = stopped.copy(tmp_path / "damaged")
    hurt_everywhere(damaged)
    output = (damaged / "pages.jsonl").read_bytes()
    cuts = 0
    for seed in range(4 * TIMES):
        job, chance = tmp_path / f"job-{seed}", random.Random(seed)
        shutil.copytree(damaged, job)
        for _ in range(3):
            disk = FaultyDisk(chance, cut_after=chance.randrange(60))
            try:
                left = repair_job(job, NOW, ignore, disk).left
                break
            except PowerCutError:
                cuts += 1
                disk.lose_power()
        else:
            left = repair_job(job, NOW, ignore).left
        assert left == [], f"seed {seed}"
        assert output in kept(job, "pages.jsonl"), f"seed {seed}: the damaged output is gone"
        if seed < 2:
            stopped.carries_on_to_the_end(job)
        shutil.rmtree(job)
    assert cuts > 2 * TIMES


@pytest.mark.parametrize("broken_off", [False, True])
def test_a_log_that_is_cut_at_its_damage_is_kept_as_it_was(tmp_path: Path, broken_off: bool) -> None:
    with killed_job(tmp_path, checkpoint_interval=0.01) as killed:
        log = log_of(killed.job)
        flip(log, -1)
        damaged = log.read_bytes()
        if broken_off:
            with pytest.raises(PowerCutError):
                repair_job(killed.job, NOW, ignore, FaultyDisk(random.Random(1), cut_after=4))
        else:
            assert does(killed.job).find("log-damaged", log=log.name, error=r"offset \d+: checksum does not match")
        assert ([log.read_bytes()] if broken_off else kept(killed.job, f"store/{log.name}")) == [damaged]


def log_of(job: Path) -> Path:
    (log,) = (path for path in (job / "store").glob("*.log") if path.stat().st_size)
    return log


def test_urls_that_only_standard_input_named_outlive_damage_before_them(tmp_path: Path) -> None:
    """A bit of the first batch is flipped, hundreds were written behind it, all of them durable."""
    with Site(tree(PAGES)) as site:
        names = [site.url(f"/alone/{number}") for number in range(200)]
        site.pages |= {f"/alone/{number}": "end" for number in range(200)}
        seeds, job = tmp_path / "seeds.txt", tmp_path / "job"
        seeds.write_text(site.url("/") + "\n")
        words = (seeds, "--job", job, "--allow-private", "--delay", "0", "--quiet")
        with running(seeds, "--job", job, "--allow-private", "--delay", "9", "--quiet") as process:
            wait_until(lambda: (job / "pages.jsonl").exists() and rows(job) != [], "one page is fetched")
            for start in range(0, 200, 50):
                ran = crawler("add", job, "-", stdin="\n".join(names[start : start + 50]))
                assert ran.out.startswith("50 admitted"), ran.err
            process.kill()
            process.wait()
        log = log_of(job)
        flip(log, 300)
        damaged = log.read_bytes()
        refused = crawler(*words)
        assert (refused.code, refused.err.count("\n")) == (1, 1), refused.err
        assert f"{log.name}: offset " in refused.err
        assert "`crawler repair`" in refused.err
        assert log.read_bytes() == damaged
        assert verify(job).find("log-damaged", log=log.name, error=r"checksum does not match; \d+ complete batches")
        assert does(job).find("log-damaged", log=log.name)
        assert (job / "damaged-1" / "store" / log.name).read_bytes() == damaged
        ran = crawler(*words)
        assert ran.code == 0, ran.err
        found = Counter(row["url"] for row in rows(job))
        assert set(names) <= set(found)
        assert set(found) == {*names, *(site.url(path) for path in tree(PAGES))}
        assert max(found.values()) == 1
        assert verify(job).code == 0


# -- other kinds of seen-set -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["exact", "cuckoo"])
def test_a_job_in_which_urls_were_forgotten(tmp_path: Path, stopped: Stopped, kind: str) -> None:
    job = tmp_path / "job"
    words = (stopped.seeds, "--job", job, "--allow-private", "--delay", "0", "--quiet", "--seen", kind)
    assert crawler(*words, "--max-pages", "20").code == 0
    twice = rows(job)[3]["url"]
    assert crawler("forget", job, twice, rows(job)[0]["url"]).code == 0
    assert crawler(*words, "--max-pages", "30").code == 0
    drop_all(Family.HOSTS)(job)
    drop_all(Family.SEEN)(job)
    counters(urls_admitted=2)(job)
    for path in (job / "seen").iterdir():
        flip(path, 60)
    does(job)
    assert crawler(*words).code == 0
    found = Counter(row["url"] for row in rows(job))
    assert set(found) == {stopped.site.url(path) for path in tree(PAGES)}
    assert found[twice] == 2, "forgotten, found again"
    assert verify(job).code == 0


@pytest.mark.parametrize("damage", ["a row", "the count", "no count"])
def test_the_rows_of_an_exact_seen_set(tmp_path: Path, stopped: Stopped, damage: str) -> None:
    job = tmp_path / "job"
    words = (stopped.seeds, "--job", job, "--allow-private", "--delay", "0", "--quiet", "--seen", "exact")
    assert crawler(*words, "--max-pages", "20").code == 0
    if damage == "a row":
        gone(Family.SEEN)(job)
        assert verify(job).find("digests-differ")
    else:
        change(job, Family.META, lambda _: (b"seen-count", b"\7" if damage == "no count" else bytes(8)))
        assert verify(job).find("count-differs", counter="^seen$") or verify(job).find(
            "seen-damaged", error="number of rows"
        )
    does(job)
    assert crawler(*words).code == 0
    assert Counter(row["url"] for row in rows(job)) == Counter(stopped.site.url(path) for path in tree(PAGES))
    assert verify(job).code == 0
