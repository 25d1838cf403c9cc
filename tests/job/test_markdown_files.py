"""The files of Markdown follow the rows exactly, whenever the process that writes them dies."""

from __future__ import annotations

import json
import random
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from crawler.base.disk import RealDisk
from crawler.job import markdown_files
from crawler.job.checkpoint.envelope import encode_envelope
from crawler.job.directory import JobError
from crawler.job.markdown_files import CURSOR, MAGIC, VERSION, derive, file_of
from crawler.job.output.rotated_files import Size
from crawler.job.records import End, file_number
from tests.documents import page

URL = "https://a.test/"


class KilledError(BaseException):
    """The process dies."""


def row(url: str, **more: Any) -> dict[str, Any]:
    return {"url": url, "fetched_at": "2023-11-14T22:13:20.500Z", **more}


def write(job: Path, rows: list[dict[str, Any]], number: int = 1) -> tuple[Path, End]:
    """Append rows to a file of the text output."""
    path = job / f"text/text-{number:06}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a") as stream:
        stream.writelines(json.dumps(each) + "\n" for each in rows)
    return job, End(file_number(3, number), path.stat().st_size)


def shown(target: Path) -> dict[str, str]:
    """What a reader finds, with the lines of the index in any order."""
    found = {str(path.relative_to(target)): path.read_text() for path in target.rglob("*") if path.is_file()}
    found["index.jsonl"] = "".join(sorted(found["index.jsonl"].splitlines(keepends=True)))
    return {name: text for name, text in found.items() if name != CURSOR}


def test_a_kill_at_any_write_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(markdown_files, "ROWS", 4)
    chance, job, killed = random.Random(1), tmp_path / "job", tmp_path / "killed"
    real, left = RealDisk.replace, 0

    def replace(disk: RealDisk, source: Path, target: Path) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise KilledError
        real(disk, source, target)

    monkeypatch.setattr(RealDisk, "replace", replace)
    for number in (1, 1, 2, 3):
        urls = [f"{URL}{chance.randrange(9)}" for _ in range(11)]
        texts = [{"gone": True} if chance.random() < 0.3 else {"markdown": f"# {chance.random()}"} for _ in urls]
        source = write(job, [row(url, **text) for url, text in zip(urls, texts, strict=True)], number)
        for left in range(1, 99):  # noqa: B007
            with suppress(KilledError):
                derive(killed, "a", {"": source})
        fresh = tmp_path / f"fresh-{source[1]}"
        size = derive(fresh, "a", {"": source})
        assert shown(killed) == shown(fresh)
        lines = [json.loads(line) for line in shown(killed)["index.jsonl"].splitlines()]
        assert size == Size(len(lines), sum(line["bytes"] for line in lines)) == derive(killed, "a", {"": source})
        assert {line["file"] for line in lines} == shown(killed).keys() - {"index.jsonl"}
        with open(killed / "index.jsonl", "a") as stream:
            stream.write('{"url":')  # a line of the next batch that was cut off


def test_what_a_row_does_to_its_file(tmp_path: Path) -> None:
    job, target = tmp_path / "job", tmp_path / "out"
    kept, failed = file_of(URL + "kept"), file_of(URL + "failed")
    named = {"title": 'a "b"\n\x85\u2028: é', "language": "en", "extractor": "x 1"}
    write(job, [row(URL + "kept", markdown="# A", **named), row(URL + "failed", markdown="B")])
    derive(target, "a", {"": write(job, [row(URL + "gone", markdown="C")])})
    write(job, [row(URL + "failed", error="why"), row(URL + "gone", gone=True)])
    assert derive(target, "a", {"": write(job, [row(URL + "text", text="only")])}).files == 2
    assert shown(target).keys() == {kept, failed, "index.jsonl"}
    _, head, body = shown(target)[kept].split("---\n")
    values = {name: json.loads(value) for name, _, value in (line.partition(": ") for line in head.splitlines())}
    assert values == row(URL + "kept", **named)
    assert body == "\n# A\n"


def test_what_is_not_of_this_job_is_refused(tmp_path: Path) -> None:
    source, target, strange = write(tmp_path / "job", [row(URL, markdown="A")]), tmp_path / "out", tmp_path / "strange"
    derive(target, "a", {"": source})
    before = shown(target)
    other = write(tmp_path / "other", [row(URL, markdown="B")])
    strange.mkdir()
    (strange / "mine").touch()
    for place, job, rows in ((target, "b", source), (target, "a", other), (strange, "a", source)):
        with pytest.raises(JobError):
            derive(place, job, {"": rows})
    for data in (encode_envelope(MAGIC, VERSION + 1, {}), encode_envelope(MAGIC, VERSION, {}), b""):
        (target / CURSOR).write_bytes(data)
        with pytest.raises(JobError):
            derive(target, "a", {"": source})
    assert shown(target) == before


@pytest.mark.parametrize("change", ["cut", "removed", "a link"])
def test_a_lost_or_cut_index_is_made_again(tmp_path: Path, change: str) -> None:
    job, target, elsewhere = tmp_path / "job", tmp_path / "out", tmp_path / "elsewhere"
    derive(target, "a", {"": write(job, [row(f"{URL}{number}", markdown="A") for number in range(3)])})
    index = target / "index.jsonl"
    lines = index.read_bytes()
    elsewhere.write_bytes(lines)
    index.unlink()
    if change == "cut":
        index.write_bytes(lines[:-5])
    elif change == "a link":
        index.symlink_to(elsewhere)
    source = write(job, [row(f"{URL}4", markdown="B")])
    size, fresh = derive(target, "a", {"": source}), tmp_path / "fresh"
    assert (size, shown(target)) == (derive(fresh, "a", {"": source}), shown(fresh))
    assert elsewhere.read_bytes() == lines


def test_rows_that_end_before_the_last_one_read_are_refused(tmp_path: Path) -> None:
    job, target = tmp_path / "job", tmp_path / "out"
    earlier = write(job, [row(URL, markdown="A")])
    derive(target, "a", {"": write(job, [row(URL + "b", markdown="B")], 2)})
    before = shown(target)
    for end in (earlier[1], End(0, 0)):
        with pytest.raises(JobError):
            derive(target, "a", {"": (job, end)})
    assert shown(target) == before


def test_nothing_is_written_or_removed_through_a_link(tmp_path: Path) -> None:
    job, target, elsewhere = tmp_path / "job", tmp_path / "out", tmp_path / "elsewhere"
    derive(target, "a", {"": write(job, [row("https://b.test/", markdown="A")])})
    elsewhere.mkdir()
    (elsewhere / "index.md").touch()
    (target / "a.test").symlink_to(elsewhere)
    for change in ({"gone": True}, {"markdown": "B"}):
        with pytest.raises(JobError):
            derive(target, "a", {"": write(job, [row(URL, **change)])})
    assert [path.read_text() for path in elsewhere.iterdir()] == [""]


def test_the_page_about_the_format_has_a_true_example(tmp_path: Path) -> None:
    text = page("format-markdown.md")
    for url, file in re.findall(r"^\| `(http[^`]+)` \| `([^`]+)` \|$", text, re.MULTILINE):
        assert file_of(url) == file
    found = dict(re.findall(r'^```\w+ title="(\w+)"\n(.*?)^```$', text, re.MULTILINE | re.DOTALL))
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "text-000001.jsonl").write_text(found["rows"])
    source = tmp_path, End(file_number(3, 1), len(found["rows"].encode()))
    derive(tmp_path / "out", "5f0c3e8d9a1b2c47", {"": source})
    for name, block in ((CURSOR, "cursor"), ("index.jsonl", "index"), (file_of("https://h.test/geese?page=2"), "file")):
        assert (tmp_path / "out" / name).read_text() == found[block]
