"""Extracts stored pages again with the current extractor, without any requests.

Each new row is written in its own transaction, which finishes no URL. The row names the same visit as the row that it
replaces. After an interruption, the rows written so far stay, and the next run extracts only the remaining pages.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from typing import Any

from msgspec import Struct, field

from crawler.base.settings.parts import Settings
from crawler.engine.keepers import FORMS, TextKeeper, tells_content
from crawler.engine.kept_pages import KeptPage, KeptPages
from crawler.inspect.export.job_report import LastRecords
from crawler.inspect.export.kept_parts import KeptParts, remade_parts
from crawler.job.directory import PAGES
from crawler.job.job import Job
from crawler.job.markdown_files import DIRECTORY, derive_own
from crawler.job.output import lines_of, record_of
from crawler.job.records import JournalError, Outcome, Part, visit_name
from crawler.url.refusal.forbidden_targets import Rule
from crawler.web.extract.page_text import About, Forms
from crawler.web.extract.text_pool import EXTRACTORS, TextLimits, TextPool, default_processes
from crawler.web.fetch import is_html
from crawler.web.links.markdown_links import is_markdown

AGAIN = ("text", "markdown", "structured")  # outputs that can be made again
EACH = 2  # pages in flight for each process
EVERY = 10.0  # seconds between two syncs; pages lost in a power failure are extracted again
_OF = {"text": frozenset(("text", "markdown")), "structured": frozenset(("structured",))}  # outputs by directory


class Counts(Struct):
    """Counts of pages: ``extracted`` again; extracted without finding a text (``failed``); already ``up_to_date``; and
    without a stored body (``not_kept``). ``found``: the URLs among the named pages that exist."""

    extracted: int = 0
    failed: int = 0
    up_to_date: int = 0
    not_kept: int = 0
    found: set[str] = field(default_factory=set)


class ExtractingAgain:
    """Extracts pages of a job without a running crawl. ``counts`` is updated while it runs."""

    def __init__(
        self, job: Job, settings: Settings, names: Collection[str], hrefs: Collection[str], counts: Counts
    ) -> None:
        """``names``: outputs among ``AGAIN``. ``hrefs``: the pages to extract, whatever their rows contain; if empty,
        the pages whose rows are missing, have an error, or come from an extractor other than the one in
        ``settings``."""
        self._job = job
        self._names = frozenset(names)
        self._hrefs = hrefs
        self._counts = counts
        program = EXTRACTORS[settings.text.extractor]
        self._extractor = import_module(program.partition(":")[0]).EXTRACTOR
        self._processes = default_processes()
        self._texts = TextPool(TextLimits(extractor=program))
        self._most = settings.fetch.max_body
        self._is_over = False

    async def run(self, clock: Callable[[], float], report: Callable[[], None]) -> None:
        """Extract the pages. ``report`` is called after each sync. Raises OSError (including when the disk is full),
        JobError and the exceptions in DAMAGE."""
        loop, pages, next_sync = asyncio.get_running_loop(), self._due(), clock() + EVERY

        async def work() -> None:
            nonlocal next_sync
            while (page := await loop.run_in_executor(reader, next, pages, None)) is not None:
                await self._extract(*page)
                if clock() >= next_sync:
                    next_sync = clock() + EVERY
                    await self._job.sync()
                    report()

        with ThreadPoolExecutor(1) as reader:  # at its end, the block waits for the thread before the job is closed
            try:
                await asyncio.gather(*(work() for _ in range(EACH * self._processes)))
            finally:
                self._is_over = True
                self._texts.close()
                self._counts.failed += self._texts.failed
        await self._job.checkpoint(clock())
        if "markdown" in self._names or (self._job.directory / DIRECTORY).is_dir():
            files = self._job.files
            await asyncio.to_thread(derive_own, self._job.directory, files.identity, files.outputs.final_text)

    async def _extract(self, record: dict[str, Any], page: KeptPage, rows: Sequence[Mapping[str, Any]]) -> None:
        """Extract a page. If its text is extracted, all forms in the current text row are made again. If the extraction
        fails, the row is not replaced."""
        url, fetched_at = record["url"], record["fetched_at"]
        about = About(url, fetched_at, record.get("title"), record.get("language"), page.whole)
        names = self._names | (_OF["text"].intersection(*rows[:1]) if self._names & _OF["text"] else set())
        keeper = TextKeeper(self._texts, Forms(sum(FORMS[name] for name in names)))
        charset = "utf-8" if record.get("rendered") else record.get("charset")
        kept, _ = await keeper.parts(about, record["content_type"], page.body, charset)
        if all("error" not in row for row in rows) and any(
            isinstance(part, Part) and "error" in json.loads(part.data) for part in kept
        ):
            return
        if self._job.blocked is None:
            self._job.keep_again(visit_name(url, fetched_at), kept)
        if self._job.blocked is not None:
            raise OSError(f"{self._job.blocked}; nothing is lost: free some space and run the same command again")
        self._counts.extracted += 1

    # -- selection of pages, in a thread -----------------------------------------------------------------------

    def _due(self) -> Iterator[tuple[dict[str, Any], KeptPage, list[dict[str, Any]]]]:
        names = [name for name in ("text", "structured") if self._names & _OF[name]]
        last, remade = LastRecords(line for line, _ in self._telling()), remade_parts(self._job.store)
        with contextlib.ExitStack() as stack:
            archive, *rows = (
                stack.enter_context(KeptParts(self._job.directory, name, remade)) for name in ("warc", *names)
            )
            pages = KeptPages(self._job, archive, self._most)
            for number, (_, record) in enumerate(self._telling(), 1):
                if not (last.is_last(number, record) and self._is_page(record)) or self._is_left(
                    record, zip(names, rows, strict=True)
                ):
                    continue
                if (kept := pages.of(record)) is None:
                    self._counts.not_kept += 1
                else:
                    yield record, kept, [_row(parts.of(record)) for parts in rows]

    def _is_left(self, record: dict[str, Any], rows: Iterable[tuple[str, KeptParts]]) -> bool:
        """Return whether the page is not to be extracted again."""
        if self._hrefs:
            named = record["url"] in self._hrefs
            self._counts.found |= {record["url"]} if named else set()
            return not named
        is_left = all(self._is_up_to_date(name, parts.of(record)) for name, parts in rows)
        self._counts.up_to_date += is_left
        return is_left

    def _telling(self) -> Iterator[tuple[bytes, dict[str, Any]]]:
        """Yield the records that state whether their URL is a page, each with its line."""
        for offset, line in lines_of(self._job.directory / PAGES):
            if self._is_over:
                return
            record: dict[str, Any] | None = record_of(line)
            if record is None:
                raise JournalError(f"{PAGES}: offset {offset}: not a record; run `crawler verify`")
            if tells_content(record["outcome"], record["status"]) or record.get("rule") == Rule.CONSENT:
                yield line, record

    def _is_page(self, record: dict[str, Any]) -> bool:
        """Return whether the crawl would extract the page for these outputs."""
        kind, status = record["content_type"], record["status"] or 0
        read = is_html(kind) or (is_markdown(kind) and "markdown" in self._names)
        return read and record["outcome"] == Outcome.FETCHED and 200 <= status < 300 and not record.get("probe")

    def _is_up_to_date(self, name: str, row: bytes) -> bool:
        """Return whether a row of that output is up to date."""
        found = _row(row)
        if "error" in found or name == "structured":
            return "error" not in found
        return self._names & _OF["text"] <= found.keys() and found.get("extractor") in (self._extractor, "markdown")


def _row(data: bytes) -> dict[str, Any]:
    row: dict[str, Any] = json.loads(data) if data else {"error": "there is none"}
    return row
