"""What a fetch means for its URL: done, one more try, or the whole host held. ``crawler.engine.judge`` decides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from crawler.frontier.entry import Entry
from crawler.frontier.host_closed import HostClosed
from crawler.frontier.lease import Retry
from crawler.frontier.page import Answer
from crawler.frontier.request_outcome import FailureClass, RequestOutcome
from crawler.frontier.traps.challenges import Challenge
from crawler.frontier.traps.ids import Sight
from crawler.frontier.traps.soft404 import Lesson
from crawler.job.found import NO_LINKS, Found, Outlinks
from crawler.job.records import NO_PROFILE, Kept, Outcome, PageRecord
from crawler.url.consent.statements import NOTHING_STATED, Stated
from crawler.url.refusal.own_rules import Refusal
from crawler.url.scope.bounds import LeftOut
from crawler.url.urls.canonicaliser import Canonical
from crawler.web.links.refresh import Refresh

if TYPE_CHECKING:
    from crawler.frontier.rendering.paying import Paid
    from crawler.web.browser.rendered import NotRendered, Rendered
    from crawler.web.fetch import RawExchange, Response  # a library that queues URLs loads no network

NOT_REQUESTED = RequestOutcome()


class Heading(Struct, frozen=True):
    """What the headers of an answer say of the page. ``tags`` are the values of ``X-Robots-Tag``, ``hrefs`` the targets
    of ``Link`` and ``Refresh``, as written. ``challenge``: they say that it bars the crawler from the page.
    ``refresh``: where they send its visitors. ``stated``: the uses that they allow or refuse, but for the tags;
    ``license``: the terms that they name, as written."""

    tags: tuple[str, ...] = ()
    hrefs: tuple[str, ...] = ()
    challenge: Challenge | None = None
    refresh: Refresh | None = None
    stated: Stated = NOTHING_STATED
    license: str | None = None


NO_HEADING = Heading()


class Rendering(Struct, frozen=True):
    """What a browser made of a page, ``why`` it was asked (``RenderedAs``), and what the page asked for: ``requests``
    counts those that were made, those that the cache answered, and those that were refused, by why; ``exchanges`` are
    those that archives want, each with its URL and the time when it began."""

    why: str
    result: Rendered | NotRendered
    requests: Mapping[str, int] = {}
    exchanges: Sequence[tuple[str, float, RawExchange]] = ()


class Draft(Struct):
    """What will be finished of a URL that is done: each step of its visit adds what it knows, and one transaction
    writes it.

    ``body``: the page from which links are extracted. ``location``: the target of a redirect. ``request``: the outcome
    of the last request. ``answer``: kept for comparison with a later visit. ``requested`` is False if no request was
    made because robots.txt or a limit refused the URL. ``lesson``: what the page taught about its host; ``probe``: the
    URL to ask for because of it. ``left``: what limits left out of the page; None if it was not read. ``response``: the
    answer, if there was a complete one; ``raw``: the exchange as it was on the wire, if that is kept; ``kept``: what
    outputs keep of it. ``is_page``: its body was read as a page; ``is_kept``: outputs may keep something of it;
    ``unstated``: it does not say whether it may be used for what the crawl is for. ``relevant``: whether it is one that
    the crawl is to find, as code of the user says; None if it was not asked. ``chain``: the redirects up to the next
    URL; ``again``: a URL of that chain, if it leads back to it and the cookies are others now. ``sights``: what the
    page says of the ids in its URL. ``rendering``: what a browser made of it; if that is a page, ``body`` is its
    document. ``paid``: whether it was to be rendered, and whether that paid; None if no browser is wanted for it.
    ``links``: its last ones, with the counts of all."""

    record: PageRecord
    request: RequestOutcome = NOT_REQUESTED
    body: bytes | None = None
    charset: str | None = None
    location: str | None = None
    answer: Answer | None = None
    requested: bool = True
    heading: Heading = NO_HEADING
    lesson: Lesson | None = None
    probe: Canonical | None = None
    left: LeftOut | None = None
    response: Response | None = None
    raw: RawExchange | None = None
    kept: Kept = ()
    is_page: bool = False
    is_kept: bool = True
    unstated: bool = False
    relevant: bool | None = None
    chain: bytes = b""
    again: Entry | None = None
    sights: Sequence[Sight] = ()
    rendering: Rendering | None = None
    paid: Paid | None = None
    links: Outlinks = NO_LINKS

    @property
    def cut(self) -> str | None:
        """Why the body lacks its end; None if it does not."""
        return None if self.response is None or not self.response.truncated else self.response.note


def unread(draft: Draft, why: str) -> None:
    """The crawler could not read the page. It answered, so its host is not blamed."""
    draft.record.outcome, draft.record.error = Outcome.FAILED, why
    draft.request = draft.request._replace(failure=FailureClass.INTERNAL)
    draft.answer, draft.links = None, NO_LINKS


def barred(draft: Draft, challenge: Challenge) -> None:
    """The page bars the crawler from the one that was asked for."""
    draft.record.outcome, draft.record.error = Outcome.BLOCKED, challenge.words
    draft.request = draft.request._replace(failure=FailureClass.LOGIN if challenge.login else FailureClass.BLOCKED)
    draft.answer = None


def dropped(draft: Draft, refusal: Refusal) -> None:
    """The page may not be used for what the crawl is for. Its record keeps only that, and what the answer was. The next
    visit asks for the whole page: it may state something else."""
    record = draft.record
    draft.is_kept, draft.relevant = False, None
    record.profile, record.content, record.score, record.needs_scripts = NO_PROFILE, None, None, None
    record.exchanged = record.exchanged._replace(etag=None, last_modified=None, headers=None)
    if draft.answer is not None:
        draft.answer = replace(draft.answer, etag=None, last_modified=None)
    if record.outcome is Outcome.FETCHED and (record.status or 0) < 400:
        record.outcome, record.error, record.refusal = Outcome.EXCLUDED, refusal.error, refusal


class TryAgain(Exception):
    """A visit ends here: its URL gets another try."""

    def __init__(self, retry: Retry) -> None:
        super().__init__(retry.entry.href)
        self.retry = retry


class Throttled(Struct):
    """The host is held. ``last`` is the record of a URL that has no tries left, and ``kept`` what outputs keep of its
    answer; if it is None, ``entry`` gets another try."""

    entry: Entry
    last: PageRecord | None
    request: RequestOutcome
    answer: Answer | None = None
    kept: Kept = ()


class RobotsAnswer(Struct, frozen=True):
    """robots.txt of a host was fetched, or the crawler gave up on it. ``stored``: the record to keep; it holds
    ``until`` that time (seconds since 1970). ``sitemaps``: those that it lists. ``kept``: what outputs keep of it.
    ``closed``: why the host is asked for nothing before then."""

    stored: bytes
    until: float
    crawl_delay: float | None
    request: RequestOutcome
    sitemaps: Found | None = None
    kept: Kept = ()
    closed: HostClosed | None = None


Verdict = Draft | Retry | Throttled
