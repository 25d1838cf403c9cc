"""The user functions that add headers to requests and decide whether a page has changed."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from crawler.base.settings.leaving import fault_of_header
from crawler.engine.hooks.answers import CallFailed
from crawler.engine.hooks.asking import Asked
from crawler.engine.hooks.hook import Hook
from crawler.engine.hooks.named_code import NamedCode
from crawler.engine.hooks.page_view import Page, facts_of
from crawler.engine.page_handler import HandedPage
from crawler.engine.user_code import PreviousVisit

# The arguments of each function.
ON_VISIT: dict[str, tuple[str, ...]] = {"request_headers": ("url",), "is_changed": ("page", "previous")}


class OnVisit:
    """The functions of one run."""

    def __init__(self, hooks: Mapping[str, Hook]) -> None:
        """``hooks``: by setting."""
        headers, changes = (hooks.get(setting) for setting in ON_VISIT)
        self._headers = None if headers is None else Asked(headers, headers_of)
        self._changes = None if changes is None else Asked(_of_pair(changes), verdict)
        self.headers = None if self._headers is None else self._headers_for
        self.is_changed = None if self._changes is None else self._is_changed

    def close(self) -> None:
        """Close the functions when the run is over."""
        for asked in (self._headers, self._changes):
            if asked is not None:
                asked.close()

    async def _headers_for(self, url: str) -> Mapping[str, str]:
        """See ``UserCode``. Returns no headers if the function fails."""
        assert self._headers is not None
        return await self._headers.ask(url, url) or {}

    async def _is_changed(self, page: HandedPage, previous: PreviousVisit) -> bool | None:
        """See ``UserCode``."""
        assert self._changes is not None
        view = Page(facts_of(page), page.follows)
        return await self._changes.ask((view, previous), page.record.entry.href)


def headers_of(returned: Any) -> dict[str, str]:
    """Return the headers of a request. Raises CallFailed, whose text omits their values because they may be secret,
    and any exception raised while reading them."""
    if returned is None:
        return {}
    if not isinstance(returned, Mapping):
        raise CallFailed(f"it returned {type(returned).__name__} instead of a dict of headers or None")
    found: dict[str, str] = {}
    for name, value in returned.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise CallFailed(f"it returned a header {name!r} whose name or value is not a str")
        fault = fault_of_header(f"{name}:{value}")
        if fault is not None:
            raise CallFailed(f"it returned a header {name!r}: headers {fault}")
        found[name] = value
    return found


def verdict(returned: Any) -> bool:
    """Return whether a page has changed. Raises CallFailed if the value is not a bool: the function probably lacks a
    return statement."""
    if type(returned) is not bool:
        raise CallFailed(f"it returned {type(returned).__name__} instead of True or False")
    return bool(returned)


def _of_pair(hook: Hook) -> Hook:
    """Return the hook with a function that takes its two arguments as one tuple."""
    function = hook.code.function
    called: Callable[..., Any]
    if hook.code.is_async:

        @functools.wraps(function)
        async def called(pair: tuple[Any, ...]) -> Any:
            return await function(*pair)

    else:

        @functools.wraps(function)
        def called(pair: tuple[Any, ...]) -> Any:
            return function(*pair)

    hook.code = NamedCode(hook.code.name, called)
    return hook
