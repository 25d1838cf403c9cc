"""URLs on their way into the seen-set and the queue: what was found, where and how, and whose it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from crawler.kv import Batch
from crawler.records import PageRecord
from crawler.urls import Canonical

SITEMAP_DEPTH = 1  # of a sitemap that robots.txt names


@dataclass(frozen=True, slots=True)
class Listing:
    """What a site says of URLs that it lists: their ``priorities`` from 0 to 1, by href, and whether they are
    ``sitemaps``."""

    priorities: Mapping[str, float]
    sitemaps: bool


DECLARED = Listing({}, True)


class Found(NamedTuple):
    """URLs that were found together, in one place and in one way.

    ``found_at`` is when they were found as links, in seconds since 1970; None for URLs that somebody asked for by name:
    no trap refuses them. ``listing`` is what a sitemap says of those that it names, ``share`` the importance that the
    page they were found on hands on. Where that page is a ``copy`` of another, all that are new are refused."""

    urls: Sequence[Canonical]
    depth: int
    via: str | None = None
    seed: bool = False
    redirects: int = 0
    found_at: float | None = None
    listing: Listing | None = None
    share: float = 0.0
    copy: PageRecord | None = None


class Router(Protocol):
    """Decides which URLs are admitted to this job. The others are neither seen nor queued here."""

    def ours(self, found: Found, batch: Batch) -> Sequence[Canonical]:
        """Those of ``found.urls`` that are ours, in their order. What must be kept of the others goes into ``batch``,
        which is written in the transaction that admits ours. It may be called again with the same URLs: after a crash
        the page that they were found on is visited once more."""


class KeepAll:
    """The router of a job that is alone: every URL is ours."""

    def ours(self, found: Found, batch: Batch) -> Sequence[Canonical]:
        return found.urls


KEEP_ALL = KeepAll()
