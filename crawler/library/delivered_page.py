"""Creates the page objects that a program gets when it iterates over a crawl."""

from __future__ import annotations

from collections.abc import Awaitable

from crawler.engine.hooks.page_view import Page, facts_of
from crawler.engine.page_handler import Handled
from crawler.library.deliveries import Delivery
from crawler.library.page_data import data_of


def page_of(delivery: Delivery) -> Page:
    """Return the page of a delivery. It is finished when the loop asks for the next one."""

    def end(page: Page, keep: bool) -> Awaitable[bool]:
        handled = Handled(data_of(page.data, page.url) or None, page.followed, keep)
        return delivery.end(handled)

    return Page(facts_of(delivery.page), delivery.page.follows, end)
