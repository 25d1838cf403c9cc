"""Keeping: what outputs hold of a page besides its record, prepared before the transaction that finishes its URL.

A keeper changes nothing: its parts are written with the record, or not at all. It may work beside the event loop, and
the visit waits for it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from hashlib import sha256
from typing import Protocol

from crawler.engine.archiving import Archive
from crawler.engine.stored_body import body_of_answer
from crawler.extract import Edge, edge_rows
from crawler.job.verdict import Finished
from crawler.output.body_files import LARGE, BodyFiles
from crawler.records import Body, Kept, Part
from crawler.settings import OUTPUTS

LINKS = OUTPUTS.index("links") + 1
EDGES_A_STEP = 2_000  # a few milliseconds


class Keeper(Protocol):
    """Prepares the parts for one output."""

    async def keep(self, finished: Finished, edges: Sequence[Edge]) -> Kept:
        """Return what is kept of a page that was answered (``finished.response``), redirects among them. ``edges`` are
        its links."""


class LinkKeeper:
    """Keeps the edges of the link graph."""

    async def keep(self, finished: Finished, edges: Sequence[Edge]) -> Kept:
        """See ``Keeper``."""
        href, rows = finished.record.entry.href, list[bytes]()
        for start in range(0, len(edges), EDGES_A_STEP):
            if start:
                await asyncio.sleep(0)
            rows.append(edge_rows(href, edges[start : start + EDGES_A_STEP]))
        return (Part(LINKS, b"".join(rows)),) if rows else ()


class BodyKeeper:
    """Keeps bodies, each in a file of its own."""

    def __init__(self, files: BodyFiles, most: int) -> None:
        """``most``: bytes of a body that are kept."""
        self._files = files
        self._most = most

    async def keep(self, finished: Finished, edges: Sequence[Edge]) -> Kept:
        """See ``Keeper``. A large body is written here, beside the event loop: a file that no record names is no
        change."""
        data, cut = await body_of_answer(finished.response, finished.raw, self._most)
        if not data:
            return ()
        if len(data) <= LARGE:
            return (Body(sha256(data).digest(), data, cut),)
        body = Body(await asyncio.to_thread(_digest, data), data, cut)
        with contextlib.suppress(OSError):  # the transaction tries again, and pauses if the disk is full
            await asyncio.to_thread(self._files.write_ahead, body)
        return (body,)


def _digest(data: bytes) -> bytes:
    return sha256(data).digest()


class Keepers:
    """All keepers of a run, in the order of their outputs."""

    def __init__(self, keepers: Sequence[Keeper]) -> None:
        self._keepers = keepers

    @classmethod
    def of(cls, keep: Sequence[str], archive: Archive, bodies: BodyKeeper) -> Keepers | None:
        """The keepers for the outputs with these names; None if there are none."""
        keepers: list[Keeper] = [archive] if "warc" in keep else []
        keepers += [LinkKeeper()] if "links" in keep else []
        keepers += [bodies] if "bodies" in keep else []
        return cls(keepers) if keepers else None

    async def keep(self, finished: Finished, edges: Sequence[Edge]) -> Kept:
        """See ``Keeper``."""
        kept: Kept = ()
        for keeper in self._keepers:
            kept += await keeper.keep(finished, edges)
        return kept
