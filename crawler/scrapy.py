"""``SCHEDULER`` and ``DUPEFILTER_CLASS`` for Scrapy, under the names in its settings; see ``crawler.tools.scrapy``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from crawler.tools.scrapy import DupeFilter, Scheduler

__all__ = ["DupeFilter", "Scheduler"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from crawler.tools import scrapy  # noqa: PLC0415 - importing this module needs no Scrapy, an extra

    return getattr(scrapy, name)
