"""Jobs and filter files that earlier versions made: this version opens each, loses nothing and does nothing twice."""

from __future__ import annotations

import contextlib
import io
import json
import tarfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from crawler.cli import main
from tests.corpus.make import LINES, OPTIONS
from tests.corpus.web import ROOT, site, urls
from tests.jobs import rows, verify
from tests.outputs import edges_of
from tests.program import crawler
from tests.site import Site

CORPUS = Path(__file__).parent
JOBS = sorted(CORPUS.glob("*/*.tar.xz"))
FILTERS = sorted(CORPUS.glob("*/*.filter"))


def name(path: Path) -> str:
    return str(path.relative_to(CORPUS))


@pytest.fixture(scope="module")
def web() -> Iterator[Site]:
    with site() as served:
        yield served


@pytest.fixture
def seeds(tmp_path: Path) -> Path:
    path = tmp_path / "seeds.txt"
    path.write_text(f"{ROOT}/\n")
    return path


def unpacked(archive: Path, to: Path) -> Path:
    with tarfile.open(archive) as tar:
        tar.extractall(to, filter="data")
    return to / "job"


def figures(job: Path) -> dict[str, Any]:
    """``crawler stats --json``, in this process."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert main(["stats", str(job), "--json"]) == 0
    said: dict[str, Any] = json.loads(out.getvalue())
    return said


def test_there_is_a_corpus() -> None:
    assert len(JOBS) >= 8
    assert len(FILTERS) >= 6


@pytest.mark.parametrize("archive", JOBS, ids=name)
def test_a_job_of_an_earlier_version_is_carried_on_to_its_end(
    archive: Path, web: Site, seeds: Path, tmp_path: Path
) -> None:
    job = unpacked(archive, tmp_path)
    before = rows(job)
    stats = figures(job)
    assert stats["urls_pending"] > 0
    checked = verify(job)
    assert checked.code == 0, checked

    asked = len(web.asked)
    ran = crawler(seeds, "--job", job, *OPTIONS)

    assert ran.code == 0, ran.err
    hashed = figures(job)["seen"]["hash"]
    if stats["seen"]["hash"]["keyed"] or stats["seen"]["kind"] == "exact":
        assert hashed == stats["seen"]["hash"]
    else:
        assert hashed == {"algorithm": "blake2b", "keyed": True, "forgeable": False}, "it was given a secret"
    found = rows(job)
    assert found[: len(before)] == before, "records of the earlier version were changed"
    if archive.name.startswith("limits"):
        assert {row["url"] for row in found} == urls(), "what a limit left out comes back when it is lifted"
        assert verify(job).code == 0
        return
    if archive.name.startswith("links"):
        assert set(edges_of(job)) == {row["url"] for row in before if "kept" in row}, "what was kept is there"
    assert Counter(row["url"] for row in found) == Counter(urls())
    done = {row["url"] for row in before}
    again = [url for url in (f"http://{each.host}{each.path}" for each in web.asked[asked:]) if url in done]
    assert not again, "finished pages were asked for again"
    assert verify(job).code == 0


@pytest.mark.parametrize("archive", FILTERS[:1], ids=name)
@pytest.mark.parametrize("words", [("dedup", "--raw", "--filter"), ("filter", "info")], ids=" ".join)
def test_a_filter_file_of_a_later_version_is_refused_and_left_alone(
    archive: Path, words: tuple[str, ...], tmp_path: Path
) -> None:
    file = tmp_path / archive.name
    # Behind the version nothing is what this program knows, least of all how much memory it takes.
    later = archive.read_bytes()[:8] + b"\x03\0\0\0" + b"\xff" * 100
    file.write_bytes(later)
    with open(file, "r+b") as stream:
        stream.truncate(2**42)

    ran = crawler(*words, file, stdin="line 1\n")

    assert (ran.code, ran.out) == (2, ""), ran
    assert "a segment of version 3 at offset 8; this program reads versions 1 and 2" in ran.err
    assert file.stat().st_size == 2**42
    with open(file, "rb") as stream:
        assert stream.read(len(later)) == later
    assert [path.name for path in tmp_path.iterdir()] == [file.name]


@pytest.mark.parametrize("archive", FILTERS, ids=name)
def test_a_filter_file_of_an_earlier_version_knows_its_lines(archive: Path, tmp_path: Path) -> None:
    file = tmp_path / archive.name
    file.write_bytes(archive.read_bytes())
    new = [f"never seen {number}" for number in range(300)]

    ran = crawler("dedup", "--raw", "--filter", file, stdin="\n".join([*LINES, *new]) + "\n")

    assert ran.code == 0, ran.err
    printed = ran.out.splitlines()
    assert set(printed) <= set(new), "lines of the earlier version were forgotten"
    assert len(printed) > 270
