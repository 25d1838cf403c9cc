"""What a function of the user says of a page."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from crawler.engine.hooks.named_code import NamedCode
from crawler.engine.hooks.page_view import Page

_MARGIN = 300  # levels that Python can nest deeper than data may: the crawl writes it where less of its stack is left


class Drop:
    """The type of ``DROP``."""

    def __repr__(self) -> str:
        return "crawler.DROP"

    def __reduce__(self) -> str:
        return "DROP"  # there is one, also in copies


DROP: Final = Drop()
Answer = Mapping[str, Any] | Drop | None


class CallFailed(Exception):
    """A call of a function of the user failed. The text is one line, with the place in the code if there is one."""


class NotReturnedError(CallFailed):
    """A call takes too long, and was given up."""


class NoMoreCallsError(CallFailed):
    """So many calls hang that no more are begun."""


class Answered(NamedTuple):
    """What came of a call: ``data`` for the record, ``links`` to follow, and whether outputs keep the page."""

    data: dict[str, Any] | None = None
    links: tuple[str, ...] = ()
    keep: bool = True


def call_with(code: NamedCode, page: Page) -> Answered:
    """Call the function with the page. Raises CallFailed, and what the function or its answer raises."""
    returned = code.function(page)
    refuse_coroutine(code.titled, returned)
    return answered(code, page, returned)


async def await_with(code: NamedCode, page: Page) -> Answered:
    """The same with an async function. Raises CallFailed, and nothing else while somebody waits for it."""
    try:
        return answered(code, page, await code.function(page))
    except GeneratorExit:  # nobody waits for it, and its event loop is gone
        raise
    except BaseException as error:  # also what would end the event loop
        raise failed(code, error) from error


def refuse_coroutine(name: str, returned: object) -> None:
    """Raise CallFailed for what a function returns that should have been async."""
    if inspect.iscoroutine(returned):
        returned.close()
        raise CallFailed(f"{name} returned a coroutine: write it with async def")


def failed(code: NamedCode, error: BaseException) -> CallFailed:
    """What a call failed with: itself if it says so, or whatever the function or its answer raised."""
    return error if isinstance(error, CallFailed) else CallFailed(code.told(error))


def answered(code: NamedCode, page: Page, returned: object) -> Answered:
    """What the function says of the page that returned this. Raises CallFailed, and what the answer raises."""
    if isinstance(returned, Mapping):
        page.data.update(returned)
    elif returned is not None and returned is not DROP:
        kind = type(returned).__name__
        raise CallFailed(f"{code.titled} returned {kind}, and not a dict, None or crawler.DROP")
    try:
        data = copy_of(page.data)
    except (TypeError, ValueError, RecursionError) as error:
        text = f"{code.titled} returned what JSON cannot express: {error}"
        raise CallFailed(text) from error
    return Answered(data or None, page.followed, returned is not DROP)


def copy_of(data: dict[str, Any]) -> dict[str, Any]:
    """The data as it stands in a record. Raises TypeError, ValueError or RecursionError if JSON cannot express it, or
    UTF-8 cannot, and whatever reading it raises."""
    nested: Any = data
    for _ in range(_MARGIN):
        nested = [nested]
    text = json.dumps(nested, allow_nan=False, ensure_ascii=False)[_MARGIN:-_MARGIN]
    found: dict[str, Any] = json.loads(text.encode())
    return found
