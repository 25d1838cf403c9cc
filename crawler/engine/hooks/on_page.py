"""Calls a user function with each page, within its time limit, and handles its failures."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from crawler.base.settings.parts import HookSettings, OutputSettings
from crawler.engine.handed_page import HandedPage, Handled, Withdrawn
from crawler.engine.hooks.answers import Answered, CallFailed, await_with, call_with
from crawler.engine.hooks.call_watch import Steps, outcome_of
from crawler.engine.hooks.calls import Call, PageCalls, Pool
from crawler.engine.hooks.hook_failures import Hook
from crawler.engine.hooks.page_view import Page, PageFacts, facts_of
from crawler.url.scope.store_choice import StoreChoice


class OwnPages:
    """Calls a function with pages, in this process. See ``PageCalls``."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def begin(self, page: PageFacts, follows: Callable[[str], bool]) -> Call[Answered]:
        """See ``PageCalls``."""
        code = self._pool.code
        return self._pool.begin(partial(await_with if code.is_async else call_with, code, Page(page, follows)))

    def close(self) -> None:
        """See ``PageCalls``."""
        self._pool.close()


class OnPage:
    """Calls the function with the pages of a run. See ``PageHandler``."""

    def __init__(self, hook: Hook, calls: PageCalls[Answered], settings: HookSettings, workers: int) -> None:
        """``workers``: the maximum number of concurrent calls."""
        self._hook = hook
        self._calls = calls
        wanted = OutputSettings(store_types=settings.on_page_types, store_statuses=("2xx",))
        self.choice = StoreChoice.of(wanted)
        self._places = asyncio.Semaphore(workers)

    async def handle(self, page: HandedPage) -> Handled:
        """See ``PageHandler``."""
        async with self._places:
            self._hook.figures.calls += 1
            try:
                call = self._calls.begin(facts_of(page), page.follows)
                steps = Steps([page.record.entry.href])
                answered = await outcome_of(call, self._hook, steps)
            except CallFailed as error:
                return self._failed(page, error)
        return Handled(answered.data, answered.links, answered.keep)

    def ended(self, page: HandedPage, *, finished: bool) -> None:
        """See ``PageHandler``. The function needs no such report."""

    def close(self) -> None:
        """Close the calls when the run is over."""
        self._calls.close()

    def _failed(self, page: HandedPage, error: CallFailed) -> Handled:
        """Return the result for a page whose call failed. Raises Withdrawn if a later run must pass the page to the
        function again."""
        url = page.record.entry.href
        self._hook.failed(url, str(error))
        if self._hook.stops(url, error):
            raise Withdrawn
        return Handled(error=str(error))
