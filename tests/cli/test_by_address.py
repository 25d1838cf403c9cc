"""Commands that read a job, given the address of the store where it lives."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from crawler.job.bucket.address import open_objects
from crawler.job.bucket.layout import PIECES, newest_snapshot
from tests.asked import asked, enters, opened
from tests.job.bucket.test_crawls import Crawl, begun, one_line
from tests.program import PATIENCE, Ran, crawler, running, wait_until
from tests.site import Site, tree

# By the clock, by the disk of the machine, or told by the process that ran.
OF_THE_MOMENT = {"checkpoint", "disk_free_bytes", "pages_parsed", "stopped", "stopped_by"}


@pytest.fixture(scope="module")
def crawl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crawl]:
    """A crawl that was stopped twice: a snapshot has its first records, the log the rest."""
    with Site(tree(150)) as site:
        made = Crawl(tmp_path_factory.mktemp("crawl"), site)
        for most in ("40", "60"):
            assert crawler(*made.words(made.base / "job", "--max-pages", most)).code == 0
        yield made


def asks(url: str) -> Any:
    with opened(url) as answer:
        return json.load(answer)


def listed(store: Path) -> dict[str, tuple[int, int]]:
    return {str(path): (path.stat().st_mtime_ns, path.stat().st_size) for path in (store, *store.rglob("*"))}


def looked(crawl: Crawl, tmp_path: Path, *words: str | Path, of: str | Path = "") -> str:
    """What the command prints; it leaves nothing behind."""
    scratch = tmp_path / "scratch"
    scratch.mkdir(exist_ok=True)
    ran = crawler(words[0], of or f"file:{crawl.store}", *words[1:], env={"TMPDIR": str(scratch)})
    assert (ran.code, ran.err, list(scratch.iterdir())) == (0, "", []), ran
    assert str(scratch) not in ran.out
    return ran.out


def test_it_prints_what_the_directory_does(crawl: Crawl, tmp_path: Path) -> None:
    before, job, url = listed(crawl.store), crawl.base / "job", crawl.site.url("/")
    kinds: list[tuple[str | Path, ...]] = [("tail", "--all"), ("export", "--csv", "-"), ("hosts", "--json")]
    kinds += [("explain", url), ("verify", "--json"), ("sql", "--csv", "SELECT * FROM links ORDER BY ALL")]
    for words in kinds:
        assert looked(crawl, tmp_path, *words) == looked(crawl, tmp_path, *words, of=job), words
    here, there = (json.loads(looked(crawl, tmp_path, "stats", "--json", of=of)) for of in (job, ""))
    assert here["outputs"].keys() == {"pages", "warc", "links", "bodies"}
    assert {name for name in here | there if here[name] != there[name]} <= OF_THE_MOMENT
    assert looked(crawl, tmp_path, "verify") == f"file:{crawl.store}: whole\n"
    with running("dashboard", f"file:{crawl.store}") as process:
        shown = asks(enters(process.stdout) + "api/stats")
        assert (shown["state"], shown["pages_fetched"]) == ("stopped", there["pages_fetched"])
        process.send_signal(signal.SIGINT)
        process.wait(PATIENCE)
    page, backup = tmp_path / "page.html", tmp_path / "backup"
    assert looked(crawl, tmp_path, "report", "--out", page).startswith(f"{page}: 60")
    assert crawler("backup", job, backup).code == 0
    assert looked(crawl, tmp_path, "tail", "--all", of=f"file:{backup}") == (job / "pages.jsonl").read_text()
    assert listed(crawl.store) == before


def test_what_a_command_does_not_read_is_not_fetched(crawl: Crawl, tmp_path: Path) -> None:
    objects = open_objects(f"file:{shutil.copytree(crawl.store, tmp_path / 'store')}")
    snapshot = newest_snapshot(objects, 0)
    assert snapshot is not None
    unread = [each for name, each in snapshot.files.items() if ".g0" in name] + [*snapshot.outputs.values()]
    gone = [*snapshot.bodies, *snapshot.pages.pieces, *(piece for each in unread for piece in each.pieces)]
    shared = {piece for name, each in snapshot.files.items() if ".g0" not in name for piece in each.pieces}
    objects.delete([f"{PIECES}{piece}" for piece in gone if piece not in shared])
    assert looked(crawl, tmp_path, "hosts", of=objects.address) == looked(crawl, tmp_path, "hosts")
    assert "is missing" in one_line(crawler("tail", objects.address), 2)


def test_the_figures_of_the_seen_set_are_not_those_of_an_old_snapshot(tmp_path: Path) -> None:
    with Site(tree(150)) as site:
        crawl, job = Crawl(tmp_path, site), tmp_path / "job"
        small = ("--seen", "bloom", "--capacity", "40", "--no-ledger", "--max-pages", "60")
        assert crawler(*crawl.words(job, *small)).code == 0
        here, there = (json.loads(looked(crawl, tmp_path, "stats", "--json", of=of))["seen"] for of in (job, ""))
        assert there["count"] == here["count"] > 40
        assert there["expected_urls_skipped"] > 0


def test_while_the_crawl_runs(tmp_path: Path) -> None:
    with Site(tree(150)) as site:
        crawl, job = Crawl(tmp_path, site), tmp_path / "job"
        with begun(crawl, job, 40) as process:
            wait_until(lambda: len(looked(crawl, tmp_path, "tail", "--all").splitlines()) >= 40, "the log's tail")
            assert looked(crawl, tmp_path, "verify") == f"file:{crawl.store}: whole\n"
            process.send_signal(signal.SIGSTOP)
            before = listed(crawl.store)
            stats, hosts = (json.loads(looked(crawl, tmp_path, word, "--json")) for word in ("stats", "hosts"))
            shown = looked(crawl, tmp_path, "tail", "--all")
            assert shown.splitlines() == (job / "pages.jsonl").read_text().splitlines()[: len(shown.splitlines())]
            assert stats["state"] == "running"
            with running("dashboard", f"file:{crawl.store}") as page:
                link = enters(page.stdout)
                wait_until(lambda: asks(link + "api/survey")["complete"], "all records")
                copied, wants = asks(link + "api/stats"), b'{"do": "pause"}'
                assert (copied["state"], copied["pages_fetched"]) == ("copy", len(shown.splitlines()))
                assert asked(link + "healthz")[0] == 503, "nobody should take a copy for a crawl at work"
                assert asks(link + "api/survey")["records"] == len(shown.splitlines())
                assert asked(link + "api/control", "POST", wants, **{"Content-Type": "application/json"})[0] == 409
                page.send_signal(signal.SIGINT)
                page.wait(PATIENCE)
            assert stats["outputs"]["pages"]["bytes"] == len(shown.encode())
            assert hosts["hosts"][0]["fetched"] == len(shown.splitlines())
            assert listed(crawl.store) == before


def test_an_interrupted_command_leaves_nothing(crawl: Crawl, tmp_path: Path) -> None:
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    with running("sql", f"file:{crawl.store}", "-", stdin=subprocess.PIPE, env=env) as process:
        wait_until(lambda: any(tmp_path.rglob("job.json")), "the copy")
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 130
    assert not list(tmp_path.iterdir())


NOWHERE = ["stats file:{}/missing", "hosts file:{}/empty", "verify file:{}", "tail file:relative", "stats s3://"]
NOWHERE += ["dashboard file:{}/missing"]
CHANGES = ["add s3://a/b http://a.test/", "repair file:{}", "top s3://a/b", "tail -f s3://a/b"]


@pytest.mark.parametrize("words", NOWHERE + CHANGES)
def test_a_refusal_is_one_line_and_changes_nothing(tmp_path: Path, words: str) -> None:
    (tmp_path / "empty").mkdir()
    before = listed(tmp_path)
    line = one_line(crawler(*words.format(tmp_path).split()), 2)
    assert words in NOWHERE or "directory" in line
    assert listed(tmp_path) == before


def test_a_directory_of_the_wrong_kind_is_named_as_what_it_is(crawl: Crawl, tmp_path: Path) -> None:
    job = crawl.base / "job"
    for command in ("stats", "verify"):
        line = one_line(crawler(command, crawl.store), 2)
        assert f"file:{crawl.store}" in line
    for words in (("split", job, "--partitions", "2"), ("restore", job, tmp_path / "to")):
        assert "holds a job" in one_line(crawler(*words), 2)
    assert "does not exist" in one_line(crawler("restore", tmp_path / "none", tmp_path / "to"), 2)
    assert not list(tmp_path.iterdir())


def test_what_is_at_the_address_cannot_be_used_so(crawl: Crawl, tmp_path: Path) -> None:
    store, file, lost = f"file:{crawl.store}", tmp_path / "file", tmp_path / "lost"
    file.touch()
    shutil.copytree(crawl.store, lost)
    (lost / "crawl").unlink()
    before = listed(crawl.store), listed(tmp_path)
    for words, said in (
        (("restore", store, crawl.store / "in"), "must not contain"),
        (("restore", store, file), str(file)),
        (("restore", store, file / "to"), str(file)),
        (("restore", store, f"file:{tmp_path}/to"), f"file:{tmp_path}/to"),
        (("restore", f"file:{lost}", tmp_path / "to"), "neither a store nor a backup"),
        (("stats", f"file:{lost}"), "neither a store nor a backup"),
        (("dashboard", store, f"file:{lost}"), store),
        (("dashboard", crawl.base / "job", store), store),
    ):
        assert said in one_line(crawler(*words), 2)
    assert (listed(crawl.store), listed(tmp_path)) == before


def test_a_copy_for_which_there_is_no_room_names_its_place(crawl: Crawl, tmp_path: Path) -> None:
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    with running("stats", f"file:{crawl.store}", env=env, limits={"FSIZE": 1024}) as process:
        out, err = process.communicate(timeout=PATIENCE)
    assert str(tmp_path) in one_line(Ran(process.returncode, out.decode(), err.decode()), 1)
    assert not list(tmp_path.iterdir())
