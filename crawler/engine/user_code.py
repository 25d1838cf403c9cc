"""Code of the user in a run, as the engine sees it. Whatever the code does is a value: nothing here raises for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from crawler.engine.link_judge import LinkJudge
from crawler.engine.page_handler import PageHandler


@dataclass(slots=True)
class HookFigures:
    """What one function of the user did in this run. ``hanging``: calls that take remarkably long now."""

    function: str
    calls: int = 0
    failed: int = 0
    hanging: int = 0

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def _nothing() -> None:
    """There is nothing to close."""


@dataclass(frozen=True, slots=True)
class UserCode:
    """The code of the user in a run. ``handler`` gets its pages; ``judge`` is asked about them and their links.
    ``figures``: by the setting that names the function. ``close`` is called when the run is over."""

    handler: PageHandler | None = None
    figures: Mapping[str, HookFigures] = field(default_factory=dict)
    close: Callable[[], None] = _nothing
    judge: LinkJudge | None = None
