"""A web archive as one file, WACZ 1.1.1: a ZIP file of WARC files, their index and the list of pages. The ZIP file does
not compress its parts, so that a reader can fetch only what it needs.

    archive/             the WARC files
    indexes/index.cdx.gz the index, CDXJ in separately compressed blocks
    indexes/index.idx    the first line of each block, and its position
    pages/pages.jsonl    the pages
    datapackage.json     these files with their sizes and digests
"""

from __future__ import annotations

import hashlib
import json
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import IO, BinaryIO, NamedTuple

_PIECE = 2**20  # bytes copied at a time
_BLOCK = 1_024  # index lines per compressed block
_INDEX, _BLOCKS, _PAGES = "indexes/index.cdx.gz", "indexes/index.idx", "pages/pages.jsonl"
_PACKAGE, _DIGEST = "datapackage.json", "datapackage-digest.json"
_VERSION = "1.1.1"
SOFTWARE = "crawler "  # followed by the version


class WarcFile(NamedTuple):
    """A WARC file, of which the first ``end`` bytes belong to the archive. The index refers to it by ``name``."""

    path: Path
    end: int
    name: str


class Resource(NamedTuple):
    """A file in the package, with its size and digest."""

    path: str
    size: int
    digest: str


class ArchivedPage(NamedTuple):
    """A page listed as an entry point for readers. ``time`` is in RFC 3339."""

    url: str
    time: str
    title: str | None = None


class WaczWriter:
    """Writes a package, one part at a time."""

    def __init__(self, path: Path, created: float) -> None:
        """``created``: when the package is created, in seconds since 1970."""
        self._zip = zipfile.ZipFile(path, "w", zipfile.ZIP_STORED, allowZip64=True)
        self._time = datetime.fromtimestamp(created, UTC)
        self._resources: list[Resource] = []

    def close(self) -> None:
        """Close the file. It is not a valid package unless ``finish`` has been called."""
        self._zip.close()

    def warc(self, file: WarcFile) -> None:
        """Add a WARC file. Raises OSError, including when the file has fewer than ``end`` bytes."""
        with open(file.path, "rb") as stream:
            self._add(f"archive/{file.name}", _pieces(stream, file.end))

    def index(self, lines: Iterable[bytes]) -> int:
        """Add the index, whose lines must be in order. Returns the number of lines."""
        count, offset, blocks = 0, 0, [_line("!meta 0", {"format": "cdxj-gzip-1.0", "filename": "index.cdx.gz"})]

        def compressed() -> Iterator[bytes]:
            nonlocal count, offset
            following = iter(lines)
            while block := list(islice(following, _BLOCK)):
                data = zlib.compress(b"".join(block), wbits=31)
                key = block[0].partition(b" {")[0].decode("ascii")
                blocks.append(
                    _line(key, {"offset": offset, "length": len(data), "digest": _label(hashlib.sha256(data))})
                )
                count, offset = count + len(block), offset + len(data)
                yield data

        self._add(_INDEX, compressed())
        self._add(_BLOCKS, blocks)
        return count

    def pages(self, pages: Iterable[ArchivedPage]) -> None:
        """Add the list of pages."""

        def lines() -> Iterator[bytes]:
            yield _json({"format": "json-pages-1.0", "id": "pages", "title": "All Pages"})
            for page in pages:
                # Titles are optional in the format, but checkers treat a page without a title as a blank row.
                yield _json({"url": page.url, "ts": page.time, "title": page.title or page.url})

        self._add(_PAGES, lines())

    def finish(self, title: str, version: str) -> None:
        """Add the description of the parts, and finish the package. ``version`` is that of this program."""
        created = self._time.isoformat(timespec="seconds").replace("+00:00", "Z")
        package = json.dumps(
            {
                "profile": "data-package",
                "wacz_version": _VERSION,
                "title": title,
                "created": created,
                "software": SOFTWARE + version,
                "resources": [
                    {"name": name.path.rpartition("/")[2], "path": name.path, "hash": name.digest, "bytes": name.size}
                    for name in self._resources
                ],
            },
            indent=2,
        ).encode()
        self._add(_PACKAGE, [package])
        described = {"path": _PACKAGE, "hash": self._resources[-1].digest}
        self._add(_DIGEST, [_json(described)])
        self._zip.close()

    def _add(self, name: str, pieces: Iterable[bytes]) -> None:
        entry = zipfile.ZipInfo(name, self._time.timetuple()[:6])
        entry.external_attr = 0o644 << 16
        digest, size = hashlib.sha256(), 0
        with self._zip.open(entry, "w", force_zip64=True) as stream:
            for piece in pieces:
                stream.write(piece)
                digest.update(piece)
                size += len(piece)
        self._resources.append(Resource(name, size, _label(digest)))


def is_package(stream: BinaryIO) -> bool:
    """Return True if the file is a package that this program wrote."""
    try:
        with zipfile.ZipFile(stream) as package:
            described = package.getinfo(_PACKAGE)
            found = json.loads(package.read(described)) if described.file_size <= _PIECE else None
    except (zipfile.BadZipFile, KeyError, ValueError, NotImplementedError, RuntimeError, EOFError, zlib.error):
        return False  # NotImplementedError, RuntimeError: the file is compressed or encrypted, unlike our packages
    software = found.get("software") if isinstance(found, dict) else None
    return isinstance(software, str) and software.startswith(SOFTWARE)


def _pieces(stream: IO[bytes], end: int) -> Iterator[bytes]:
    left = end
    while left:
        piece = stream.read(min(_PIECE, left))
        if not piece:
            raise OSError(f"{stream.name} has {end - left} bytes where {end} were written")
        left -= len(piece)
        yield piece


def _label(digest: hashlib._Hash) -> str:
    return f"sha256:{digest.hexdigest()}"


def _json(value: Mapping[str, object]) -> bytes:
    return json.dumps(value).encode("ascii") + b"\n"


def _line(key: str, value: Mapping[str, object]) -> bytes:
    return key.encode("ascii") + b" " + _json(value)
