"""What a function of the user says of a page."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from crawler.hooks.named_code import NamedCode
from crawler.hooks.page_view import PageView


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


class NoMoreCallsError(CallFailed):
    """So many calls hang that no more are begun."""


class Answered(NamedTuple):
    """What came of a call: ``data`` for the record, ``links`` to follow, and whether outputs keep the page."""

    data: dict[str, Any] | None = None
    links: tuple[str, ...] = ()
    keep: bool = True


def call_with(code: NamedCode, page: PageView) -> Answered:
    """Call the function with the page. Raises CallFailed."""
    try:
        returned = code.function(page)
    except BaseException as error:  # also what would end the thread
        raise CallFailed(code.told(error)) from error
    if inspect.iscoroutine(returned):
        returned.close()
        raise CallFailed(f"{code.titled} returned a coroutine: write it with async def")
    return answered(code, page, returned)


async def await_with(code: NamedCode, page: PageView) -> Answered:
    """The same with an async function."""
    try:
        returned = await code.function(page)
    except GeneratorExit:  # nobody waits for it, and its event loop is gone
        raise
    except BaseException as error:
        raise CallFailed(code.told(error)) from error
    return answered(code, page, returned)


def answered(code: NamedCode, page: PageView, returned: object) -> Answered:
    """What the function says of the page that returned this. Raises CallFailed."""
    if isinstance(returned, Mapping):
        page.data.update(returned)
    elif returned is not None and returned is not DROP:
        kind = type(returned).__name__
        raise CallFailed(f"{code.titled} returned {kind}, and not a dict, None or crawler.DROP")
    try:
        data = json.loads(json.dumps(page.data, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise CallFailed(f"{code.titled} returned what JSON cannot express: {error}") from error
    return Answered(data or None, page.followed, returned is not DROP)
