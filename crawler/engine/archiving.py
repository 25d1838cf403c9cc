"""The web archive as an output: the records of each answer, and the head of each file."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from crawler import __version__
from crawler.archive.capture_records import RANDOM_BYTES, Capture, Earlier, payload_digest, records
from crawler.archive.gzip_member import members
from crawler.archive.labels import ID_BYTES, date_label, milliseconds, record_id
from crawler.archive.payloads import decode_payload, encode_payload
from crawler.archive.warc_record import Field, warcinfo
from crawler.extract import Edge
from crawler.fetch import RawExchange, Response
from crawler.job.verdict import Finished
from crawler.kv import Family, Reader
from crawler.output.rotated_files import Head
from crawler.records import Kept, PageRecord, Part
from crawler.settings import OUTPUTS, Settings
from crawler.slices import entropy
from crawler.urls.steps import drop_userinfo

T = TypeVar("T")

WARC = OUTPUTS.index("warc") + 1
SOFTWARE = f"crawler {__version__}"

_LONG = 256 * 1024  # bytes of a body whose records are made beside the event loop


class Archive:
    """Keeps each answer as it was on the wire. The store says which payloads are archived already."""

    def __init__(self, store: Reader) -> None:
        self._store = store

    async def keep(self, finished: Finished, edges: Sequence[Edge]) -> Kept:
        """See ``Keeper``."""
        record, raw, seconds = finished.record, finished.raw, finished.request.seconds
        if raw is None:
            return ()
        return await self._kept(record.entry.href, record.fetched_at - seconds, raw, _about(record, seconds))

    async def robots(self, href: str, answer: Response, now: float) -> Kept:
        """Return what is kept of the answer for a robots.txt."""
        return () if answer.raw is None else await self._kept(href, now - answer.seconds, answer.raw, ())

    async def _kept(self, href: str, began: float, raw: RawExchange, about: Sequence[Field]) -> Kept:
        url, at = _public(href), milliseconds(began)
        capture = Capture(url, at, raw.request, raw.head, raw.body, raw.address, raw.truncated or "")
        aside = asyncio.to_thread if len(raw.body) > _LONG else _at_once
        digest = await aside(payload_digest, capture)
        row = None if digest is None else self._store.get(Family.PAYLOADS, digest)
        earlier = None if digest is None or row is None else decode_payload(digest, row)
        data = await aside(_compressed, capture, digest, earlier, about)
        payload = None if digest is None or row is not None else (digest, encode_payload(at, url))
        return (Part(WARC, data, payload),)


async def _at_once(work: Callable[..., T], *given: Any) -> T:
    return work(*given)


def _compressed(capture: Capture, digest: bytes | None, earlier: Earlier | None, about: Sequence[Field]) -> bytes:
    return members(records(capture, digest, earlier, about, entropy.random_bytes(RANDOM_BYTES)))


def _public(href: str) -> str:
    return drop_userinfo(href) if "@" in href else href


def _about(record: PageRecord, seconds: float) -> list[Field]:
    """What the crawl knows of a URL besides its answer."""
    entry = record.entry
    return [
        ("via", _public(entry.via or "")),
        ("fetchTimeMs", str(round(seconds * 1000))),
        ("depth", str(entry.depth)),
        ("outcome", record.outcome),
        ("error", record.error or ""),
    ]


def head_of_files(settings: Settings, clock: Callable[[], float]) -> Head:
    """What makes the first record of a WARC file from its name."""
    fetch = settings.fetch
    about = [
        ("software", SOFTWARE),
        ("http-header-user-agent", fetch.user_agent + (f" (+{fetch.contact})" if fetch.contact else "")),
        ("robots", "ignore" if settings.robots.ignore else "obey"),
    ]

    def head(name: str) -> bytes:
        now = date_label(milliseconds(clock()))
        return members([warcinfo(name, now, record_id(entropy.random_bytes(ID_BYTES)), about)])

    return head
