"""The verdict on a fetch: the URL is done, it gets another try, or its host is held. ``crawler.engine.judge``
decides."""

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
from crawler.url.refusal.forbidden_targets import Refusal
from crawler.url.scope.bounds import LeftOut
from crawler.url.urls.canonicaliser import Canonical
from crawler.web.links.refresh import Refresh

if TYPE_CHECKING:
    from crawler.frontier.rendering.rendering_odds import Paid
    from crawler.web.fetch import RawExchange, Response  # not loaded by programs that only queue URLs

NOT_REQUESTED = RequestOutcome()


class Heading(Struct, frozen=True):
    """Facts from the headers of an answer.

    ``tags`` are the values of ``X-Robots-Tag``, ``hrefs`` the targets of ``Link`` and ``Refresh``, as written.
    ``challenge``: the page is a challenge, according to the headers. ``refresh``: the target to which they redirect.
    ``stated``: the uses that they allow or refuse, except in the tags; ``license``: the terms in RSL that they name, as
    written."""

    tags: tuple[str, ...] = ()
    hrefs: tuple[str, ...] = ()
    challenge: Challenge | None = None
    refresh: Refresh | None = None
    stated: Stated = NOTHING_STATED
    license: str | None = None


NO_HEADING = Heading()


class Rendering(Struct, frozen=True):
    """The requests of a page that was to be rendered.

    ``requests`` counts the requests that were made, answered by the cache, or refused, by reason; ``exchanges`` are
    those for archives, each with its URL and the time when it started."""

    requests: Mapping[str, int]
    exchanges: Sequence[tuple[str, float, RawExchange]]


class Draft(Struct):
    """A URL being finished: each step of its visit adds facts, and one transaction writes them.

    ``body``: the page from which links are extracted. ``location``: the target of a redirect. ``request``: the outcome
    of the last request. ``answer``: kept for comparison with a later visit. ``requested`` is False if no request was
    made because robots.txt or a limit refused the URL. ``lesson``: what the page showed about its host; ``probe``: the
    URL to request because of it. ``left``: the links that limits left out; None if the page was not read. ``response``:
    the answer, if there was a complete one; ``raw``: the exchange as transferred, if it is kept; ``kept``: the data for
    outputs. ``is_page``: the body was read as a page; ``is_kept``: outputs may store data of it; ``unstated``: it does
    not state whether it may be used for the purposes of the crawl. ``relevant``: whether the page is relevant according
    to the user's code; None if the code was not called. ``chain``: the redirects up to the next URL; ``again``: a URL
    of that chain to visit again, if the chain leads back to it and the cookies have changed. ``sights``: facts about
    the ids in the URL. ``rendering``: the page's requests in a browser, whose document is the ``body``. ``paid``:
    whether the page was to be rendered, and whether that paid off; None if no browser is wanted for it. ``links``: the
    page's last links, with the counts of all its links."""

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
        """Why the body is truncated; None if it is complete."""
        return None if self.response is None or not self.response.truncated else self.response.note


def unread(draft: Draft, why: str) -> None:
    """Record that the crawler could not read the page. The host answered, so it is not blamed."""
    draft.record.outcome, draft.record.error = Outcome.FAILED, why
    draft.request = draft.request._replace(failure=FailureClass.INTERNAL)
    draft.answer, draft.links = None, NO_LINKS


def barred(draft: Draft, challenge: Challenge) -> None:
    """Record that the host sent a challenge, a denial or a login instead of the page."""
    draft.record.outcome, draft.record.error = Outcome.BLOCKED, challenge.words
    draft.request = draft.request._replace(failure=FailureClass.LOGIN if challenge.login else FailureClass.BLOCKED)
    draft.answer = None


def dropped(draft: Draft, refusal: Refusal) -> None:
    """Record that the page may not be used for the purposes of the crawl. The record keeps only that and the answer.

    The next visit requests the whole page, because its statement may have changed."""
    record = draft.record
    draft.is_kept, draft.relevant = False, None
    record.profile, record.content, record.score, record.needs_scripts = NO_PROFILE, None, None, None
    record.exchanged = record.exchanged._replace(etag=None, last_modified=None, headers=None)
    if draft.answer is not None:
        draft.answer = replace(draft.answer, etag=None, last_modified=None)
    if record.outcome is Outcome.FETCHED and (record.status or 0) < 400:
        record.outcome, record.error, record.refusal = Outcome.EXCLUDED, refusal.error, refusal


class TryAgain(Exception):
    """Ends a visit so that its URL gets another try."""

    def __init__(self, retry: Retry) -> None:
        super().__init__(retry.entry.href)
        self.retry = retry


class Throttled(Struct):
    """The verdict that the host is held. If the URL has no tries left, ``last`` is its draft. If ``last`` is None,
    ``entry`` gets another try."""

    entry: Entry
    last: Draft | None
    request: RequestOutcome


class RobotsAnswer(Struct, frozen=True):
    """The robots.txt of a host, or a file with its terms, was fetched, or the crawler gave up on it.

    ``stored``: the record to store, valid ``until`` that time (seconds since 1970). ``sitemaps``: those listed in it;
    None for terms.
    ``kept``: the data for outputs. ``closed``: why the host gets no requests before then."""

    stored: bytes
    until: float
    crawl_delay: float | None
    request: RequestOutcome
    sitemaps: Found | None = None
    kept: Kept = ()
    closed: HostClosed | None = None


Verdict = Draft | Retry | Throttled
