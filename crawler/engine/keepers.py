"""Keepers prepare the parts of a page that outputs store besides its record, before the transaction that finishes its
URL.

A keeper changes nothing: its parts are written with the record, or not at all. It may work in a thread while the visit
waits for it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from hashlib import sha256
from typing import Protocol

from crawler.base.processes.forker import Bytes
from crawler.base.settings.parts import OUTPUTS, OutputSettings
from crawler.engine.archiving import Archive
from crawler.engine.judge import GONE
from crawler.frontier.entry import queue_of
from crawler.job.output.body_files import LARGE, BodyFiles
from crawler.job.records import Body, Kept, Outcome, Part, time_label
from crawler.job.revisit import NOT_MODIFIED
from crawler.job.verdict import Draft
from crawler.web.extract.edges import edge_rows
from crawler.web.extract.page_text import (
    BYTES_MOST,
    About,
    Extracted,
    Forms,
    NoText,
    gone_row,
    structured_row,
    text_row,
)
from crawler.web.extract.text_pool import Texts
from crawler.web.fetch import RawExchange, Response, Truncation, is_html
from crawler.web.fetch.content_coding import Overlong, Undecodable, decoder, salvage
from crawler.web.links.markdown_links import decoded, is_markdown

_CODING = b"content-encoding"
LINKS = OUTPUTS.index("links") + 1
TEXT = OUTPUTS.index("text") + 1
STRUCTURED = OUTPUTS.index("structured") + 1
FORMS = {"text": Forms.TEXT, "markdown": Forms.MARKDOWN, "structured": Forms.STRUCTURED}  # by output name
EDGES_A_STEP = 2_000  # number of edges that are handled in a few milliseconds
LONG_TEXT = 256 * 1024  # characters; the row of a longer text is made in a thread


class Keeper(Protocol):
    """Prepares the parts for one output."""

    async def keep(self, draft: Draft) -> Kept:
        """Return the parts of an answered page (``draft.response``); redirects included."""


class LinkKeeper:
    """Keeps the edges of the link graph."""

    async def keep(self, draft: Draft) -> Kept:
        """See ``Keeper``."""
        href, edges, rows = draft.record.entry.href, draft.links.edges, list[bytes]()
        for start in range(0, len(edges), EDGES_A_STEP):
            if start:
                await asyncio.sleep(0)
            rows.append(edge_rows(href, edges[start : start + EDGES_A_STEP]))
        return (Part(LINKS, b"".join(rows)),) if rows else ()


class BodyKeeper:
    """Keeps each body in a separate file."""

    def __init__(self, files: BodyFiles, most: int) -> None:
        """``most``: the maximum number of bytes of a body to keep."""
        self._files = files
        self._most = most

    async def keep(self, draft: Draft) -> Kept:
        """See ``Keeper``. A large body is written here in a thread: a file that no record names changes nothing."""
        data, cut = await body_of_answer(draft.response, draft.raw, self._most)
        if not data:
            return ()
        if len(data) <= LARGE:
            return (Body(sha256(data).digest(), data, cut),)
        body = Body(await asyncio.to_thread(_digest, data), data, cut)
        with contextlib.suppress(OSError):  # the transaction writes it again, and waits for disk space
            await asyncio.to_thread(self._files.write_ahead, body)
        return (body,)


def _digest(data: bytes) -> bytes:
    return sha256(data).digest()


class TextKeeper:
    """Keeps the main text of pages, and their structured data."""

    def __init__(self, texts: Texts, forms: Forms) -> None:
        self._texts = texts
        self._forms = forms
        self._kinds = [
            kind for kind, of in ((TEXT, Forms.TEXT | Forms.MARKDOWN), (STRUCTURED, Forms.STRUCTURED)) if forms & of
        ]

    def wants(self, draft: Draft) -> bool:
        """Return whether the draft gets a row. Only pages with a 2xx status get one."""
        record = draft.record
        found = record.outcome is Outcome.FETCHED and 200 <= (record.status or 0) < 300
        return found and draft.is_page and draft.body is not None and not record.entry.probe

    async def keep(self, draft: Draft, body: Bytes) -> tuple[Kept, str | None]:
        """Return the parts of a page that gets a row, and the language of its text. ``body``: the page's body, which
        ``draft`` may lack."""
        record, said, whole = draft.record, draft.record.profile, draft.cut is None
        about = About(record.entry.href, time_label(record.fetched_at), said.title, said.language, whole)
        return await self.parts(about, record.content_type, body, draft.charset)

    async def parts(
        self, about: About, content_type: str | None, body: Bytes, charset: str | None
    ) -> tuple[Kept, str | None]:
        """Return the parts of the page that ``about`` describes, and the language of its text."""
        if is_markdown(content_type):
            found = await asyncio.to_thread(as_it_is, bytes(body), charset, self._forms)
        else:
            found = await self._texts.extract(queue_of(about.url), body, charset, about.url, self._forms)
        make = partial(self._parts, about, found)
        if isinstance(found, NoText):
            return make(), None
        long = sum(len(each or "") for each in (found.text, found.markdown, found.structured)) > LONG_TEXT
        return await asyncio.to_thread(make) if long else make(), found.language

    def _parts(self, about: About, found: Extracted | NoText) -> Kept:
        return tuple(
            Part(kind, structured_row(about, found) if kind == STRUCTURED else text_row(about, found))
            for kind in self._kinds
        )

    def gone(self, draft: Draft) -> Kept:
        """Return the parts that replace the stored text of a URL that no longer has a text, or may not be used."""
        record = draft.record
        is_unread = record.outcome is Outcome.FETCHED and record.status not in GONE and is_html(record.content_type)
        tells = record.is_dropped or tells_content(record.outcome, record.status)
        if is_unread or not record.entry.revisit or not tells:
            return ()
        row = gone_row(record.entry.href, time_label(record.fetched_at))
        return tuple(Part(kind, row) for kind in self._kinds)


def tells_content(outcome: str, status: int | None) -> bool:
    """Return whether a visit determines the current content of its URL: a page, another file, a redirect or nothing."""
    is_told = outcome in (Outcome.FETCHED, Outcome.REDIRECT, Outcome.SOFT404) and status != NOT_MODIFIED
    return is_told and status is not None and (200 <= status < 400 or status in GONE)


def as_it_is(body: bytes, charset: str | None, forms: Forms) -> Extracted | NoText:
    """Return the extracted forms of a page that is already Markdown."""
    from crawler.web.extract.language import language_of  # noqa: PLC0415, few runs need it here

    whole, _ = decoded(body, charset)
    text = whole.encode()[:BYTES_MOST].decode(errors="ignore")
    return Extracted(
        text if Forms.TEXT in forms else None,
        text if Forms.MARKDOWN in forms else None,
        b"{}" if Forms.STRUCTURED in forms else None,
        language_of(text),
        extractor="markdown",
        cut=len(text) < len(whole),
    )


class Keepers:
    """All keepers of a run, in the order of their outputs."""

    def __init__(self, keepers: Sequence[Keeper], text: TextKeeper | None, after: Sequence[Keeper]) -> None:
        """``text``, the slow keeper, runs after ``keepers`` and before those in ``after``."""
        self.large = asyncio.Lock()  # held while a large page is back in memory after text extraction
        self._keepers = keepers
        self._text = text
        self._after = after
        self._waiting = Counter[str]()  # number of pages that wait for their texts, by host

    @classmethod
    def of(cls, settings: OutputSettings, archive: Archive, bodies: BodyKeeper, texts: Texts) -> Keepers | None:
        """Return the keepers for the outputs in these settings; None if there are none."""
        keep = settings.keep
        keepers: list[Keeper] = [archive] if "warc" in keep else []
        keepers += [LinkKeeper()] if "links" in keep else []
        forms = Forms(sum(form for name, form in FORMS.items() if name in keep))
        text = TextKeeper(texts, forms) if forms else None
        after = [bodies] if "bodies" in keep else []
        return cls(keepers, text, after) if keepers or text or after else None

    def takes_long(self, draft: Draft) -> bool:
        """Return whether the page needs the keeper ``text``, which takes longer than a request, so that the page's host
        should not wait for it."""
        return self._text is not None and self._text.wants(draft)

    def may_wait(self, host: str, places: int) -> bool:
        """Return whether another page of the host may wait for its text, if at most ``places`` visits may be in flight.
        A host may take a third of the free places, so that other hosts always find some."""
        return 2 * self._waiting[host] + 2 <= places - self._waiting.total()

    @contextlib.contextmanager
    def wait(self, host: str) -> Iterator[None]:
        """Count a page of the host that waits for its text."""
        self._waiting[host] += 1
        try:
            yield
        finally:
            self._waiting[host] -= 1
            if not self._waiting[host]:
                del self._waiting[host]

    async def text(self, draft: Draft, body: Bytes) -> tuple[Kept, str | None]:
        """Return the text parts of a page, and its language. ``body``: the page's body, which ``draft`` may lack."""
        return ((), None) if self._text is None else await self._text.keep(draft, body)

    def gone(self, draft: Draft) -> Kept:
        """Return the parts that replace the stored text of a URL that no longer has a text, or may not be used."""
        return () if self._text is None else self._text.gone(draft)

    async def keep(self, draft: Draft, text: Kept = ()) -> Kept:
        """See ``Keeper``. ``text``: the text parts of the page, if any."""
        kept: Kept = ()
        for keeper in self._keepers:
            kept += await keeper.keep(draft)
        kept += text or self.gone(draft)
        for keeper in self._after:
            kept += await keeper.keep(draft)
        return kept


# -- the body of an answer, after content decoding -----------------------------------------------------------------


async def body_of_answer(response: Response | None, raw: RawExchange | None, most: int) -> tuple[bytes, str | None]:
    """Return the first ``most`` bytes of the body and, if the body is longer or incomplete, the reason for the
    truncation. The bytes are empty if the answer is not to be stored or has no body."""
    if raw is None:
        return b"", None
    if response is not None and response.body is not None:
        if response.truncated is None:
            return _bounded(response.body, None, most)
        return _bounded(response.body or raw.body, raw.truncated or Truncation.UNSPECIFIED, most)
    if not _codings(raw.head):
        return _bounded(raw.body, raw.truncated, most)
    return await asyncio.to_thread(decoded_body, raw, most)  # a small body may decode to a long one


def decoded_body(raw: RawExchange, most: int) -> tuple[bytes, str | None]:
    """Return the same as ``body_of_answer`` for an answer that was kept as received."""
    codings = _codings(raw.head)
    return _decoded(raw, codings, most) if codings else _bounded(raw.body, raw.truncated, most)


def _bounded(body: bytes, truncated: Truncation | None, most: int) -> tuple[bytes, str | None]:
    return (body[:most], Truncation.LENGTH) if len(body) > most else (body, truncated)


def _decoded(raw: RawExchange, codings: str, most: int) -> tuple[bytes, str | None]:
    """Decode the body up to the first error. If nothing can be decoded, or a coding is unknown, return it as
    received."""
    body, truncated, limit = bytearray(), raw.truncated, max(most, len(raw.body))
    try:
        decode, _ = decoder(codings, limit)
    except Undecodable:  # too many codings, or an unknown coding
        decode = None
    if decode is None:
        return _bounded(raw.body, truncated, most)
    try:
        for piece in decode.pieces(raw.body):
            body += piece
            if len(body) > most:
                break
        else:
            if truncated is None:
                decode.end()
                truncated = None if decode.short is None else Truncation.UNSPECIFIED
    except Overlong:
        truncated = Truncation.LENGTH
    except Undecodable:
        found, whole = salvage(codings, raw.body, limit)
        body[:] = found
        truncated = truncated or (None if whole else Truncation.UNSPECIFIED)
    if not body and truncated is not None:
        return _bounded(raw.body, truncated, most)
    return _bounded(bytes(body), truncated, most)


def _codings(head: bytes) -> str:
    """Return the content codings from the headers of an answer."""
    lines = [line.partition(b":") for line in head.replace(b"\r\n", b"\n").split(b"\n")[1:]]
    values = [value.strip() for name, _, value in lines if name.strip().lower() == _CODING]
    return b", ".join(values).decode("latin-1")
