"""Extracting again: the rows of pages that a job has kept are made by today's extractor, without asking any server.

A new row is one transaction, which finishes no URL. It names the same visit as the row whose place it takes. What is
written when this is interrupted stays: the next time only the other pages are left.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from typing import NamedTuple

from msgspec import Struct, field

from crawler.base.settings.parts import Settings
from crawler.engine.keeping import FORMS, TextKeeper
from crawler.engine.kept_pages import KeptPage, KeptPages
from crawler.inspect.export.kept_parts import KeptParts, has_text, remade_parts
from crawler.inspect.export.last_records import LastRecords
from crawler.job.directory import PAGES
from crawler.job.job import Job
from crawler.job.output import Record, lines_of, record_of
from crawler.job.records import JournalError, visit_name
from crawler.web.extract.page_text import About, Forms
from crawler.web.extract.text_pool import EXTRACTORS, TextLimits, TextPool, default_processes

AGAIN = ("text", "markdown", "structured")  # outputs that can be made again
EACH = 2  # pages in flight for each process
_GONE = (404, 410)


class Wanted(Struct, frozen=True):
    """``names``: outputs among ``AGAIN``. ``extractor``: its name in the settings. ``hrefs``: the pages, whatever their
    rows say; if there are none, those whose rows are missing, have an error, or are by another extractor. ``failed``:
    the last ones are left as they are."""

    names: frozenset[str]
    extractor: str
    hrefs: frozenset[str] = frozenset()
    failed: bool = False


class Counts(Struct):
    """How many pages were ``extracted`` again, and how many of these have no text nonetheless (``failed``); how many
    have what is wanted, and how many lack it and were not kept. ``found``: the URLs of pages that were named."""

    extracted: int = 0
    failed: int = 0
    up_to_date: int = 0
    not_kept: int = 0
    found: set[str] = field(default_factory=set)


class _Due(NamedTuple):
    """A page to be extracted."""

    record: Record
    kept: KeptPage


class ExtractingAgain:
    """Extracts pages of a job that no crawl is running. The ``counts`` grow meanwhile."""

    def __init__(self, job: Job, settings: Settings, wanted: Wanted, counts: Counts) -> None:
        self._job = job
        self._settings = settings
        self._wanted = wanted
        self._counts = counts
        self._failed_before = counts.failed
        program = EXTRACTORS[wanted.extractor]
        self._extractor = str(import_module(program.partition(":")[0]).EXTRACTOR)
        self._processes = default_processes()
        self._texts = TextPool(TextLimits(self._processes, extractor=program))
        self._keeper = TextKeeper(self._texts, sum((FORMS[name] for name in wanted.names), Forms(0)))

    async def run(self, clock: Callable[[], float], report: Callable[[], None]) -> None:
        """Extract what is wanted. ``report`` is called about once a second. Raises OSError, also for a full disk, and
        any of DAMAGE."""
        loop, interval = asyncio.get_running_loop(), self._settings.durability.sync_interval
        under_way, next_sync = set[asyncio.Task[None]](), clock() + interval
        with ThreadPoolExecutor(1) as reader:  # its end is waited for, before the job is closed
            pages = self._due()
            try:
                while (page := await loop.run_in_executor(reader, next, pages, None)) is not None:
                    under_way.add(asyncio.create_task(self._extract(page)))
                    if len(under_way) >= EACH * self._processes:
                        under_way = await _one_ended(under_way)
                    if clock() >= next_sync:
                        await self._job.sync()
                        report()
                        next_sync = clock() + interval
                while under_way:
                    under_way = await _one_ended(under_way)
            finally:
                for task in under_way:
                    task.cancel()
                self._texts.close()
        await self._job.checkpoint(clock())

    async def _extract(self, page: _Due) -> None:
        record, (body, whole) = page
        charset, title, language = (_text(record, key) for key in ("charset", "title", "language"))
        about = About(str(record["url"]), str(record["fetched_at"]), title, language, whole)
        kept = await self._keeper.parts(about, body, charset)
        if self._job.blocked is None:
            self._job.keep_again(visit_name(about.url, about.fetched_at), kept)
        if self._job.blocked is not None:
            raise OSError(errno.ENOSPC, self._job.blocked)
        self._counts.extracted += 1
        self._counts.failed = self._failed_before + self._texts.failed

    # -- which pages, found in a thread ------------------------------------------------------------------------

    def _due(self) -> Iterator[_Due]:
        counts, hrefs, names = self._counts, self._wanted.hrefs, self._wanted.names
        remade = remade_parts(self._job.store)
        last = LastRecords(line for line, _ in self._telling())
        with contextlib.ExitStack() as stack:
            archive, text, structured = (
                stack.enter_context(KeptParts(self._job.directory, name, remade))
                for name in ("warc", "text", "structured")
            )
            rows = ([text] if names - {"structured"} else []) + ([structured] if "structured" in names else [])
            pages = KeptPages(self._job, archive, self._settings.fetch.max_body)
            for number, (_, record) in enumerate(self._telling(), 1):
                if not last.is_last(number, record) or not has_text(record):
                    continue
                if hrefs and record["url"] not in hrefs:
                    continue
                if hrefs:
                    counts.found.add(str(record["url"]))
                elif all(self._is_up_to_date(parts.of(record), of_text=parts is text) for parts in rows):
                    counts.up_to_date += 1
                    continue
                kept = pages.of(record)
                if kept is None:
                    counts.not_kept += 1
                else:
                    yield _Due(record, kept)

    def _telling(self) -> Iterator[tuple[bytes, Record]]:
        """The records of pages, and those that say that there is none any more, each with its line."""
        for offset, line in lines_of(self._job.directory / PAGES):
            record = record_of(line)
            if record is None:
                raise JournalError(f"{PAGES}: offset {offset}: not a record; run `crawler verify`")
            if has_text(record) or record["status"] in _GONE:
                yield line, record

    def _is_up_to_date(self, row: bytes, *, of_text: bool) -> bool:
        """Whether a row of ``text/``, or of ``structured/``, has what is wanted."""
        found = json.loads(row) if row else {"error": None}
        if "error" in found or not of_text:
            return "error" not in found
        lacks = self._wanted.names & {"text", "markdown"} - found.keys()
        return not lacks and (self._wanted.failed or found.get("extractor") == self._extractor)


async def _one_ended(tasks: set[asyncio.Task[None]]) -> set[asyncio.Task[None]]:
    """Wait until one of the tasks has ended, and return the others. Raises what it raises."""
    done, left = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in done:
        task.result()
    return left


def _text(record: Record, key: str) -> str | None:
    value = record.get(key)
    return value if isinstance(value, str) else None
