"""API routes about the job as a whole and its records, and downloads.

    GET /api/job                            the job's name, seeds and settings
    GET /api/survey                         the survey of its records
    GET /api/download/records.jsonl?kind=   records as stored in pages.jsonl
    GET /api/download/records.csv?kind=     the same records as a table
    GET /api/download/hosts.csv             the table of hosts
    GET /api/download/report.html           the report of the job

Files are made while they are sent. A thread reads the records in pieces, each after the previous piece has been sent,
so memory is bounded however slow the client is. Between pieces the thread pauses, so that a crawl in this process keeps
its core.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import re
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from aiohttp import web

from crawler.base.clock import SteadyClock
from crawler.inspect.crawl_partitions import crawl_partitions
from crawler.inspect.export.csv_file import HOST_CELLS, PAGE_CELLS, csv_lines
from crawler.inspect.job_reader import began_at
from crawler.inspect.survey_reader import FinalRecords, Lines, RecordChoice, pieces
from crawler.job.directory import JobError
from crawler.service.api import View
from crawler.service.background import OneThread
from crawler.service.dashboard.feed import Feed
from crawler.service.dashboard.guard import HEADERS, answer
from crawler.service.dashboard.token import TOKEN
from crawler.service.job_survey import UNREADABLE, JobSurvey
from crawler.service.view_answers import answer_if_new, from_view
from crawler.service.view_errors import Unavailable, Unreadable, fault_text
from crawler.url.urls.canonicaliser import Canonicaliser

log = logging.getLogger("crawler")

MOST = 8  # downloads at a time
_HOSTS_TAKE = 0.005  # approximate seconds of event loop time for a chunk of host rows
WRITE_TIMEOUT = 30.0  # seconds after which a stalled download is cut off
_NAME = re.compile(r"[^A-Za-z0-9._-]+")
_JSONL, _CSV, _HTML = "application/jsonl", "text/csv; charset=utf-8; header=present", "text/html; charset=utf-8"

Content = AsyncGenerator[bytes]


class SurveyApi:
    """The routes for a view and the survey of its records. ``about`` has values for ``/api/job`` if the page is one of
    several."""

    def __init__(
        self, view: View, survey: JobSurvey, feed: Feed, about: Mapping[str, Any] = MappingProxyType({})
    ) -> None:
        self._view = view
        self._about = about
        self._survey = survey
        self._feed = feed
        self._thread = OneThread("download")
        self._under_way = 0

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/api/job", self._job),
            web.get("/api/survey", self._told),
            web.get("/api/download/records.jsonl", self._records),
            web.get("/api/download/records.csv", self._records_table),
            web.get("/api/download/hosts.csv", self._hosts),
            web.get("/api/download/report.html", self._report),
        ]

    async def close(self) -> None:
        """Abandon downloads and stop counting. Call this after the last request."""
        self._thread.close()
        await self._survey.close()

    async def _job(self, request: web.Request) -> web.Response:
        settings, stats = await from_view(self._view.settings()), self._feed.stats()
        directory = self._survey.directory
        own_token = settings.dashboard.token is None and settings.dashboard.token_file is None
        content: dict[str, Any] = {
            "name": directory.absolute().name,
            "seeds": await self._survey.seeds.first(Canonicaliser(settings.canonical.rules)),
            "seed_count": stats.get("seeds", 0),
            "contact": settings.fetch.contact,
            "user_agent": settings.fetch.user_agent,
            "scope": settings.crawl.scope,
            "began_at": await asyncio.to_thread(_began_at, directory),
            "token_file": TOKEN if own_token else None,
            "several": False,
        }
        return answer(content | dict(self._about))

    async def _told(self, request: web.Request) -> web.Response:
        return answer_if_new(request, await from_view(self._survey.answer()))

    async def _records(self, request: web.Request) -> web.StreamResponse:
        choice, final = await self._asked(request)
        content = self._pieces(choice, final, lambda found: b"".join(line for line, _ in found))
        return await self._send(request, f"{choice.name}.jsonl", _JSONL, content)

    async def _records_table(self, request: web.Request) -> web.StreamResponse:
        choice, final = await self._asked(request)
        content = self._pieces(choice, final, lambda found: csv_lines(PAGE_CELLS, (record for _, record in found)))
        return await self._send(request, f"{choice.name}.csv", _CSV, _headed(PAGE_CELLS, content))

    async def _hosts(self, request: web.Request) -> web.StreamResponse:
        async def content() -> Content:
            async with contextlib.aclosing(self._view.all_hosts()) as hosts:
                async for rows in hosts:
                    yield csv_lines(HOST_CELLS, rows)
                    await self._rest(_HOSTS_TAKE)

        return await self._send(request, "hosts.csv", _CSV, _headed(HOST_CELLS, content()))

    async def _report(self, request: web.Request) -> web.StreamResponse:
        async def content() -> Content:
            yield await self._survey.report()

        return await self._send(request, "report.html", _HTML, content())

    async def _asked(self, request: web.Request) -> tuple[RecordChoice, FinalRecords]:
        """Return which records were requested, and which are final. Raises HTTP errors."""
        try:
            choice = RecordChoice.parse(request.query.get("kind", "all"))
        except ValueError as error:
            raise web.HTTPBadRequest(text=str(error)) from error
        final = await from_view(self._survey.final())
        if final is None:
            raise web.HTTPServiceUnavailable(text="No record is durable yet: try again in a second.")
        return choice, final

    async def _pieces(self, choice: RecordChoice, final: FinalRecords, text: Callable[[Lines], bytes]) -> Content:
        found = itertools.chain.from_iterable(pieces(choice, path, end) for path, end in final)

        def step() -> tuple[bytes | None, float]:
            began = time.thread_time()
            piece = next(found, None)
            return None if piece is None else text(piece), time.thread_time() - began

        while True:
            piece, took = await self._thread.run(step)
            if piece is None:
                return
            if piece:
                yield piece
            await self._rest(took)

    async def _rest(self, took: float) -> None:
        await asyncio.sleep(took * (1.0 / self._survey.share - 1.0))

    async def _send(self, request: web.Request, file: str, kind: str, content: Content) -> web.StreamResponse:
        """Send a file named after the job and ``file``. An error before the first bytes becomes an HTTP error; a later
        one aborts the connection, so that the client knows the file is incomplete."""
        name = _NAME.sub("-", self._survey.directory.absolute().name).strip("-.") or "crawl"
        headers = HEADERS | {
            "Content-Type": kind,
            "Content-Disposition": f'attachment; filename="{name}-{_NAME.sub("-", file)}"',
            "Cache-Control": "no-store",
        }
        if request.method == "HEAD":
            return web.Response(headers=headers)
        if self._under_way >= MOST:
            raise web.HTTPServiceUnavailable(text=f"{MOST} downloads are in progress: try again later.")
        self._under_way += 1
        try:
            async with contextlib.aclosing(content):
                return await self._stream(request, web.StreamResponse(headers=headers), content)
        finally:
            self._under_way -= 1

    async def _stream(self, request: web.Request, response: web.StreamResponse, content: Content) -> web.StreamResponse:
        try:
            first = await from_view(anext(content, b""))
            await response.prepare(request)
            await _write(response, first)
            async for piece in content:
                await _write(response, piece)
            await response.write_eof()
        except (*UNREADABLE, Unavailable, Unreadable, TimeoutError) as error:
            if not response.prepared:
                text = f"The records cannot be read: {fault_text(self._survey.directory, error)}"
                raise web.HTTPInternalServerError(text=text) from error
            if not isinstance(error, ConnectionError | TimeoutError):
                log.warning("%s: download aborted: %s", self._survey.directory, error)
            if request.transport is not None:
                request.transport.abort()
        return response


def _began_at(directory: Path) -> float | None:
    """Return when the job or crawl started, in seconds since 1970; None if it does not exist yet."""
    try:
        return min(began_at(job, SteadyClock()()) for job in crawl_partitions(directory).jobs)
    except (OSError, JobError):
        return None


async def _headed(names: Sequence[str], content: Content) -> Content:
    """Yield a table with its column names, sent with the first rows so that a read error can still be reported."""
    async with contextlib.aclosing(content):
        yield csv_lines(names, (), heading=True) + await anext(content, b"")
        async for piece in content:
            yield piece


async def _write(response: web.StreamResponse, piece: bytes) -> None:
    if piece:
        async with asyncio.timeout(WRITE_TIMEOUT):
            await response.write(piece)
