"""The user functions that add headers to requests and decide whether a page has changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crawler.base.settings.leaving import fault_of_header
from crawler.engine.handed_page import HandedPage
from crawler.engine.hooks.answers import CallFailed
from crawler.engine.hooks.asking import Asked
from crawler.engine.hooks.hook_failures import Hook
from crawler.engine.hooks.page_view import Page, facts_of
from crawler.engine.user_code import AsksForHeaders, AsksOfChange, PreviousVisit

# The arguments of each function.
ON_VISIT: dict[str, tuple[str, ...]] = {"request_headers": ("url",), "is_changed": ("page", "previous")}


class OnVisit:
    """The functions of one run, in the form that ``UserCode`` needs; None for each function that the user has not
    given."""

    def __init__(self, hooks: Mapping[str, Hook]) -> None:
        """``hooks``: the functions, by setting."""
        headers, changes = (hooks.get(setting) for setting in ON_VISIT)
        self._asked: list[Asked[Any]] = []
        self.headers = None if headers is None else self._headers(headers)
        self.is_changed = None if changes is None else self._is_changed(changes)

    def close(self) -> None:
        """Close the functions when the run is over."""
        for asked in self._asked:
            asked.close()

    def _headers(self, hook: Hook) -> AsksForHeaders:
        self._asked.append(asked := Asked(hook, headers_of))

        async def headers(url: str) -> Mapping[str, str]:
            return await asked.ask((url,), url) or {}  # no headers if the function fails

        return headers

    def _is_changed(self, hook: Hook) -> AsksOfChange:
        self._asked.append(asked := Asked(hook, verdict))

        async def is_changed(page: HandedPage, previous: PreviousVisit) -> bool | None:
            return await asked.ask((Page(facts_of(page), page.follows), previous), page.record.entry.href)

        return is_changed


def headers_of(returned: Any) -> dict[str, str]:
    """Return the headers of a request. Raises CallFailed, whose text does not contain header values because they may be
    secret, and any exception raised while the headers are read."""
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
