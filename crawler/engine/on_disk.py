"""Keeps a large page that waits for its text extraction in a file, so that it takes no memory from the pages of other
hosts.

The file has no name, so the system deletes it however the crawl ends. The file is mapped into memory, so the system can
reclaim the memory of parts that have been read.
"""

from __future__ import annotations

import tempfile
from mmap import ACCESS_READ, mmap
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from crawler.job.verdict import Draft


class OnDisk(Struct, frozen=True):
    """A draft whose bodies have been moved to disk, and these bodies. ``decoded`` and ``raw``: the bodies of the
    answer, if other outputs want them."""

    draft: Draft
    body: mmap
    decoded: mmap | None
    raw: mmap | None

    @classmethod
    def of(cls, draft: Draft, directory: Path) -> OnDisk:
        """Write the bodies of a page to disk and remove them from its draft. Raises OSError."""
        body, response, raw = draft.body, draft.response, draft.raw
        assert body
        kept, mapped, whole = _mapped(body, directory), None, None
        if raw is not None:
            if response is not None and response.body:
                mapped = kept if response.body is body else _mapped(response.body, directory)
            if raw.body:
                whole = kept if raw.body is body else _mapped(raw.body, directory)
            raw = replace(raw, body=b"")
        bare = None if response is None else replace(response, body=None, raw=raw)
        draft.body, draft.response, draft.raw = None, bare, raw
        return cls(draft, kept, mapped, whole)

    def whole(self) -> Draft:
        """Return the draft with the bodies that other outputs need loaded into memory."""
        response, raw = self.draft.response, self.draft.raw
        if raw is not None and self.raw is not None:
            raw = replace(raw, body=self.raw[:])
        if response is not None:
            body = None if self.decoded is None else self.decoded[:]
            response = replace(response, body=body, raw=raw)
        return replace(self.draft, response=response, raw=raw)


def _mapped(data: bytes, directory: Path) -> mmap:
    with tempfile.TemporaryFile(dir=directory, buffering=0) as file:
        left = memoryview(data)
        while left:
            left = left[file.write(left) :]
        return mmap(file.fileno(), len(data), access=ACCESS_READ)
