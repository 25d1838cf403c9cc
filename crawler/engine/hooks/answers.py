"""The result of a user function for a page."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from crawler.engine.hooks.named_code import NamedCode
from crawler.engine.hooks.page_view import Page

_MARGIN = 300  # nesting levels kept in reserve: less of Python's stack is left when the crawl encodes the data


class Drop:
    """The type of ``DROP``."""

    def __repr__(self) -> str:
        return "crawler.DROP"

    def __reduce__(self) -> str:
        return "DROP"  # copies and pickles return the same object


DROP: Final = Drop()
Answer = Mapping[str, Any] | Drop | None


class CallFailed(Exception):
    """A call of a user function failed. The text is one line, with the code location if known."""


class NotReturnedError(CallFailed):
    """A call exceeded its time limit and was abandoned."""


class NoMoreCallsError(CallFailed):
    """Too many calls are stuck; no new ones are started."""


class Answered(NamedTuple):
    """The result of a call: ``data`` for the record, ``links`` to follow, and whether outputs keep the page."""

    data: dict[str, Any] | None = None
    links: tuple[str, ...] = ()
    keep: bool = True


def call_with(code: NamedCode, page: Page) -> Answered:
    """Call the function with the page. Raises CallFailed, and any exception raised by the function or while its result
    is read."""
    returned = code.function(page)
    refuse_coroutine(code.titled, returned)
    return answered(code, page, returned)


async def await_with(code: NamedCode, page: Page) -> Answered:
    """Call the async function with the page, and await it. While a caller waits, this raises only CallFailed."""
    try:
        return answered(code, page, await code.function(page))
    except GeneratorExit:  # the caller is gone, and so is the event loop
        raise
    except BaseException as error:  # even an exception that would end the event loop
        raise failed(code, error) from error


def refuse_coroutine(name: str, returned: object) -> None:
    """Raise CallFailed if a function that should be async returned a coroutine."""
    if inspect.iscoroutine(returned):
        returned.close()
        raise CallFailed(f"{name} returned a coroutine: write it with async def")


def failed(code: NamedCode, error: BaseException) -> CallFailed:
    """Return ``error`` as a CallFailed."""
    return error if isinstance(error, CallFailed) else CallFailed(code.told(error))


def answered(code: NamedCode, page: Page, returned: object) -> Answered:
    """Return the result for the page that a function was called with. Raises CallFailed, and any exception raised while
    ``returned`` is read."""
    if isinstance(returned, Mapping):
        page.data.update(returned)
    elif returned is not None and returned is not DROP:
        kind = type(returned).__name__
        raise CallFailed(f"{code.titled} returned {kind} instead of a dict, None or crawler.DROP")
    try:
        data = copy_of(page.data)
    except (TypeError, ValueError, RecursionError) as error:
        text = f"{code.titled} returned data that is not valid JSON: {error}"
        raise CallFailed(text) from error
    return Answered(data or None, page.followed, returned is not DROP)


def copy_of(data: dict[str, Any]) -> dict[str, Any]:
    """Return the data in the form in which a record holds it. Raises TypeError, ValueError or RecursionError if the
    data cannot be encoded as JSON in UTF-8, and any exception raised while the data is read."""
    nested: Any = data
    for _ in range(_MARGIN):
        nested = [nested]
    text = json.dumps(nested, allow_nan=False, ensure_ascii=False)[_MARGIN:-_MARGIN]
    found: dict[str, Any] = json.loads(text.encode())
    return found
