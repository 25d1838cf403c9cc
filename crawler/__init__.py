"""A streaming web crawler that loses nothing and says how far its seen-set can be trusted.

What programs may import from here is stable, and described in docs/reference/library.md:

    canonicalise        a URL's two identities
    Frontier            a durable frontier without a fetcher
    Link                a link as functions that filter and score links see it
    Job                 a job to read: statistics, records, hosts
    JobError            a job directory that cannot be used
    Crawl               a crawl as a loop over its pages
    Page                a page as the loop and functions see it
    run                 a crawl for programs without an event loop
    DROP                a function's answer for a page of which outputs keep only the record
    NoSeedFetched       a crawl that is over and has fetched no seed
    CodeFailed          a crawl that a function of the program has stopped
    filters             the membership filters

docs/internals/contributing.md shows the packages, and how to follow one page through them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from crawler.engine.hooks.answers import DROP
    from crawler.engine.hooks.page_view import Page
    from crawler.engine.link_judge import Link
    from crawler.inspect.job_view import JobView as Job
    from crawler.job.directory import JobError
    from crawler.job.durable_frontier import DurableFrontier as Frontier
    from crawler.library.blocking import run
    from crawler.library.crawl_loop import CodeFailed, Crawl, NoSeedFetched
    from crawler.seen import filters
    from crawler.url.urls.canonicaliser import canonicalise

__version__ = "0.1.0"

__all__ = [
    "DROP",
    "CodeFailed",
    "Crawl",
    "Frontier",
    "Job",
    "JobError",
    "Link",
    "NoSeedFetched",
    "Page",
    "__version__",
    "canonicalise",
    "filters",
    "run",
]

# Loaded on first use: most commands need none of them.
_LAZY = {
    "CodeFailed": ("crawler.library.crawl_loop", "CodeFailed"),
    "Crawl": ("crawler.library.crawl_loop", "Crawl"),
    "DROP": ("crawler.engine.hooks.answers", "DROP"),
    "Frontier": ("crawler.job.durable_frontier", "DurableFrontier"),
    "Job": ("crawler.inspect.job_view", "JobView"),
    "JobError": ("crawler.job.directory", "JobError"),
    "Link": ("crawler.engine.link_judge", "Link"),
    "NoSeedFetched": ("crawler.library.crawl_loop", "NoSeedFetched"),
    "Page": ("crawler.engine.hooks.page_view", "Page"),
    "canonicalise": ("crawler.url.urls.canonicaliser", "canonicalise"),
    "filters": ("crawler.seen.filters", None),
    "run": ("crawler.library.blocking", "run"),
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'crawler' has no attribute {name!r}")
    module, attribute = _LAZY[name]
    found = import_module(module)
    value = found if attribute is None else getattr(found, attribute)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
