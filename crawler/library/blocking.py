"""A crawl for programs without an event loop: it calls a function with each page."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, ThreadPoolExecutor, wait
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar, Unpack

from crawler.engine.hooks.answers import DROP, Answer
from crawler.engine.hooks.named_code import NamedCode, load_code
from crawler.engine.hooks.page_view import Page
from crawler.library.crawl_loop import Crawl
from crawler.library.crawl_options import CrawlOptions
from crawler.library.crawl_result import CrawlResult
from crawler.library.deliveries import data_of

T = TypeVar("T")
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
    stops the crawl cleanly and is raised here; a later run delivers the page again. The crawl stops in
    the same way, with TypeError or ValueError, if the function returns a value of any other type, or data that JSON
    cannot represent. All other arguments and errors are those of ``Crawl``."""
    code = _code_of(function)
    if threads is not None and (not isinstance(threads, int) or isinstance(threads, bool)):
        raise TypeError(f"threads must be a whole number, not {threads!r}")
    if threads is not None and threads < 1:
        raise ValueError(f"threads must be at least 1, not {threads}: omit it to call the function in this thread")
    crawl = Crawl(directory, seeds, **options)
    try:
        with _crawling(crawl) as crawling:
            if threads is None:
                _work(code, crawling)
            else:
                with ThreadPoolExecutor(threads, "page") as pool:
                    done = [pool.submit(_work, code, crawling) for _ in range(threads)]
                for each in done:
                    each.result()
    except KeyboardInterrupt:
        kept = f"the crawl was stopped: crawler.Job({str(directory)!r}) reads its records, and another run resumes it"
        raise KeyboardInterrupt(kept) from None  # a traceback of where this program waited would not help
    return CrawlResult(Path(directory), crawling.stats, crawling.fetched_before)


class _Crawling:
    """A crawl in a separate thread."""

    def __init__(self, crawl: Crawl) -> None:
        self.crawl = crawl
        self.began: Future[Any] = Future()  # its result is the crawl's event loop
        self.fetched_before = 0
        self.stats: dict[str, Any] = {}
        self._over = asyncio.Event()
        self._lock = threading.Lock()
        self._is_stopped = False

    async def run(self) -> None:
        """Crawl until ``stop`` is called. Raises the error that ended the crawl."""
        async with self.crawl as crawl:
            self.fetched_before = crawl.stats()["pages_fetched"]
            self.began.set_result(asyncio.get_running_loop())
            await self._over.wait()
        self.stats = crawl.stats()

    def stop(self) -> None:
        """Stop the crawl, or have it stop as soon as it has started."""
        with self._lock:
            if not self._is_stopped:
                self._is_stopped = True
                self.began.add_done_callback(lambda began: began.result().call_soon_threadsafe(self._over.set))

    def awaited(self, function: Callable[[], Awaitable[T]]) -> T | None:
        """Await ``function()`` in the crawl's thread and return the result, or None if the crawl has been stopped."""
        with self._lock:  # after ``stop``, the loop may end before it runs the call
            if self._is_stopped:
                return None
            result = asyncio.run_coroutine_threadsafe(_awaited(function), self.began.result())
        with contextlib.suppress(CancelledError):  # the crawl has been stopped in the meantime
            return result.result()
        return None


async def _awaited(function: Callable[[], Awaitable[T]]) -> T:
    return await function()


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


def _work(code: NamedCode, crawling: _Crawling) -> None:
    """Call the function with each page, one at a time. Raises its exceptions, and the error that ended the crawl."""
    pages = aiter(crawling.crawl)
    while (page := crawling.awaited(lambda: anext(pages, None))) is not None:
        try:
            answer = _called(code, page)
        except BaseException as error:
            error.add_note(f"while handling {page.url}")
            crawling.stop()
            raise
        if answer is DROP:
            crawling.awaited(page.drop)


@contextlib.contextmanager
def _crawling(crawl: Crawl) -> Iterator[_Crawling]:
    """Run the crawl in a thread until the ``with`` block ends. Raises the error that ended the crawl."""
    crawling, executor = _Crawling(crawl), ThreadPoolExecutor(1, "crawl")
    ended: Future[Any] = executor.submit(lambda: asyncio.run(crawling.run()))
    executor.shutdown(wait=False)
    try:
        wait((crawling.began, ended), return_when=FIRST_COMPLETED)
        if ended.done():
            ended.result()
        yield crawling
    finally:
        crawling.stop()
        wait((ended,))
    ended.result()
