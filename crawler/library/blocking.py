"""A crawl for programs without an event loop: a function is called with each page."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from os import PathLike
from pathlib import Path
from typing import Any, Unpack

from crawler.engine.hooks.answers import DROP, Answer
from crawler.engine.hooks.named_code import NamedCode, load_code
from crawler.engine.hooks.page_view import Page
from crawler.engine.page_handler import Withdrawn
from crawler.library.crawl_loop import Crawl
from crawler.library.crawl_options import CrawlOptions
from crawler.library.crawl_result import CrawlResult
from crawler.library.page_data import data_of

Function = Callable[[Page], Answer]


def run(
    function: Function,
    directory: str | PathLike[str],
    seeds: str | Iterable[str] = (),
    *,
    threads: int | None = None,
    **options: Unpack[CrawlOptions],
) -> CrawlResult:
    """Crawl, and call ``function(page)`` with each page. What it returns stands in the record as ``data``; with
    ``crawler.DROP``, outputs keep nothing of the page besides its record. Returns the statistics of the crawl, and its
    job to read.

    The function is called in the thread that calls ``run``, one page at a time; with ``threads``, in so many others at
    a time. The page is finished when it returns. An exception in it stops the crawl in order, and is raised here; a
    later run delivers the page again, and so it does if the function returns something else, or what JSON cannot
    express (TypeError, ValueError). All further arguments are those of ``Crawl``, which says what they raise."""
    code = _code_of(function)
    if threads is not None and (not isinstance(threads, int) or isinstance(threads, bool)):
        raise TypeError(f"threads must be a whole number, not {threads!r}")
    if threads is not None and threads < 1:
        raise ValueError(f"threads must be at least 1, not {threads}: leave it out to be called in this thread")
    crawl = Crawl(directory, seeds, **options)
    with _crawling(crawl, threads or 1) as calls:
        if threads is None:
            _work(code, calls)
        else:
            with ThreadPoolExecutor(threads, "page") as pool:
                done = [pool.submit(_work, code, calls) for _ in range(threads)]
            for each in done:
                each.result()
    return CrawlResult(Path(directory), calls.stats)


class _Calls:
    """The pages that wait for a thread, each with the future of what the function returns."""

    def __init__(self) -> None:
        self.stats: dict[str, Any] = {}
        self.failed: BaseException | None = None  # what ended the crawl
        self._queue: queue.SimpleQueue[tuple[Page, Future[Answer]] | None] = queue.SimpleQueue()
        self._stopped = threading.Event()
        self._tell: Callable[[], object] = bool

    def put(self, page: Page) -> Future[Answer]:
        """Let a thread have the page."""
        result: Future[Answer] = Future()
        self._queue.put((page, result))
        return result

    def get(self) -> tuple[Page, Future[Answer]] | None:
        """Wait for the next page; None if there are no more."""
        call = self._queue.get()
        if call is None:
            self._queue.put(None)  # for the other threads
        return call

    def end(self) -> None:
        """There are no more pages."""
        self._queue.put(None)

    def stop(self) -> None:
        """Stop the crawl."""
        self._stopped.set()
        with contextlib.suppress(RuntimeError):  # the loop is closed: the crawl is over
            self._tell()

    async def stopped(self) -> None:
        """Wait until the crawl is stopped."""
        told, loop = asyncio.Event(), asyncio.get_running_loop()
        self._tell = lambda: loop.call_soon_threadsafe(told.set)
        if not self._stopped.is_set():
            await told.wait()


def _code_of(function: object) -> NamedCode:
    """The function. Raises TypeError and ValueError if it cannot be called with a page, and answer."""
    if not callable(function):
        raise TypeError(f"run is called with a function first, and not with {str(function)[:100]!r}")
    code = load_code(function, ("page",))
    if code.is_async:
        raise TypeError(f"{code.titled} is async: write `async for page in crawler.Crawl(...)`, and await it there")
    return code


def _called(code: NamedCode, page: Page) -> Answer:
    """Call the function with the page, and put what it returns into ``data``. Raises what it raises, and TypeError and
    ValueError if what it says of the page cannot be stored."""
    answer: Answer = code.function(page)
    if inspect.iscoroutine(answer):
        answer.close()
        raise TypeError(f"{code.titled} returned a coroutine: write `async for page in crawler.Crawl(...)`")
    if isinstance(answer, Mapping):
        page.data.update(answer)
    elif answer is not None and answer is not DROP:
        kind = type(answer).__name__
        raise TypeError(f"{code.titled} returned {kind} for {page.url}, and not a dict, None or crawler.DROP")
    data_of(page.data, page.url)
    return answer


def _work(code: NamedCode, calls: _Calls) -> None:
    """Call the function with page after page. Raises what it raises."""
    while (call := calls.get()) is not None:
        page, result = call
        if not result.set_running_or_notify_cancel():  # nobody waits for it any more
            continue
        try:
            answer = _called(code, page)
        except BaseException:
            result.set_exception(Withdrawn())  # what was raised is raised in this thread
            calls.stop()
            raise
        result.set_result(answer)


@contextlib.contextmanager
def _crawling(crawl: Crawl, at_once: int) -> Iterator[_Calls]:
    """Crawl in a thread of its own, with so many pages at once in the hands of others. Raises what ends the crawl."""
    calls = _Calls()

    def crawling() -> None:
        try:
            asyncio.run(_crawl(crawl, calls, at_once))
        except Exception as error:  # it is raised in the thread that waits  # noqa: BLE001
            calls.failed = error
        finally:
            calls.end()

    thread = threading.Thread(target=crawling, name="crawl")
    thread.start()
    try:
        yield calls
    finally:
        calls.stop()
        thread.join()
    if calls.failed is not None:
        raise calls.failed


async def _crawl(crawl: Crawl, calls: _Calls, at_once: int) -> None:
    async def pages() -> None:
        await asyncio.gather(*(_loop(crawl, calls) for _ in range(at_once)))

    async with crawl:
        looping, stopped = asyncio.create_task(pages()), asyncio.create_task(calls.stopped())
        await asyncio.wait((looping, stopped), return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        if not looping.done():
            looping.cancel()
            await asyncio.wait((looping,))
        if not looping.cancelled():
            looping.result()
    calls.stats = crawl.stats()


async def _loop(crawl: Crawl, calls: _Calls) -> None:
    async for page in crawl:
        try:
            answer = await asyncio.wrap_future(calls.put(page))
        except Withdrawn:
            return
        if answer is DROP:
            await page.drop()
