"""Queues pages between a crawl and the program that loops over it, and stores the program's data with them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

from crawler.engine.handed_page import HandedPage, Handled, Withdrawn
from crawler.engine.hooks.answers import copy_of
from crawler.engine.hooks.page_view import Page, facts_of
from crawler.url.scope.store_choice import StoreChoice


class Delivery:
    """A page being delivered. At most one task handles it."""

    def __init__(self, page: HandedPage) -> None:
        loop = asyncio.get_running_loop()
        self.page = page
        self.handled: asyncio.Future[Handled] = loop.create_future()
        self.finished: asyncio.Future[bool] = loop.create_future()

    async def end(self, handled: Handled) -> bool:
        """Report that the program has handled the page. Returns True if the page is finished; otherwise, the page will
        be delivered again."""
        if not self.handled.done():
            self.handled.set_result(handled)
        return await asyncio.shield(self.finished)

    def give_back(self) -> None:
        """Hand the page back to the crawl, as not handled."""
        if not self.handled.done():
            self.handled.set_exception(Withdrawn())
        self.tell(finished=False)

    def tell(self, *, finished: bool) -> None:
        """Report whether the page is finished, unless that was already reported."""
        if not self.finished.done():
            self.finished.set_result(finished)


class Deliveries:
    """Takes pages from a run, and gives each page to the first task that asks for one. See ``PageHandler``. At most as
    many pages wait here as the run has in flight."""

    def __init__(self, choice: StoreChoice) -> None:
        self.choice = choice
        self._all: dict[int, Delivery] = {}  # keyed by the id() of the page
        self._waiting: asyncio.Queue[Delivery | None] = asyncio.Queue()  # None: no more pages will come
        self._closed = False

    async def handle(self, page: HandedPage) -> Handled:
        """See ``PageHandler``."""
        if self._closed:
            raise Withdrawn
        self._all[id(page)] = delivery = Delivery(page)
        self._waiting.put_nowait(delivery)
        try:
            return await delivery.handled
        except BaseException:
            self._all.pop(id(page), None)
            delivery.give_back()
            raise

    def ended(self, page: HandedPage, *, finished: bool) -> None:
        """See ``PageHandler``."""
        self._all.pop(id(page)).tell(finished=finished)

    async def take(self) -> Delivery | None:
        """Wait for the next page. Returns None after the last one."""
        while (delivery := await self._waiting.get()) is not None:
            if not delivery.handled.done():
                return delivery
        self._waiting.put_nowait(None)  # so that the other tasks end too
        return None

    def close(self) -> None:
        """Stop the delivery, and return all unfinished pages to the crawl."""
        self._closed = True
        self._waiting.put_nowait(None)
        for delivery in list(self._all.values()):
            delivery.give_back()


def page_of(delivery: Delivery) -> Page:
    """Return the page of a delivery. The page is finished when the loop asks for the next one."""

    def end(page: Page, keep: bool) -> Awaitable[bool]:
        handled = Handled(data_of(page.data, page.url) or None, page.followed, keep)
        return delivery.end(handled)

    return Page(facts_of(delivery.page), delivery.page.follows, end)


def data_of(data: dict[str, Any], url: str) -> dict[str, Any]:
    """Return a copy of the page's ``data`` in the form in which the record stores it. Raises TypeError and ValueError,
    which name the URL and the key, if JSON cannot represent it."""
    try:
        return copy_of(data)
    except (TypeError, ValueError, RecursionError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"data of {url} has a value that JSON cannot represent{_place(data)}: {error}") from error


def _place(data: dict[Any, Any]) -> str:
    """Return the first key whose value JSON cannot represent, for a message."""
    for key, value in data.items():
        try:
            copy_of({key: value})
        except (TypeError, ValueError, RecursionError):
            return f" in {ascii(key)[:100]}"
    return ""
