"""User code in a run, as the engine sees it. Every outcome of the code is a value: its errors are not raised here."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from msgspec import Struct, field, to_builtins

from crawler.engine.handed_page import HandedPage, PageHandler
from crawler.engine.link_judge import LinkJudge


class HookFigures(Struct):
    """The figures of one user function in this run. ``hanging``: calls that have not returned for a long time (10 s, or
    half of a call's time limit). ``stopped``: why it stopped the crawl, if it did."""

    function: str
    calls: int = 0
    failed: int = 0
    hanging: int = 0
    stopped: str | None = None

    def as_json(self) -> dict[str, Any]:
        figures: dict[str, Any] = to_builtins(self)
        return figures


class PreviousVisit(Struct, frozen=True):
    """The results of earlier visits to a page. ``visits`` and ``changes`` count them and the changes that they found;
    ``visited_at`` is the time of the last one (seconds since 1970), with the validators of its answer. ``same``:
    whether the answer is unchanged, as far as the crawl compares it (``recrawl.compare``); None: it cannot be compared.
    """

    visits: int
    changes: int
    visited_at: float
    etag: str | None
    last_modified: str | None
    same: bool | None


AsksForHeaders = Callable[[str], Awaitable[Mapping[str, str]]]  # returns headers for the request of a URL
AsksOfChange = Callable[[HandedPage, PreviousVisit], Awaitable[bool | None]]  # returns None if the code does not decide


def _nothing() -> None:
    """Do nothing: the default for ``close``."""


class UserCode(Struct, frozen=True):
    """User code in a run. ``handler`` gets its pages; ``judge`` is asked about them and their links. ``headers``
    returns headers for a request, ``is_changed`` whether a page has changed; both may raise Withdrawn. ``figures``: by
    the setting that names the function. ``close`` is called when the run is over."""

    handler: PageHandler | None = None
    figures: Mapping[str, HookFigures] = field(default_factory=dict)
    close: Callable[[], None] = _nothing
    judge: LinkJudge | None = None
    headers: AsksForHeaders | None = None
    is_changed: AsksOfChange | None = None
