"""Understanding: interprets an answer for its URL, and the markup and headers of a page. The result depends only on
foreign bytes, and changes nothing. Foreign strings are untrusted, so they are shortened and cleaned before they are
stored in records.
"""

from __future__ import annotations

import hashlib
from base64 import b32encode
from collections.abc import Callable, Generator, Sequence

from msgspec import Struct
from msgspec.structs import astuple, replace

from crawler.base.settings.parts import WHOLE, DescribedLinks, LinkSettings, OutputSettings, Settings
from crawler.engine.judge import answer_of, judge, request_outcome
from crawler.engine.links_and_redirects import Discovery, wants_edges
from crawler.frontier.entry import Entry
from crawler.frontier.lease import Retry
from crawler.frontier.traps.challenges import (
    WALL_HEADERS,
    Challenge,
    challenge_by_headers,
    challenge_by_markup,
    login_page,
)
from crawler.job.records import NO_EXCHANGE, NO_PROFILE, Exchanged, Outcome, PageRecord, Profile
from crawler.job.revisit import NOT_MODIFIED
from crawler.job.verdict import NO_HEADING, Draft, Heading, Throttled, Verdict, dropped
from crawler.url.consent.statements import RESERVATION, Stated, of_directives, of_headers, of_metas, refusal, stricter
from crawler.url.refusal.forbidden_targets import Refusal
from crawler.url.robots.directives import directives, forbids_links
from crawler.url.robots.parse import product_token
from crawler.url.scope.store_choice import StoreChoice
from crawler.web.fetch import Failure, Response, is_html
from crawler.web.fetch.robots_fetch import locate
from crawler.web.links.about import clean, language
from crawler.web.links.encoding import encoding_name
from crawler.web.links.extract import PageLinks
from crawler.web.links.headers import FEED, MARKDOWN, header_links
from crawler.web.links.refresh import Refresh, parse_refresh
from crawler.web.links.script_signs import signs_of

PRECONDITION_FAILED = 412
UNASKED = "not modified, by an answer to a request without a condition"
_TELLING = frozenset(("x-robots-tag", "link", "refresh", "content-usage", RESERVATION)) | WALL_HEADERS
HEADER_MOST = 1_000  # maximum characters of a header in a record
_STEP = 256 * 1024  # number of bytes whose digest takes a millisecond

Resolve = Callable[[str, PageLinks], str | None]


class HeadingReader:
    """Parses the headers that matter to the crawl."""

    def __init__(self, settings: Settings) -> None:
        self.links = links_that_lead_on(settings)
        self._agent = product_token(settings.fetch.user_agent)

    def read(self, result: Response | Failure) -> Heading:
        """Return the parsed headers."""
        if isinstance(result, Failure):
            return NO_HEADING
        if _TELLING.isdisjoint(map(str.lower, result.headers)):
            return NO_HEADING
        tags, links, refresh = (result.values(name) for name in ("X-Robots-Tag", "Link", "Refresh"))
        stated_of = of_headers(result.values("Content-Usage"), result.values(RESERVATION))
        challenge = challenge_by_headers(result.values)
        if not 200 <= result.status < 400 or result.location is not None:
            return Heading(tags, stated=stated_of)
        stated = refresh[0] if refresh else None
        moves = parse_refresh(stated) if stated and "refresh" in self.links.kinds else None
        hrefs, license = header_links(links, stated, self.links)
        return Heading(tags, tuple(hrefs), challenge, moves, stated_of, license)

    def directives(self, heading: Heading, metas: tuple[tuple[str, str], ...], now: float) -> tuple[str, ...]:
        """Return the combined robots directives from the headers and from the page."""
        return directives(heading.tags, metas, self._agent, now) if heading.tags or metas else ()

    def follows(self, names: tuple[str, ...]) -> bool:
        """Return whether the links of a page with these directives are followed."""
        return not (names and self.links.respect_meta_robots and forbids_links(names))


class Describer:
    """Adds the wanted fields of an exchange to records."""

    def __init__(self, settings: OutputSettings) -> None:
        self._fields = frozenset(settings.fields)
        self._headers = tuple(dict.fromkeys(name.lower() for name in settings.headers))

    @property
    def wants_digest(self) -> bool:
        """True if the digest of a body is wanted."""
        return "payload_digest" in self._fields

    def unasked(self, entry: Entry) -> Exchanged:
        """Return the exchange fields of a URL that is finished without a further request."""
        tries = entry.tries + entry.throttled
        return Exchanged(tries=tries) if tries and "tries" in self._fields else NO_EXCHANGE

    def describe(self, record: PageRecord, entry: Entry, result: Response | Failure) -> None:
        """Add the facts from an exchange, and from its headers, to the record."""
        record.exchanged, record.profile = self._exchanged(entry, result), self._said(result)

    def _exchanged(self, entry: Entry, result: Response | Failure) -> Exchanged:
        fields, etag, modified, headers = self._fields, None, None, None
        if isinstance(result, Response):
            etag = _first(result, "ETag") if "etag" in fields else None
            modified = _first(result, "Last-Modified") if "last_modified" in fields else None
            headers = self._headers_of(result) if self._headers else None
        return Exchanged(
            etag,
            modified,
            result.address if "address" in fields else None,
            round(result.seconds, 3) if "seconds" in fields else None,
            entry.tries + entry.throttled + 1 if "tries" in fields else None,
            headers,
        )

    def _headers_of(self, result: Response) -> dict[str, str] | None:
        found = {}
        for name in self._headers:
            value = clean(", ".join(result.values(name)), HEADER_MOST)
            if value is not None:
                found[name] = value
        return found or None

    def _said(self, result: Response | Failure) -> Profile:
        """Return the facts that the headers of an answer state about the page."""
        if isinstance(result, Failure):
            return NO_PROFILE
        tag = label = None
        if "language" in self._fields:
            tag = language(result.headers.get("Content-Language"))
        if "charset" in self._fields and result.charset is not None:
            label = encoding_name(result.charset)
        return Profile(language=tag, charset=label)

    def page(self, href: str, said: Profile, links: PageLinks, resolve: Resolve) -> Profile:
        """Return the metadata of a page. ``said``: the part known from its headers and bytes. ``resolve`` makes its
        canonical URL absolute."""
        fields, about = self._fields, links.about
        return Profile(
            about.title if "title" in fields else None,
            about.language or said.language if "language" in fields else None,
            None,
            resolve(href, links) if about.canonical and "canonical" in fields else None,
            links.encoding if "charset" in fields else None,
            said.payload_digest,
        )

    def detected(self, record: PageRecord, language: str | None) -> None:
        """Add the language that was detected in a page's text to its record."""
        if language is not None and "detected_language" in self._fields:
            record.profile = record.profile._replace(detected_language=language)


class PageFacts(Struct):
    """The facts of a page. ``links`` are the links to follow, resolved against ``base``; ``written`` are all its links,
    as written. ``robots``: the directives for this crawler. ``challenge``: the challenge that was sent in place of the
    page, if any. ``refresh``: the target of its redirect. ``needs_scripts``: the signs that it needs its scripts.
    ``consent`` and ``license``: as in the record."""

    links: PageLinks
    base: str
    written: Sequence[str]
    profile: Profile
    robots: tuple[str, ...]
    challenge: Challenge | None
    refresh: Refresh | None
    needs_scripts: tuple[str, ...]
    consent: Stated
    license: str | None


class Understanding:
    """Interprets the answers of one run."""

    def __init__(self, settings: Settings) -> None:
        self.retry = settings.retry
        self.headings = HeadingReader(settings)
        self.links = self.headings.links
        self.describer = Describer(settings.output)
        self._purpose = settings.purpose
        self.by_text = settings.recrawl.compare == "text"  # True if the text of a page decides whether it has changed
        # Selects the answers that are kept as received, if any.
        self.keep = None if WHOLE.isdisjoint(settings.output.keep) else StoreChoice.of(settings.output)

    def verdict(
        self, entry: Entry, result: Response | Failure, now: float, is_compared: bool, conditional: bool
    ) -> Verdict:
        """Return what an exchange means for its URL. ``is_compared``: its result is compared with those of other
        visits. ``conditional``: the request was conditional."""
        if conditional and isinstance(result, Response) and result.status == PRECONDITION_FAILED:
            request = request_outcome(result)  # the next try is unconditional
            return Retry(entry._replace(tries=entry.tries + 1), 0.0, request)
        verdict = judge(entry, result, now, self.retry)
        if isinstance(verdict, Retry):
            return verdict
        draft = verdict.last if isinstance(verdict, Throttled) else verdict
        if draft is None:
            return verdict
        draft.answer = answer_of(result, conditional=conditional) if is_compared else None
        if isinstance(result, Response):
            if result.status == NOT_MODIFIED and not conditional:
                draft.record.error = UNASKED
            draft.response = result
        self.describe(draft, entry, result)
        return verdict

    def describe(self, draft: Draft, entry: Entry, result: Response | Failure) -> None:
        """Add the fields of the exchange to a draft."""
        draft.heading, draft.raw = self.headings.read(result), result.raw
        record = draft.record
        self.describer.describe(record, entry, result)
        if draft.heading is NO_HEADING:
            return
        heading, now = draft.heading, record.fetched_at
        record.robots = self.headings.directives(heading, (), now)
        record.license = heading.license and locate(heading.license, record.entry.href)
        image = (record.content_type or "").startswith("image/")
        record.consent = stricter(heading.stated, of_directives(record.robots, "X-Robots-Tag", now, image=image))

    def refusal(self, record: PageRecord) -> Refusal | None:
        """Return why the page may not be used for the crawl's purpose; None if it may, or if the crawl has no stated
        purpose."""
        return refusal(record.consent, self._purpose, is_whole=record.status != NOT_MODIFIED)

    def obey(self, draft: Draft) -> None:
        """Drop a page that may not be used for the crawl's purpose. A page is also dropped if its elements, which may
        refuse the use, were not read, as those of errors."""
        record = draft.record
        if not self._purpose.uses:
            return
        if (refused := self.refusal(record)) is not None:
            dropped(draft, refused)
            return
        is_page = draft.location is None and record.status != NOT_MODIFIED and is_html(record.content_type)
        if draft.response is None or record.outcome is Outcome.FAILED or (is_page and not draft.is_page):
            draft.is_kept = False
        elif record.outcome is Outcome.FETCHED and 200 <= (record.status or 0) < 300:
            draft.unstated = not record.consent.keys() >= set(self._purpose.uses)

    def page(self, discovery: Discovery, draft: Draft, links: PageLinks) -> PageFacts:
        """Return the facts of the page with these links. The links in its headers are added."""
        record, heading, body = draft.record, draft.heading, draft.body
        assert body is not None
        href, stated = record.entry.href, heading.hrefs
        if draft.cut is not None and links.cut is None:
            links = replace(links, cut=draft.cut)
        challenge = challenge_by_markup(body, len(links.hrefs)) or login_page(href, record.entry.redirects, body)
        profile = self.describer.page(href, record.profile, links, discovery.canonical)
        robots = self.headings.directives(heading, links.metas, record.fetched_at)
        consent = record.consent
        if robots or links.metas:
            of_robots = of_directives(robots, "meta robots", record.fetched_at)
            consent = stricter(consent, of_robots, of_metas(links.metas))
        is_whole = links.cut is None and not links.truncated and is_html(record.content_type)
        needs = signs_of(body, len(links.hrefs), moves=bool(heading.refresh or links.refresh)) if is_whole else ()
        written = [*stated, *links.hrefs] if stated else links.hrefs
        if not self.headings.follows(robots):
            unfollowed = [*links.hrefs, *links.embedded, *links.unfollowed] if links.described is not None else []
            links = replace(links, hrefs=[], embedded=[], truncated=False, unfollowed=unfollowed)
        elif stated:
            links = replace(links, hrefs=[*discovery.resolve(href, stated), *links.hrefs])
        base, refresh = discovery.base(href, links.base), heading.refresh or links.refresh
        license = (links.license and locate(links.license, base)) or record.license
        return PageFacts(links, base, written, profile, robots, challenge, refresh, needs, consent, license)


def payload_digest(body: bytes) -> Generator[None, None, str]:
    """Return the digest of a body in the form of WARC-Payload-Digest. The work may be interrupted at each yield."""
    digest = hashlib.sha1(usedforsecurity=False)
    for at in range(0, len(body), _STEP):
        if at:
            yield
        digest.update(memoryview(body)[at : at + _STEP])
    return f"sha1:{b32encode(digest.digest()).decode()}"


def _first(result: Response, name: str) -> str | None:
    value = result.headers.get(name)
    if value is None:
        return None
    return clean(value if value.isascii() else result.values(name)[0], HEADER_MOST)


def links_that_lead_on(settings: Settings) -> LinkSettings:
    """Return the settings for reading links in this run. They include feeds if pages are revisited, and Markdown if it
    is wanted, and state whether texts and attributes of links are needed."""
    links, recrawl = settings.links, settings.recrawl
    feeds = recrawl.enabled and links.sitemaps
    more = ((FEED,) if feeds else ()) + ((MARKDOWN,) if MARKDOWN in settings.output.keep else ())
    links = replace(links, kinds=links.kinds + more) if more else links
    return DescribedLinks(*astuple(links)) if wants_edges(settings) else links
