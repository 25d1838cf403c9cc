"""The pages that a program gets when it loops over a crawl, and the data that it stores with them."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from crawler.engine.hooks.answers import copy_of
from crawler.engine.hooks.page_view import Page, facts_of
from crawler.engine.page_handler import Handled
from crawler.library.deliveries import Delivery


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
