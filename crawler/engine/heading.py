"""Reads what the headers of an answer say of the page: robots directives, and links."""

from __future__ import annotations

from msgspec.structs import astuple, replace

from crawler.base.settings.parts import DescribedLinks, LinkSettings, Settings
from crawler.frontier.traps.challenges import WALL_HEADERS, challenge_by_headers
from crawler.job.verdict import NO_HEADING, Heading
from crawler.url.robots.directives import directives, forbids_links
from crawler.url.robots.parse import product_token
from crawler.web.fetch import Failure, Response
from crawler.web.links.headers import FEED, MARKDOWN, header_links
from crawler.web.links.refresh import parse_refresh

_TELLING = frozenset(("x-robots-tag", "link", "refresh")) | WALL_HEADERS


class HeadingReader:
    """Reads headings."""

    def __init__(self, settings: Settings) -> None:
        self.links = links_that_lead_on(settings)
        self._agent = product_token(settings.fetch.user_agent)

    def read(self, result: Response | Failure) -> Heading:
        """Return what the headers say."""
        if isinstance(result, Failure):
            return NO_HEADING
        if _TELLING.isdisjoint(map(str.lower, result.headers)):
            return NO_HEADING
        tags, links, refresh = (result.values(name) for name in ("X-Robots-Tag", "Link", "Refresh"))
        challenge = challenge_by_headers(result.values)
        if not 200 <= result.status < 400 or result.location is not None:
            return Heading(tags)
        stated = refresh[0] if refresh else None
        moves = parse_refresh(stated) if stated and "refresh" in self.links.kinds else None
        return Heading(tags, tuple(header_links(links, stated, self.links)), challenge, moves)

    def directives(self, heading: Heading, metas: tuple[tuple[str, str], ...], now: float) -> tuple[str, ...]:
        """Return the directives of headers and page."""
        return directives(heading.tags, metas, self._agent, now) if heading.tags or metas else ()

    def follows(self, names: tuple[str, ...]) -> bool:
        """Return whether the links of a page with these directives are followed."""
        return not (names and self.links.respect_meta_robots and forbids_links(names))


def wants_edges(settings: Settings) -> bool:
    """Return whether links are wanted with what the page says of them: for an output, or for code of the user."""
    return "links" in settings.output.keep or settings.hooks.of_links


def links_that_lead_on(settings: Settings) -> LinkSettings:
    """Return which links are followed in this run: also those to feeds if pages are visited again, and to Markdown if
    it is wanted; and whether they are wanted with what the page says of them."""
    links, recrawl = settings.links, settings.recrawl
    feeds = recrawl.enabled and links.sitemaps
    more = ((FEED,) if feeds else ()) + ((MARKDOWN,) if MARKDOWN in settings.output.keep else ())
    links = replace(links, kinds=links.kinds + more) if more else links
    return DescribedLinks(*astuple(links)) if wants_edges(settings) else links
