"""What the outputs of a job must hold, compared with its records."""

from __future__ import annotations

import hashlib
import json
import zlib
from pathlib import Path
from typing import Any

from crawler.job.output import lines_of
from crawler.job.output.outputs import FORMS


def records(job: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for _, line in lines_of(job / "pages.jsonl")]


def files_of(job: Path, name: str) -> dict[int, bytes]:
    """The files of an output, by number."""
    (form,) = (form for form in FORMS.values() if form.name == name)
    return {number: form.path(job, number).read_bytes() for number in form.numbers(job)}


def parts_of(job: Path, name: str = "links") -> dict[str, bytes]:
    """What an output holds of each page, by URL. Each byte of its files belongs to one page, and each page has what
    its record says."""
    files, parts, ends = files_of(job, name), dict[str, bytes](), dict[int, int]()
    for record in records(job):
        if name not in record.get("kept", {}):
            continue
        number, offset, length, crc = record["kept"][name]
        assert offset == ends.get(number, 0), f"{record['url']}: a gap before offset {offset} of file {number}"
        ends[number] = offset + length
        part = files[number][offset : offset + length]
        assert (len(part), zlib.crc32(part)) == (length, crc), f"{record['url']}: not what its record says"
        assert record["url"] not in parts, f"{record['url']} is there twice"
        parts[record["url"]] = part
    assert ends == {number: len(data) for number, data in files.items()}, "bytes of no page"
    return parts


def edges_of(job: Path) -> dict[str, list[dict[str, Any]]]:
    """The edges of the link graph, by the page that has them."""
    edges = {url: [json.loads(line) for line in part.splitlines()] for url, part in parts_of(job).items()}
    for url, rows in edges.items():
        assert {row["from"] for row in rows} == {url}
        assert len({row["to"] for row in rows}) == len(rows), f"{url}: an edge is there twice"
    return edges


def bodies_of(job: Path) -> dict[str, bytes]:
    """The body of each page that has one, by URL. Each is what its name says."""
    bodies: dict[str, bytes] = {}
    for record in records(job):
        if "body" in record:
            assert record["url"] not in bodies, f"{record['url']} is there twice"
            bodies[record["url"]] = data = (job / record["body"]).read_bytes()
            assert record["body"].rpartition("/")[2] == hashlib.sha256(data).hexdigest(), record["url"]
    return bodies
