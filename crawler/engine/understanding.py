"""Understanding: what an answer means for its URL, and what a page says, by its markup and the headers of its answer.
All of it depends on foreign bytes alone, and changes nothing."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from crawler.base.settings.parts import WHOLE, Settings
from crawler.engine.describing import Describer
from crawler.engine.discover import Discovery
from crawler.engine.heading import HeadingReader
from crawler.engine.judge import answer_of, judge, request_outcome
from crawler.frontier.entry import Entry
from crawler.frontier.traps.challenges import Challenge, challenge_by_markup, login_page
from crawler.job.records import Profile
from crawler.job.revisit import NOT_MODIFIED
from crawler.job.verdict import Again, Finished, Throttled, Verdict
from crawler.url.scope.store_choice import StoreChoice
from crawler.web.fetch import Failure, Response, is_html
from crawler.web.links.extract import PageLinks
from crawler.web.links.refresh import Refresh
from crawler.web.links.scripted import signs_of

PRECONDITION_FAILED = 412
UNASKED = "not modified, by an answer to a request without a condition"


class PageFacts(Struct, frozen=True):
    """What a page says. ``links`` are those to be followed, which are resolved against ``base``; ``written`` is all
    that it links to, as it is written. ``robots``: the directives for this crawler. ``challenge``: what bars the
    crawler from the page, if this is not the page. ``refresh``: where it sends its visitors. ``needs_scripts``: the
    signs that it needs its scripts."""

    links: PageLinks
    base: str
    written: Sequence[str]
    profile: Profile
    robots: tuple[str, ...]
    challenge: Challenge | None
    refresh: Refresh | None
    needs_scripts: tuple[str, ...]


class Understanding:
    """Understands the answers of one run."""

    def __init__(self, settings: Settings) -> None:
        self.retry = settings.retry
        self.headings = HeadingReader(settings)
        self.links = self.headings.links
        self.describer = Describer(settings.output)
        self.by_text = settings.recrawl.compare == "text"  # the text of a page says if it has changed
        # Which answers are kept as they came, if any are.
        self.keep = None if WHOLE.isdisjoint(settings.output.keep) else StoreChoice.of(settings.output)

    def verdict(
        self, entry: Entry, result: Response | Failure, now: float, is_compared: bool, conditional: bool
    ) -> Verdict:
        """Return what an exchange means for its URL. ``is_compared``: what it found is compared with what other visits
        find. ``conditional``: it was asked for only if it has changed."""
        if conditional and isinstance(result, Response) and result.status == PRECONDITION_FAILED:
            request = request_outcome(result)  # the next try has no conditions
            return Again(entry._replace(tries=entry.tries + 1), 0.0, f"status {result.status}", request)
        verdict = judge(entry, result, now, self.retry)
        if isinstance(verdict, Again):
            return verdict
        answer = answer_of(result, conditional=conditional) if is_compared else None
        if isinstance(verdict, Throttled):
            verdict = replace(verdict, answer=answer)
        elif isinstance(result, Response):
            if result.status == NOT_MODIFIED and not conditional:
                verdict = replace(verdict, record=replace(verdict.record, error=UNASKED))
            verdict = replace(verdict, answer=answer, response=result)
        return self.described(verdict, entry, result)

    def described(self, verdict: Verdict, entry: Entry, result: Response | Failure) -> Verdict:
        """Add to a record what the exchange says."""
        if isinstance(verdict, Finished):
            heading, record = self.headings.read(result), verdict.record
            robots = self.headings.directives(heading, (), record.fetched_at)
            record = self.describer.read(entry, result).of(record, robots)
            return replace(verdict, heading=heading, record=record, raw=result.raw)
        if isinstance(verdict, Throttled) and verdict.last is not None:
            return replace(verdict, last=self.describer.read(entry, result).of(verdict.last, ()))
        return verdict

    def page(self, discovery: Discovery, finished: Finished, links: PageLinks) -> PageFacts:
        """Return what the page with these links says. The links of its headers are added to its own."""
        record, heading, body = finished.record, finished.heading, finished.body
        assert body is not None
        href, stated = record.entry.href, heading.hrefs
        if finished.cut is not None and links.cut is None:
            links = replace(links, cut=finished.cut)
        challenge = challenge_by_markup(body, len(links.hrefs)) or login_page(href, record.entry.redirects, body)
        profile = self.describer.page(href, record.profile, links, discovery.canonical)
        robots = self.headings.directives(heading, links.metas, record.fetched_at)
        is_whole = links.cut is None and not links.truncated and is_html(record.content_type)
        needs = signs_of(body, len(links.hrefs), moves=bool(heading.refresh or links.refresh)) if is_whole else ()
        written = [*stated, *links.hrefs] if stated else links.hrefs
        if not self.headings.follows(robots):
            unfollowed = [*links.hrefs, *links.embedded, *links.unfollowed] if links.described is not None else []
            links = replace(links, hrefs=[], embedded=[], truncated=False, unfollowed=unfollowed)
        elif stated:
            links = replace(links, hrefs=[*discovery.resolve(href, stated), *links.hrefs])
        base, refresh = discovery.base(href, links.base), heading.refresh or links.refresh
        return PageFacts(links, base, written, profile, robots, challenge, refresh, needs)
