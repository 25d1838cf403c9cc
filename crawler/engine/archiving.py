"""The WARC output: the records of each answer, and the first record of each file."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from crawler import __version__
from crawler.base import entropy
from crawler.base.kv import Family, Reader
from crawler.base.settings.parts import OUTPUTS, Settings
from crawler.frontier.page import Answer
from crawler.job.output.rotated_files import Head
from crawler.job.records import Kept, PageRecord, Part
from crawler.job.revisit import NOT_MODIFIED
from crawler.job.verdict import Draft
from crawler.web.archive.exchange_records import RANDOM_BYTES, Capture, Earlier, conversion, payload_digest, records
from crawler.web.archive.gzip_member import members
from crawler.web.archive.labels import ID_BYTES, date_label, milliseconds, record_id
from crawler.web.archive.payloads import (
    NO_VALIDATORS,
    Validators,
    decode_payload,
    encode_payload,
    sent_validators,
    validity_key,
)
from crawler.web.archive.record_layout import Field, warcinfo
from crawler.web.fetch import RawExchange

Rows = tuple[tuple[bytes, bytes], ...]  # keys and values of the store
NO_ROWS: Rows = ()
Exchange = tuple[str, float, RawExchange]  # the URL, when the exchange started (seconds since 1970), and its bytes

WARC = OUTPUTS.index("warc") + 1
SOFTWARE = f"crawler {__version__}"

_LONG = 256 * 1024  # bytes; the records of longer bodies are made in a thread
_DRAWN = 64  # number of exchanges for which random bytes are drawn at once


class Archive:
    """Archives each answer exactly as it was received. The store knows which payloads are already archived."""

    def __init__(self, store: Reader, most: int) -> None:
        """``most``: the maximum number of bytes of a body to archive."""
        self._store = store
        self._most = most
        self._random = _random()

    async def keep(self, draft: Draft) -> Kept:
        """See ``Keeper``."""
        record, raw, seconds = draft.record, draft.raw, draft.request.seconds
        if raw is None:
            return ()
        capture = _captured(record.entry.href, record.fetched_at - seconds, raw)
        sent, known, valid, about = sent_validators(capture.request), None, None, _about(record, seconds)
        random, exchanges = next(self._random), list[Exchange]()
        if draft.rendering is not None:
            exchanges, left_out = _fitting(draft.rendering.exchanges, self._most)
            about.append(("requestsLeftOut", str(left_out or "")))
        if record.status == NOT_MODIFIED and any(sent):
            known = sent
            valid = self._valid(capture.url, known)
            data, payloads = _compressed(capture, None, valid, about, random), NO_ROWS
        else:
            data, valid, payloads = await self._archived(capture, about, random)
        if valid is not None and draft.answer is not None:
            # Store the validators for the next visit. A 304 may omit those that have not changed.
            stated = _stated(draft.answer, known)
            if any(stated) and stated != known:
                payloads = (*payloads, (validity_key(capture.url, stated), encode_payload(valid.at, valid.url)))
        if exchanges:
            made, rows = await self._exchanges(exchanges)
            data, payloads = data + made, (*payloads, *rows)
        if record.rendered is not None and draft.body is not None:
            document = partial(conversion, capture.url, capture.at, random, next(self._random), draft.body)
            data += await asyncio.to_thread(lambda: members([document(self._most)]))
        return (Part(WARC, data, payloads),)

    async def robots(self, hops: Sequence[Exchange]) -> Kept:
        """Return the archive records of a request for robots.txt: those of its redirects and of the last answer."""
        data, rows = await self._exchanges(hops)
        return (Part(WARC, data, rows),) if data else ()

    async def _exchanges(self, exchanges: Sequence[Exchange]) -> tuple[bytes, Rows]:
        made, rows = list[bytes](), dict[bytes, bytes]()
        for href, began, raw in exchanges:
            data, _, payloads = await self._archived(_captured(href, began, raw), (), next(self._random))
            made.append(data)
            rows = dict(payloads) | rows
        return b"".join(made), tuple(rows.items())

    async def _archived(self, capture: Capture, about: Sequence[Field], random: bytes) -> tuple[bytes, Earlier, Rows]:
        """Return the records of an exchange, the capture that holds its payload, and the row for that payload if it is
        new. The records of a long body are made in a thread."""
        long = len(capture.body) > _LONG
        digest = await asyncio.to_thread(payload_digest, capture) if long else payload_digest(capture)
        earlier = None if digest is None else self._capture(digest)
        made = (capture, digest, earlier, about, random)
        data = await asyncio.to_thread(_compressed, *made) if long else _compressed(*made)
        if earlier is not None:
            return data, earlier, NO_ROWS
        own = Earlier(capture.url, capture.at)
        return data, own, NO_ROWS if digest is None else ((digest, encode_payload(own.at, own.url)),)

    def _capture(self, key: bytes) -> Earlier | None:
        """Return the capture stored under ``key``, or None."""
        row = self._store.get(Family.PAYLOADS, key)
        return None if row is None else decode_payload(key, row)

    def _valid(self, url: str, known: Validators) -> Earlier | None:
        """Return the capture that a 304 from the server confirms."""
        found = self._capture(validity_key(url, known))
        return None if found is None else found._replace(digest=None)


def _random() -> Iterator[bytes]:
    """Yield the random bytes for the record ids of each exchange. They are read from the system in bulk."""
    while True:
        many = entropy.random_bytes(_DRAWN * RANDOM_BYTES)
        for start in range(0, len(many), RANDOM_BYTES):
            yield many[start : start + RANDOM_BYTES]


def _fitting(exchanges: Sequence[Exchange], most: int) -> tuple[list[Exchange], int]:
    """Return the exchanges of a page to archive, and the number of exchanges left out. A page is stored in one step, so
    all its bodies together may be only as large as a single body."""
    fitting = list[Exchange]()
    for exchange in exchanges:
        most -= len(exchange[2].body)
        if most >= 0:
            fitting.append(exchange)
    return fitting, len(exchanges) - len(fitting)


def _captured(href: str, began: float, raw: RawExchange) -> Capture:
    truncated = raw.truncated or ""
    return Capture(href, milliseconds(began), raw.request, raw.head, raw.body, raw.address, truncated)


def _compressed(
    capture: Capture, digest: bytes | None, earlier: Earlier | None, about: Sequence[Field], random: bytes
) -> bytes:
    return members(records(capture, digest, earlier, about, random))


def _stated(answer: Answer, known: Validators | None) -> Validators:
    """Return the validators for the next visit. ``known``: the validators sent with this request, if they are still
    valid."""
    etag, modified = known or NO_VALIDATORS
    return Validators(answer.etag or etag, answer.last_modified or modified)


def _about(record: PageRecord, seconds: float) -> list[Field]:
    """Return the facts that the crawl knows about a URL, but that the server's answer does not contain."""
    entry = record.entry
    return [
        ("via", entry.via or ""),
        ("fetchTimeMs", str(round(seconds * 1000))),
        ("depth", str(entry.depth)),
        ("outcome", record.outcome),
        ("error", record.error or ""),
    ]


def head_of_files(settings: Settings, clock: Callable[[], float]) -> Head:
    """Return a function that makes the first record of a WARC file from the file's name."""
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
