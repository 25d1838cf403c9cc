"""A crawl for programs without an event loop: it calls a function with each page."""

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
from crawler.library.delivered_page import data_of

Function = Callable[[Page], Answer]


def run(
    function: Function,
    directory: str | PathLike[str],
    seeds: str | Iterable[str] = (),
    *,
    threads: int | None = None,
    **options: Unpack[CrawlOptions],
) -> CrawlResult:
    """Crawl, and call ``function(page)`` with each page. Its return value is stored as ``data`` in the page's record;
    if it returns ``crawler.DROP``, outputs keep only the record of the page. Returns the final statistics of the crawl,
    and its job.

    The function is called in the thread that called ``run``, one page at a time, or in ``threads`` other threads
    concurrently. The page is finished when the function returns. An exception in the function, or KeyboardInterrupt,
    stops the crawl cleanly and is raised here; a later run delivers the page again. The same happens if the function
    returns another type, or data that JSON cannot represent (TypeError, ValueError). All other arguments and errors are
    those of ``Crawl``."""
    code = _code_of(function)
    if threads is not None and (not isinstance(threads, int) or isinstance(threads, bool)):
        raise TypeError(f"threads must be a whole number, not {threads!r}")
    if threads is not None and threads < 1:
        raise ValueError(f"threads must be at least 1, not {threads}: omit it to call the function in this thread")
    crawl = Crawl(directory, seeds, **options)
    try:
        with _crawling(crawl, threads or 1) as calls:
            if threads is None:
                _work(code, calls)
            else:
                with ThreadPoolExecutor(threads, "page") as pool:
                    done = [pool.submit(_work, code, calls) for _ in range(threads)]
                for each in done:
                    each.result()
    except KeyboardInterrupt:
        kept = f"the crawl was stopped: crawler.Job({str(directory)!r}) reads its records, and another run resumes it"
        raise KeyboardInterrupt(kept) from None  # where this program waited says nothing
    return CrawlResult(Path(directory), calls.stats, calls.fetched_before)


class _Calls:
    """Pages waiting for a thread, each with a future for the function's result."""

    def __init__(self) -> None:
        self.fetched_before = 0
        self.stats: dict[str, Any] = {}
        self.failed: BaseException | None = None  # the exception that ended the crawl
        self._queue: queue.SimpleQueue[tuple[Page, Future[Answer]] | None] = queue.SimpleQueue()
        self._stopped = threading.Event()
        self._tell: Callable[[], object] = bool

    def put(self, page: Page) -> Future[Answer]:
        """Queue the page for a thread."""
        result: Future[Answer] = Future()
        self._queue.put((page, result))
        return result

    def get(self) -> tuple[Page, Future[Answer]] | None:
        """Wait for the next page. Returns None if there are no more."""
        call = self._queue.get()
        if call is None:
            self._queue.put(None)  # for the other threads
        return call

    def end(self) -> None:
        """Signal that there are no more pages."""
        self._queue.put(None)

    def stop(self) -> None:
        """Stop the crawl."""
        self._stopped.set()
        with contextlib.suppress(RuntimeError):  # the loop is closed because the crawl is over
            self._tell()

    async def stopped(self) -> None:
        """Wait until the crawl is stopped."""
        told, loop = asyncio.Event(), asyncio.get_running_loop()
        self._tell = lambda: loop.call_soon_threadsafe(told.set)
        if not self._stopped.is_set():
            await told.wait()


def _code_of(function: object) -> NamedCode:
    """Load the function. Raises TypeError and ValueError if it cannot handle pages."""
    if not callable(function):
        raise TypeError(f"the first argument of run must be a function, not {str(function)[:100]!r}")
    code = load_code(function, ("page",))
    if code.is_async:
        raise TypeError(f"{code.titled} is async: write `async for page in crawler.Crawl(...)`, and await it there")
    return code


def _called(code: NamedCode, page: Page) -> Answer:
    """Call the function with the page, and put its return value into ``data``. Raises the function's exceptions, and
    TypeError and ValueError if the data cannot be stored."""
    answer: Answer = code.function(page)
    if inspect.iscoroutine(answer):
        answer.close()
        raise TypeError(f"{code.titled} returned a coroutine: write `async for page in crawler.Crawl(...)`")
    if isinstance(answer, Mapping):
        page.data.update(answer)
    elif answer is not None and answer is not DROP:
        kind = type(answer).__name__
        raise TypeError(f"{code.titled} returned {kind} for {page.url}; it must return a dict, None or crawler.DROP")
    data_of(page.data, page.url)
    return answer


def _work(code: NamedCode, calls: _Calls) -> None:
    """Call the function with one page after another. Raises its exceptions."""
    while (call := calls.get()) is not None:
        page, result = call
        if not result.set_running_or_notify_cancel():  # the crawl no longer waits for it
            continue
        try:
            answer = _called(code, page)
        except BaseException as error:
            error.add_note(f"while handling {page.url}")
            result.set_exception(Withdrawn())  # the function's exception is raised in this thread
            calls.stop()
            raise
        result.set_result(answer)


@contextlib.contextmanager
def _crawling(crawl: Crawl, at_once: int) -> Iterator[_Calls]:
    """Crawl in a separate thread, with ``at_once`` pages handed out concurrently. Raises the error that ends the
    crawl."""
    calls = _Calls()

    def crawling() -> None:
        try:
            asyncio.run(_crawl(crawl, calls, at_once))
        except Exception as error:  # raised in the waiting thread  # noqa: BLE001
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
        calls.fetched_before = crawl.stats()["pages_fetched"]
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
