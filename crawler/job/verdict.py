"""What a fetch means for its URL: done, once more, or the whole host held. ``crawler.engine.judge`` decides which."""

from __future__ import annotations

from dataclasses import dataclass

from crawler.frontier import Answer, Asked, Entry
from crawler.records import PageRecord

NOT_ASKED = Asked()


@dataclass(frozen=True, slots=True)
class Finished:
    """The URL is done; ``body`` is the page whose links are to be taken, ``location`` where a redirect points,
    ``asked`` what the last request came to, ``answer`` what a later visit is compared with."""

    record: PageRecord
    asked: Asked = NOT_ASKED
    body: bytes | None = None
    charset: str | None = None
    location: str | None = None
    answer: Answer | None = None


@dataclass(frozen=True, slots=True)
class Again:
    """The URL is asked again after ``wait`` seconds."""

    entry: Entry
    wait: float
    reason: str
    asked: Asked


@dataclass(frozen=True, slots=True)
class Throttled:
    """The host is held, for ``retry_after`` seconds when it named a time. ``last`` is the record of a URL that has
    had all its tries, else ``entry`` goes again."""

    entry: Entry
    retry_after: float | None
    last: PageRecord | None
    asked: Asked
    answer: Answer | None = None


Verdict = Finished | Again | Throttled
