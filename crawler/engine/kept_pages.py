"""Reads the stored pages of a job: from files of bodies, or from its web archive."""

from __future__ import annotations

import sys
from base64 import b32decode
from collections.abc import Iterator
from hashlib import sha256
from io import BytesIO
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from crawler.base.kv import Family
from crawler.engine.keepers import decoded_body
from crawler.inspect.export.kept_parts import KeptParts
from crawler.job.directory import PAGES
from crawler.job.job import Job
from crawler.job.output import Record, lines_of, record_of
from crawler.job.output.body_files import body_of
from crawler.job.records import JournalError, decode_aside
from crawler.web.archive.payloads import SEQUENCE
from crawler.web.archive.record_layout import Kind
from crawler.web.archive.warc_reader import FoundRecord, read_records
from crawler.web.fetch import RawExchange, Truncation

_PAIR: Any = np.dtype((np.int64, 2))
_HEAD_END = b"\r\n\r\n"
_ANSWERS = (Kind.RESPONSE, Kind.REVISIT)


class KeptPage(NamedTuple):
    """The body of a page after content decoding. ``whole``: it is not truncated."""

    body: bytes
    whole: bool


class KeptPages:
    """The stored pages of a job that is not being crawled, each cut to at most ``most`` bytes."""

    def __init__(self, job: Job, archive: KeptParts, most: int) -> None:
        self._job = job
        self._archive = archive
        self._most = most
        self._places: npt.NDArray[np.int64] | None = None  # archived records: hash of the URL, offset in the records

    def of(self, record: Record) -> KeptPage | None:
        """Return the page of a record; None if its body was not stored or is gone. Raises OSError, JournalError."""
        if record.get("rendered"):  # only archives have the rendered document
            found = next(_of_kinds(self._archive.of(record), Kind.CONVERSION), None)
            return None if found is None else KeptPage(found.block, "warc-truncated" not in found.fields)
        name = body_of(record)
        path = self._job.directory / (name or "")
        if name is not None and path.is_file():
            body = path.read_bytes()
            if sha256(body).hexdigest() != path.name:
                raise JournalError(f"{path}: the body has changed since it was stored; run `crawler verify`")
            return KeptPage(body, "body_cut" not in record)
        answer = next(_of_kinds(self._archive.of(record), *_ANSWERS), None)
        if answer is None:
            return None
        # A revisit record has only headers. It refers to a complete payload.
        is_revisit = answer.fields["warc-type"] == Kind.REVISIT
        source = self._original(answer.fields["warc-payload-digest"], answer) if is_revisit else answer
        if source is None:
            return None
        truncated = source.fields.get("warc-truncated")
        head, body = answer.block.partition(_HEAD_END)[0], source.block.partition(_HEAD_END)[2]
        raw = RawExchange(b"", head, body, Truncation(truncated) if truncated else None)
        decoded, cut = decoded_body(raw, self._most)
        return KeptPage(decoded, cut is None)

    def _original(self, digest: str, revisit: FoundRecord) -> FoundRecord | None:
        """Return the answer with the given payload."""
        for part in self._candidates(digest, revisit.fields.get("warc-refers-to-target-uri")):
            for answer in _of_kinds(part, *_ANSWERS):
                if answer.fields["warc-type"] == Kind.RESPONSE and answer.fields.get("warc-payload-digest") == digest:
                    return answer
        return None

    def _candidates(self, digest: str, url: str | None) -> Iterator[bytes]:
        """Yield the parts of the archive that may hold a payload: those of a robots.txt, or of the visits to a URL."""
        store, pages = self._job.store, self._job.directory / PAGES
        row = store.get(Family.PAYLOADS, b32decode(digest.removeprefix("sha1:")))
        aside = None if row is None else store.get(Family.ASIDES, row[:SEQUENCE])
        for position in () if aside is None else decode_aside(aside).positions:
            yield self._archive.read(position)
        if self._places is None:
            lines = ((offset, record_of(line) or {}) for offset, line in lines_of(pages) if b'"warc":[' in line)
            places = np.fromiter(((hash(record.get("url")), offset) for offset, record in lines), _PAIR)
            self._places = places[places[:, 0].argsort(kind="stable")]
        first, end = (int(np.searchsorted(self._places[:, 0], hash(url), side)) for side in ("left", "right"))
        for offset in self._places[first:end, 1].tolist():
            record = record_of(next(lines_of(pages, start=offset))[1])
            if record is not None:
                yield self._archive.of(record)


def _of_kinds(part: bytes, *kinds: Kind) -> Iterator[FoundRecord]:
    for record in read_records(BytesIO(part).read, sys.maxsize):
        if record.fields.get("warc-type") in kinds:
            yield record
