"""What a damaged output costs: ``verify`` names it, and ``repair`` has the pages fetched again whose parts are gone."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
import random
import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from crawler.base.kv import Family
from crawler.base.settings.parts import RobotsSettings
from crawler.cli import main
from crawler.frontier.request_outcome import RequestOutcome
from crawler.inspect.integrity.finding import Change, Done, Kind, Severity
from crawler.inspect.integrity.repairer import find_all, repair_job
from crawler.inspect.record_stream import Tail
from crawler.job.checkpoint.generations import Renewal
from crawler.job.checkpointer import drive
from crawler.job.directory import JobError
from crawler.job.found import Found
from crawler.job.job import Job
from crawler.job.output.body_files import sizes_found
from crawler.job.output.outputs import FORMS
from crawler.job.output.rotated_files import Size
from crawler.job.platform import Platform
from crawler.job.records import Body, Outcome, PageRecord, Part, body_name
from crawler.job.transaction import OUTPUT_ENDS
from crawler.job.verdict import Draft, RobotsAnswer
from crawler.url.urls.canonicaliser import Canonical
from crawler.web.fetch.content_coding import zstd
from crawler.web.fetch.robots_answers import encode_robots
from tests.durability.power import Inline
from tests.engine.test_robots_visit import page
from tests.faulty_disk import FaultyDisk, PowerCutError
from tests.job.test_kept import KEEPING, LINKS, TEXT, WARC
from tests.job.test_kept import kept_of as archive_and_links
from tests.jobs import store_of
from tests.outputs import bodies_of, files_of, records

ROBOTS = Part(WARC, b"(what robots.txt says)")
# Files of records of two pages each, too.
SETTINGS = replace(KEEPING, robots=RobotsSettings(), output=replace(KEEPING.output, pages_size=600))
URLS = [f"http://h.test/{number}" for number in range(12)]
TIMES = itertools.count(1e3, 100.0)
SIZE = 3  # pages between two generations


def opened(job: Path) -> Job:
    return Job(job, SETTINGS, 0.0, Platform(executor=Inline, renewal=Renewal()))


def body_of_page(href: str) -> Body:
    data = f"the body of {href}".encode()
    return Body(hashlib.sha256(data).digest(), data)


def kept_of(href: str) -> tuple[Part, ...]:
    parts = archive_and_links(href)
    return (*parts, Part(TEXT, f"(the text of {href})\n".encode())) if parts else ()


def finish(job: Job, pages: int = 99) -> None:
    """Finish so many pages, and answer for the robots.txt of their host."""
    while pages and (lease := job.frontier.take(now := next(TIMES))) is not None:
        if lease.entry is None:
            answer = RobotsAnswer(encode_robots(page(""), 1.0), 1e9, None, RequestOutcome(), kept=(ROBOTS,))
            job.robots_known(lease, answer, now)
            continue
        record = PageRecord(lease.entry, Outcome.FETCHED, now, 200)
        job.finish(lease, Draft(record, kept=(body_of_page(lease.entry.href), *kept_of(lease.entry.href))), now)
        pages -= 1


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A job with records before, between and after its generations."""
    directory = tmp_path_factory.mktemp("parts") / "job"
    with closing(opened(directory)) as job:
        job.admit(Found([Canonical(url, url) for url in URLS], 0, seed=True))
        for pages in (SIZE, SIZE, SIZE, 1):
            finish(job, pages)
            if pages == SIZE:
                drive(job.checkpointer.checkpoint(1.0, whole=True))
        for step in job.files.outputs.pages.compression():
            step()
    assert find_all(directory) == []
    assert {path.suffix for path in directory.glob("pages-*")} == {".jsonl", ".zst"}
    return directory


@pytest.fixture
def job(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "job"))


def holds(job: Path, pages: int) -> None:
    """Each page is there once with its parts, and the robots.txt of the host too."""
    found = [record["url"] for record in records(job)]
    assert sorted(found) == sorted(set(found))
    assert len(found) == pages
    assert bodies_of(job) == {url: body_of_page(url).data for url in found}
    parts = [part for url in found for part in kept_of(url)] + [ROBOTS]
    for kind, name in ((WARC, "warc"), (LINKS, "links"), (TEXT, "text")):
        held = b"".join(files_of(job, name).values())
        assert sorted(held) == sorted(b"".join(part.data for part in parts if part.kind == kind))
        assert all(held.count(part.data) == 1 for part in parts if part.kind == kind)


def carries_on(job: Path, pending: int) -> None:
    with closing(opened(job)) as again:
        assert again.counters.pending == pending
        finish(again)
    holds(job, len(URLS))
    assert find_all(job) == []


def counted(job: Path) -> Size:
    """The bodies that the job says it has."""
    with closing(opened(job)) as again:
        return again.files.outputs.bodies.size


def path(job: Path, kind: int, number: int) -> Path:
    return FORMS[kind].path(job, number)


def body_path(job: Path, number: int) -> Path:
    return job / body_name(body_of_page(URLS[number]).digest)


def pages_with(job: Path, number: int) -> Path:
    begin = f'{{"url":"{URLS[number]}"'.encode()
    (found,) = (path for path in job.glob("pages*.jsonl") if begin in path.read_bytes())
    return found


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


# Damage, and how many pages have lost a part.
DAMAGE: dict[str, tuple[Callable[[Path], object], int]] = {
    "a byte of a page in the middle of a file": (lambda job: flip(path(job, LINKS, 1), 25), 1),
    "the end of a full file": (lambda job: os.truncate(path(job, LINKS, 1), 30), 2),
    "a full file": (lambda job: path(job, LINKS, 1).unlink(), 3),
    "the start of another output": (lambda job: path(job, WARC, 1).write_bytes(b""), 2),
    "all of an output": (lambda job: shutil.rmtree(job / "links"), 8),
    "all texts": (lambda job: shutil.rmtree(job / "text"), 8),
    "a byte of a body": (lambda job: flip(body_path(job, 4), 3), 1),
    "the end of a body": (lambda job: os.truncate(body_path(job, 0), 5), 1),
    "all bodies": (lambda job: shutil.rmtree(job / "bodies"), 10),
    "a line of pages.jsonl": (
        lambda job: flip(pages_with(job, 8), pages_with(job, 8).read_bytes().index(b"h.test/8") - 8),
        1,
    ),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_pages_whose_parts_are_gone_are_fetched_again_and_no_other(job: Path, damage: str) -> None:
    DAMAGE[damage][0](job)
    found = [finding for finding in find_all(job) if finding.severity is not Severity.SELF_HEALING]
    assert found, "verify sees it"
    changes: list[Change] = []
    done = repair_job(job, 1.0, changes.append)
    assert (done.was_whole, done.left) == (False, [])
    holds_but_robots = [change for change in changes if change.done is Done.ASIDES_REMOVED]
    assert len(holds_but_robots) == ("another output" in damage)
    carries_on(job, 2 + DAMAGE[damage][1])


@pytest.mark.parametrize("gone", [True, False])
def test_records_of_a_compressed_file_that_is_lost_or_damaged_are_lost_and_no_other(job: Path, *, gone: bool) -> None:
    """As with a hole in a file of records: nobody knows their URLs any more, until a link is found."""
    first = job / "pages-000001.jsonl.zst"
    before = records(job)
    lost = json.loads(zstd.decompress(first.read_bytes()).splitlines()[0])["url"]
    if gone:
        first.unlink()
    else:
        flip(first, 40)
    assert [finding for finding in find_all(job) if finding.severity is not Severity.SELF_HEALING]
    with pytest.raises(JobError, match="crawler repair") if gone else contextlib.nullcontext():
        opened(job).close()
    assert repair_job(job, 1.0, lambda _: None).left == []
    after = [record["url"] for record in records(job)]
    assert after == [record["url"] for record in before][-len(after) :]
    assert lost not in after
    assert len(before) - 3 <= len(after)
    assert not list(job.glob("pages-*")), "one file takes their place"
    assert list((job / "damaged-1").glob("pages-000002.jsonl*"))
    with closing(opened(job)) as again:
        finish(again)
    assert find_all(job) == []


def test_what_is_wrong_is_said_once_a_file(job: Path) -> None:
    os.truncate(path(job, LINKS, 1), 30)
    (found,) = (finding for finding in find_all(job) if finding.kind is Kind.PARTS_LOST)
    assert (found.place, found.severity) == ("links/links-000001.jsonl", Severity.DAMAGED)
    assert found.details == {"offset": 18, "of": URLS[1], "parts": 2}


@pytest.mark.parametrize("generation", [True, False])
def test_an_output_that_is_missing_is_named_as_missing(job: Path, *, generation: bool) -> None:
    last = path(job, LINKS, 3)
    if generation:
        shutil.rmtree(job / "links")
    else:
        for each in (job / "seen").iterdir():
            each.unlink()  # nothing is known to be durable
        last.unlink()
    found = find_all(job)
    if not generation:
        assert [(each.kind, each.severity) for each in found] == [(Kind.RECORDS_LOST, Severity.SELF_HEALING)]
        return
    lost = [each for each in found if each.kind is Kind.OUTPUT_LOST]
    assert {each.place for each in lost} >= {str(path(Path(), LINKS, number)) for number in (1, 2)}
    assert {each.severity for each in lost} == {Severity.DAMAGED}
    assert {each.kind for each in found} <= {Kind.OUTPUT_LOST, Kind.RECORDS_LOST}


def test_bodies_that_are_wrong_are_said_once_and_moved_away(job: Path) -> None:
    flip(body_path(job, 2), 1)
    body_path(job, 5).unlink()
    damaged = body_path(job, 2).read_bytes()
    (found,) = find_all(job)
    assert (found.kind, found.place, found.severity) == (Kind.BODIES_LOST, "bodies", Severity.DAMAGED)
    name = body_name(body_of_page(URLS[2]).digest)
    assert found.details == {"file": name, "of": URLS[2], "bodies": 2}
    changes: list[Change] = []
    assert repair_job(job, 1.0, changes.append).left == []
    assert Done.BODIES_MOVED in [change.done for change in changes]
    assert (job / "damaged-1" / body_path(job, 2).name).read_bytes() == damaged
    (body_path(job, 3).parent / f"{body_path(job, 3).name}.part").write_bytes(b"of no page")
    assert counted(job) == sizes_found(job) == Size(8, 8 * len(damaged))
    carries_on(job, 4)


def packed(job: Path) -> Path:
    """The compressed file of records: others follow."""
    (path,) = job.glob("pages-*.zst")
    return path


def said_by(job: Path, capfd: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = main([words[0], str(job), *words[1:]])
    said = capfd.readouterr()
    return code, said.out, said.err


READING: tuple[tuple[str, ...], ...] = (
    ("tail", "--since", "0"),
    ("tail", "--all"),
    ("tail", "-n", "99"),
    ("export", "--cdxj", "{out}.cdxj"),
    ("report", "--out", "{out}.html"),
    ("backup", "{out}.backup"),
)


@pytest.mark.parametrize("damage", ["frame", "directory", "missing", "cut"])
def test_a_file_of_records_that_is_damaged(
    made: Path, job: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], damage: str
) -> None:
    """Every reader stops with one line that names it, and `repair` keeps all other records."""
    file = packed(job)
    inside = zstd.decompress(file.read_bytes()).splitlines(keepends=True)
    if damage == "frame":
        flip(file, file.stat().st_size // 2)
    elif damage == "cut":
        os.truncate(file, 40)
    else:
        file.unlink()
        file = file if damage == "directory" else file.with_suffix("")
    if damage == "directory":
        file.mkdir()
    for command in READING:
        code, out, err = said_by(job, capfd, *(word.format(out=tmp_path / "out") for word in command))
        (line,) = err.splitlines()
        assert code == 1
        assert line.startswith("crawler: error: ")
        assert f"{file} " in line
        assert "`crawler verify" in line or "`crawler repair" in line
        assert "\0" not in out
        assert "error:" not in out
    kind = {"frame": Kind.FRAME_DAMAGED, "cut": Kind.FILE_CUT}.get(damage, Kind.FILE_LOST)
    found = find_all(job)
    assert [each.kind for each in found if each.place == file.name] == [kind]
    assert len(found) < 6
    before = len(records(made))
    changes: list[Change] = []
    assert repair_job(job, 1.0, changes.append).left == []
    assert len(records(job)) == before - len(inside)
    assert list(job.glob("pages-*")) == []
    assert {file.name for file in (job / "damaged-1").glob("pages*")} >= {path.name for path in made.glob("pages*")} - (
        {f"{file.name}.zst"} if damage == "missing" else set()
    )


def test_records_that_another_program_has_compressed(made: Path, job: Path) -> None:
    file = packed(job)
    text = zstd.decompress(file.read_bytes())
    file.write_bytes(zstd.compress(text))
    (found,) = find_all(job)
    assert (found.kind, found.place) == (Kind.TABLE_LOST, file.name)
    assert list(Tail(job).more()) == list(Tail(made).more())
    assert repair_job(job, 1.0, lambda _: None).left == []
    assert (job / "damaged-1" / file.name).exists()
    assert records(job) == records(made)
    carries_on(job, 2)


def test_a_body_that_the_next_run_has_fetched_again_is_no_fault(job: Path) -> None:
    body_path(job, 9).unlink()
    (found,) = find_all(job)
    assert (found.kind, found.severity) == (Kind.RECORDS_LOST, Severity.SELF_HEALING)
    carries_on(job, 3)


def test_what_the_next_run_mends_is_no_fault(job: Path) -> None:
    last = max(files_of(job, "warc"))
    os.truncate(path(job, WARC, last), path(job, WARC, last).stat().st_size - 1)
    found = find_all(job)
    assert [(each.kind, each.severity) for each in found] == [(Kind.RECORDS_LOST, Severity.SELF_HEALING)]
    carries_on(job, 3)


def test_the_ends_of_outputs_are_found_again(job: Path) -> None:
    with store_of(job) as store:
        batch = store.batch()
        batch.put(Family.META, OUTPUT_ENDS, b"damaged")
        store.write(batch)
        before = store.get(Family.META, OUTPUT_ENDS)
    assert before == b"damaged"
    assert Kind.ROW_DAMAGED in {finding.kind for finding in find_all(job)}
    assert repair_job(job, 1.0, lambda _: None).left == []
    carries_on(job, 2)


def test_a_repair_that_loses_its_power_is_done_again(made: Path, tmp_path: Path) -> None:
    damage, chance, cuts, cut = "the start of another output", random.Random(1), 0, 1
    while True:
        job = tmp_path / f"job-{cut}"
        shutil.copytree(made, job)
        DAMAGE[damage][0](job)
        disk = FaultyDisk(chance, cut_after=cut)
        try:
            repair_job(job, 1.0, lambda _: None, disk)
        except PowerCutError:
            disk.lose_power()
            cuts, cut = cuts + 1, cut + chance.randint(5, 9)
        else:
            break
        assert repair_job(job, 1.0, lambda _: None).left == []
        again = opened(job)
        pending = again.counters.pending
        again.close()
        carries_on(job, pending)
        shutil.rmtree(job)
    assert cuts > 3, "the power was hardly ever lost"
