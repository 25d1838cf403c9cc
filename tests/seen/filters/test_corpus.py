"""Filter files that earlier versions made: this version opens each and forgets nothing that is in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.program import crawler
from tests.seen.filters.corpus.make import LINES

CORPUS = Path(__file__).parent / "corpus"
FILTERS = sorted(CORPUS.glob("*/*.filter"))


def name(path: Path) -> str:
    return str(path.relative_to(CORPUS))


def test_there_is_a_corpus() -> None:
    assert len(FILTERS) >= 6


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
    assert "the segment has version 3 at offset 8; this program reads versions 1 and 2" in ran.err
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
