"""The keyword arguments of a crawl. ``benchmarks/house/crawl_options.py --record`` writes this file."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypedDict

if TYPE_CHECKING:
    from crawler.engine.hooks.page_view import Page
    from crawler.engine.link_judge import Link
    from crawler.engine.user_code import PreviousVisit

Headers = Mapping[str, str] | None
Output = Literal["warc", "links", "text", "bodies", "structured", "markdown"]


class CrawlOptions(TypedDict, total=False):
    """The keyword arguments that ``Crawl`` describes. None means that an argument is not given."""

    config: str | PathLike[str] | None
    types: Sequence[str]
    statuses: Sequence[str]
    progress: bool
    scope: Literal["host", "domain", "prefix", "any"] | None
    hops_outside: int | None
    embedded: Literal["off", "scope", "any"] | None
    include: str | Iterable[str] | None
    exclude: str | Iterable[str] | None
    known: str | Iterable[str] | None
    browser: Literal[True, "never", "signs", "always"] | None
    purpose: Sequence[Literal["search", "ai-input", "ai-train", "tdm", "archive"]] | None
    order: Literal["breadth", "depth", "score"] | None
    recrawl: bool | None
    max_pages: int | None
    max_depth: int | None
    max_time: float | str | None
    fail_on_limit: bool | None
    min_free: int | str | None
    contact: str | None
    user_agent: str | None
    delay: float | str | None
    per_host: int | None
    host_key: Literal["host", "origin", "domain", "address"] | None
    rate: float | None
    concurrency: int | None
    ignore_robots: bool | None
    retry_retired: bool | None
    allow_private: bool | None
    allow_network: str | Iterable[str] | None
    proxy: str | None
    seen: Literal["scalable", "bloom", "counting", "cuckoo", "exact", "digest", "bitmap"] | None
    fpp: float | None
    capacity: int | None
    hash: Literal["blake2b", "mmh3"] | None
    ledger: bool | None
    output: Output | Iterable[Output] | None
    store: str | None
    dashboard: str | None
    dashboard_token_file: str | Path | None
    notify: str | None
    filter_link: str | Callable[[Link], bool | Awaitable[bool]] | None
    score_links: str | Callable[[list[Link]], Iterable[float] | Awaitable[Iterable[float]]] | None
    score_page: str | Callable[[Page], float | Awaitable[float]] | None
    request_headers: str | Callable[[str], Headers | Awaitable[Headers]] | None
    is_changed: str | Callable[[Page, PreviousVisit], bool | Awaitable[bool]] | None
    relevant_score: float | None
    on_error: Literal["count", "stop"] | None
    on_page_timeout: float | str | None
