"""What a fetch means for its URL: done, once more, or the whole host held. ``crawler.engine.judge`` decides which."""

from __future__ import annotations

from dataclasses import dataclass

from crawler.frontier import Answer, Entry, RequestOutcome
from crawler.job.found import Found
from crawler.records import PageRecord

NOT_REQUESTED = RequestOutcome()


@dataclass(frozen=True, slots=True)
class Finished:
    """The URL is done; ``body`` is the page whose links are to be taken, ``location`` where a redirect points,
    ``request`` what the last request came to, ``answer`` what a later visit is compared with. ``requested`` is False
    where its host was not asked: robots.txt or a limit refused the URL."""

    record: PageRecord
    request: RequestOutcome = NOT_REQUESTED
    body: bytes | None = None
    charset: str | None = None
    location: str | None = None
    answer: Answer | None = None
    requested: bool = True


@dataclass(frozen=True, slots=True)
class Again:
    """The URL is asked again after ``wait`` seconds."""

    entry: Entry
    wait: float
    reason: str
    request: RequestOutcome


@dataclass(frozen=True, slots=True)
class Throttled:
    """The host is held. ``last`` is the record of a URL that has had all its tries, else ``entry`` goes again."""

    entry: Entry
    last: PageRecord | None
    request: RequestOutcome
    answer: Answer | None = None


@dataclass(frozen=True, slots=True)
class RobotsAnswer:
    """A host's robots.txt was answered, or given up: ``stored`` is what is kept of it, and holds ``until`` then
    (seconds since 1970). ``sitemaps`` are those that it names."""

    stored: bytes
    until: float
    crawl_delay: float | None
    request: RequestOutcome
    sitemaps: Found | None = None


Verdict = Finished | Again | Throttled
