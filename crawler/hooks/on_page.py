"""A function of the user that is called with each page: when, for how long, and what comes of its failures."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from crawler.engine.page_handler import HandedPage, Handled, Withdrawn
from crawler.hooks.answers import Answered, CallFailed
from crawler.hooks.calls import Call, PageCalls
from crawler.hooks.hook import Hook
from crawler.hooks.page_view import facts_of
from crawler.records import PageRecord
from crawler.scope import StoreChoice
from crawler.settings import HookSettings, OutputSettings

log = logging.getLogger("crawler")

LONG = 10.0  # seconds after which a call is named, or half of those that it may take


@dataclass(frozen=True, slots=True)
class OnPageSettings:
    """Which pages the function is called with, and how."""

    choice: StoreChoice
    workers: int  # calls at a time
    timeout: float | None  # seconds that a call may take
    stops: bool  # whether a failure stops the crawl

    @classmethod
    def of(cls, settings: HookSettings, workers: int) -> OnPageSettings:
        wanted = OutputSettings(store_types=settings.on_page_types, store_statuses=settings.on_page_statuses)
        return cls(StoreChoice.of(wanted), workers, settings.on_page_timeout or None, settings.on_error == "stop")


class OnPage:
    """Calls the function with the pages of a run. See ``PageHandler``."""

    def __init__(self, hook: Hook, calls: PageCalls[Answered], settings: OnPageSettings) -> None:
        self.stop: Callable[[], None] | None = None  # stops the run
        self._hook = hook
        self._calls = calls
        self._settings = settings
        self._places = asyncio.Semaphore(settings.workers)

    def wants_body(self, content_type: str | None) -> bool:
        """See ``PageHandler``."""
        return self._settings.choice.has_type(content_type)

    def wants(self, record: PageRecord) -> bool:
        """See ``PageHandler``."""
        return self._settings.choice.wants(record.entry.href, record.status or 0, record.content_type)

    async def handle(self, page: HandedPage) -> Handled:
        """See ``PageHandler``."""
        async with self._places:
            self._hook.figures.calls += 1
            try:
                answered = await self._called(page)
            except CallFailed as error:
                return self._failed(page, str(error))
        return Handled(answered.data, answered.links, answered.keep)

    def ended(self, page: HandedPage, *, finished: bool) -> None:
        """See ``PageHandler``. The function is not told."""

    def close(self) -> None:
        """The run is over."""
        self._calls.close()

    async def _called(self, page: HandedPage) -> Answered:
        """What the function says of the page. Raises CallFailed."""
        most = self._settings.timeout
        call = self._calls.begin(facts_of(page), page.follows)
        try:
            with self._watched(call, page.record.entry.href):
                done, _ = await asyncio.wait((call.answer,), timeout=most)
            if done:
                return call.answer.result()
            place = call.place()
            where = "" if place is None else f"{place}: "
            raise CallFailed(f"{where}{self._hook.code.name} has not returned after {most:g} s")
        finally:
            if not call.answer.done():
                call.abandon()

    @contextmanager
    def _watched(self, call: Call[Answered], url: str) -> Iterator[None]:
        """Name the call if it takes long."""
        most, figures, named = self._settings.timeout, self._hook.figures, 0
        seconds = LONG if most is None else min(LONG, most / 2)

        def name() -> None:
            nonlocal named
            named = 1
            figures.hanging += 1
            self._hook.takes_long(url, seconds, call.place())

        timer = asyncio.get_running_loop().call_later(seconds, name)
        try:
            yield
        finally:
            timer.cancel()
            figures.hanging -= named

    def _failed(self, page: HandedPage, text: str) -> Handled:
        """What becomes of the page. Raises Withdrawn if it is to be handed over again by a later run."""
        self._hook.failed(page.record.entry.href, text)
        if not self._settings.stops:
            return Handled(error=text)
        if self.stop is not None:
            log.warning("stopping because of that (hooks.on_error): the next run has the page again")
            self.stop()
            self.stop = None
        raise Withdrawn
