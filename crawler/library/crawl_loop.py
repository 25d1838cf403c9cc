"""A crawl as a loop: ``async with crawler.Crawl(...) as crawl`` and ``async for page in crawl``."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Iterable
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any, Unpack

from msgspec.structs import replace

from crawler.base.settings.parts import HTML, Settings
from crawler.cli.named_seeds import NamedSeeds
from crawler.engine.hooks.loaded import Hooks
from crawler.engine.hooks.page_view import Page
from crawler.engine.lifecycle import Stop
from crawler.engine.run import Run
from crawler.engine.seeds import why_no_url
from crawler.job.directory import holds_job
from crawler.job.inbox import Answer
from crawler.library.crawl_options import CrawlOptions
from crawler.library.deliveries import Deliveries, page_of
from crawler.library.keyword_options import HOOKS, choice_of, code_of, settings_of
from crawler.service.facade import Result
from crawler.service.progress.live_line import Progress
from crawler.service.reloading import Configuration
from crawler.service.session import RunOptions, run_crawl
from crawler.url.urls.canonicaliser import Canonical, Canonicaliser
from crawler.url.urls.typed import completed


class CodeFailed(Exception):
    """A function of the program has stopped the crawl: the function failed and ``on_error`` is ``"stop"``, or too many
    of its calls hang. The message names the function, the URL and the reason, with the line of the function."""


class NoSeedFetched(Exception):
    """The crawl is over, and no seed could be fetched. The message contains the reason."""


class Crawl:
    """A crawl in a job directory that delivers its pages to the program.

    ``seeds`` are URLs (``example.org`` means ``https://example.org/``); a directory that already holds a job needs
    none. ``types`` (``"text/html"``, ``"image/*"``) and ``statuses`` (``"404"``, ``"2xx"``) select the responses to
    deliver. ``config`` is a TOML file. ``progress=True`` shows the crawl on standard error: live on a terminal,
    elsewhere a line every ten seconds. All other arguments are the command line's flags, with ``_`` for ``-``, and
    these settings of ``[hooks]``: ``filter_link``, ``score_links``, ``score_page``, ``request_headers`` and
    ``is_changed``, as functions or their names; ``relevant_score``; ``on_page_timeout``, the maximum seconds per call
    of a function; and ``on_error``: ``"count"`` counts failures, ``"stop"`` stops the crawl at the first one with
    CodeFailed.

    Raises TypeError and ValueError for invalid arguments, before anything is changed."""

    def __init__(
        self,
        directory: str | PathLike[str],
        seeds: Iterable[str] = (),
        **options: Unpack[CrawlOptions],
    ) -> None:
        self._directory = Path(directory)
        given: dict[str, Any] = {**options}
        config, progress = given.pop("config", None), given.pop("progress", False)
        self._choice = choice_of(given.pop("types", HTML), given.pop("statuses", ("2xx",)))
        hooks = {name: given.pop(name) for name in HOOKS if name in given}
        settings = settings_of(self._directory, None if config is None else Path(config), given)
        self._settings, codes = code_of(settings, hooks)
        self._hooks = Hooks(self._settings, codes)
        self._seeds = _seeds_of(seeds, self._directory, self._settings)
        self._view = Progress(sys.stderr) if progress else None
        self._deliveries: Deliveries | None = None
        self._run: Run | None = None
        self._task: asyncio.Task[Result] | None = None

    def __repr__(self) -> str:
        return f"<Crawl {self._directory}>"

    async def __aenter__(self) -> Crawl:
        """Start or resume the crawl. Raises JobError, OSError."""
        if self._task is not None:
            raise RuntimeError("a Crawl can be entered only once; create another one to resume")
        self._deliveries = deliveries = Deliveries(self._choice)
        begun: asyncio.Future[Run] = asyncio.get_running_loop().create_future()
        hooks = self._hooks

        def began(run: Run) -> None:
            hooks.begin(run)
            begun.set_result(run)

        options = RunOptions(code=replace(hooks.code, handler=deliveries), begun=began, signals=False)
        self._task = task = asyncio.create_task(self._crawl(options))
        task.add_done_callback(lambda _: deliveries.close())
        try:
            await asyncio.wait((task, begun), return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            task.cancel()
            await asyncio.wait((task,))  # until the job is unlocked for the next run
            raise
        if task.done():
            await self._raise_end()
        self._run = begun.result()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop the crawl cleanly if it is still running. The next run delivers unfinished pages again. Raises
        the error that ended the crawl, unless the block itself raised one."""
        assert self._deliveries is not None
        assert self._task is not None
        self._deliveries.close()
        if self._run is not None and not self._task.done():
            self._run.stop()
        if error is None:
            await self._raise_end()
        else:
            with contextlib.suppress(Exception):
                await self._task

    async def __aiter__(self) -> AsyncIterator[Page]:
        """Yield the pages as they are fetched. A page is finished when the loop asks for the next one. Several tasks
        may loop concurrently: each page goes to one of them. Ends when the crawl is over or stopped. Raises the error
        that ended the crawl, such as CodeFailed, and NoSeedFetched if no seed could be fetched."""
        if self._deliveries is None or self._task is None:
            raise RuntimeError("loop over the crawl inside `async with`")
        while (delivery := await self._deliveries.take()) is not None:
            page = page_of(delivery)
            try:
                yield page
                await page.done()
            finally:
                delivery.give_back()
        if self._task.done():
            await self._raise_end()

    async def _crawl(self, options: RunOptions) -> Result:
        with self._view or contextlib.nullcontext():
            seeds, known = NamedSeeds(self._seeds).batches(), Configuration(self._settings)
            result = await run_crawl(self._directory, known, seeds, self._view, options)
        if self._view is not None:
            self._view.end(result.stats)
        return result

    async def _raise_end(self) -> None:
        """Wait for the end of the crawl. Raises the error that ended it, if an error did."""
        assert self._task is not None
        result = await self._task
        if result.reason is Stop.CODE:
            raise CodeFailed(self._hooks.stopped_by)
        if result.no_seed is not None:
            raise NoSeedFetched(result.no_seed.replace("--allow-", "allow_"))  # the reason names command-line flags

    async def add(self, urls: str | Iterable[str], *, seed: bool = False) -> Answer:
        """Add URLs, like ``crawler add``; with ``seed``, each URL also extends the scope. Returns the numbers of
        ``admitted``, ``known`` and ``off_scope`` URLs, and the ``rejected`` ones with the reasons."""
        found = [urls] if isinstance(urls, str) else list(urls)
        return await self._begun().incoming.take_in(found, seed=seed)

    def stats(self) -> dict[str, Any]:
        """Return the current statistics of the crawl, as printed by ``crawler stats --json``."""
        return self._begun().stats()

    def _begun(self) -> Run:
        if self._run is None:
            raise RuntimeError("the crawl has not started: use it inside `async with`")
        return self._run


def _seeds_of(given: Iterable[str], directory: Path, settings: Settings) -> list[str]:
    """Return the seeds, with missing schemes added. Raises TypeError, and ValueError if a new crawl has no valid
    seed."""
    seeds = [given] if isinstance(given, str) else list(given)
    for seed in seeds:
        if not isinstance(seed, str):
            raise TypeError(f"seeds must be a list of URLs such as 'https://example.org/', not {str(seeds)[:100]}")
    seeds = [completed(seed) or seed for seed in seeds]
    canonicaliser, reason = Canonicaliser(settings.canonical.rules), ""
    for seed in seeds:
        url = canonicaliser.canonicalise(seed)
        if isinstance(url, Canonical):
            return seeds
        reason = reason or f": {seed[:100]!r}: {why_no_url(url.reason)}"
    if seeds or not holds_job(directory):
        raise ValueError(f"no seed is a valid URL{reason}" if seeds else "a new crawl needs seeds")
    return seeds
