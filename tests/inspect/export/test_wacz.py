"""A package: its files, their digests, and an index in blocks that a reader finds its way in."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
import zlib
from pathlib import Path

import pytest

from crawler.inspect.export.wacz import ArchivedPage, WaczWriter, WarcFile
from crawler.web.archive.cdxj import HEAD_MOST, line_of
from crawler.web.archive.gzip_member import members
from crawler.web.archive.warc_reader import read_records
from tests.web.archive.exchanges import HTML, PAGE, archived, exchange

PAGES = [
    ArchivedPage("http://h.test/1", "2023-11-14T22:13:20Z", "Ein Täg"),
    ArchivedPage("http://h.test/2", "2024-01-01T00:00:00Z"),
]


@pytest.fixture
def warc(tmp_path: Path) -> Path:
    path = tmp_path / "crawl-000001.warc.gz"
    captures = [exchange(HTML, PAGE + bytes([number]), f"http://h.test/{number}") for number in range(3)]
    path.write_bytes(b"".join(members(archived(capture)) for capture in captures))
    return path


def lines_of(warc: Path) -> list[bytes]:
    found = [line_of(each, warc.name) for each in read_records(io.BytesIO(warc.read_bytes()).read, HEAD_MOST)]
    return sorted(line for line in found if line is not None)


def packed(path: Path, warc: Path, end: int, lines: list[bytes]) -> zipfile.ZipFile:
    writer = WaczWriter(path, 1_700_000_000.0)
    writer.warc(WarcFile(warc, end, warc.name))
    assert writer.index(lines) == len(lines)
    writer.pages(PAGES)
    writer.finish("h.test", "1")
    return zipfile.ZipFile(path)


def test_each_file_has_its_digest(tmp_path: Path, warc: Path) -> None:
    with packed(tmp_path / "a.wacz", warc, warc.stat().st_size, lines_of(warc)) as package:
        assert {entry.compress_type for entry in package.infolist()} == {zipfile.ZIP_STORED}
        described = json.loads(package.read("datapackage.json"))
        names = {each["path"]: each for each in described["resources"]}
        assert set(names) == set(package.namelist()) - {"datapackage.json", "datapackage-digest.json"}
        for name, each in names.items():
            data = package.read(name)
            assert each["bytes"] == len(data)
            assert each["hash"] == f"sha256:{hashlib.sha256(data).hexdigest()}"
            assert each["name"] == name.split("/")[1]
        assert (described["profile"], described["wacz_version"]) == ("data-package", "1.1.1")
        assert (described["title"], described["created"]) == ("h.test", "2023-11-14T22:13:20Z")
        digest = json.loads(package.read("datapackage-digest.json"))
        assert digest == {
            "path": "datapackage.json",
            "hash": f"sha256:{hashlib.sha256(package.read('datapackage.json')).hexdigest()}",
        }
        assert package.read("archive/crawl-000001.warc.gz") == warc.read_bytes()


def test_the_list_of_pages(tmp_path: Path, warc: Path) -> None:
    with packed(tmp_path / "a.wacz", warc, 0, []) as package:
        head, *pages = [json.loads(line) for line in package.read("pages/pages.jsonl").splitlines()]
    assert head["format"] == "json-pages-1.0"
    assert pages == [
        {"url": "http://h.test/1", "ts": "2023-11-14T22:13:20Z", "title": "Ein Täg"},
        {"url": "http://h.test/2", "ts": "2024-01-01T00:00:00Z", "title": "http://h.test/2"},
    ]


def test_the_index_is_found_by_its_blocks(tmp_path: Path, warc: Path) -> None:
    lines = [f'test,h)/{number:05} 20231114221320 {{"offset": "{number}"}}\n'.encode() for number in range(2_500)]
    with packed(tmp_path / "a.wacz", warc, 0, lines) as package:
        data = package.read("indexes/index.cdx.gz")
        meta, *blocks = package.read("indexes/index.idx").splitlines()
    assert meta == b'!meta 0 {"format": "cdxj-gzip-1.0", "filename": "index.cdx.gz"}'
    found = []
    for block in blocks:
        key, _, place = block.decode().partition(" {")
        where = json.loads("{" + place)
        piece = data[where["offset"] : where["offset"] + where["length"]]
        assert where["digest"] == f"sha256:{hashlib.sha256(piece).hexdigest()}"
        inside = zlib.decompress(piece, 31).splitlines(keepends=True)
        assert inside[0].decode().startswith(key)
        found += inside
    assert found == lines
    assert len(blocks) == 3


def test_only_what_belongs_to_the_archive_is_packed(tmp_path: Path, warc: Path) -> None:
    with packed(tmp_path / "a.wacz", warc, 100, []) as package:
        assert package.read("archive/crawl-000001.warc.gz") == warc.read_bytes()[:100]


def test_a_file_that_is_too_short_is_an_error(tmp_path: Path, warc: Path) -> None:
    writer = WaczWriter(tmp_path / "a.wacz", 1_700_000_000.0)
    size = warc.stat().st_size
    with pytest.raises(OSError, match=f"has {size} bytes where {size + 1} were written"):
        writer.warc(WarcFile(warc, size + 1, warc.name))
    writer.close()
