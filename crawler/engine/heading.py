"""Reads what the headers of an answer say of the page: robots directives, and links."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import astuple, replace

from crawler.base.settings import DescribedLinks, LinkSettings, Settings
from crawler.frontier.traps import WALL_HEADERS, wall_by_headers
from crawler.job.verdict import NO_HEADING, Heading
from crawler.url.robots import directives, forbids_links, product_token
from crawler.web.fetch import Failure, Response
from crawler.web.links import FEED, header_links

_TELLING = frozenset(("x-robots-tag", "link", "refresh")) | WALL_HEADERS


class HeadingReader(Struct, frozen=True):
    """Reads headings, for the crawler with the product token ``agent``."""

    links: LinkSettings
    agent: str

    @classmethod
    def of(cls, settings: Settings) -> HeadingReader:
        return cls(links_that_lead_on(settings), product_token(settings.fetch.user_agent))

    def read(self, result: Response | Failure) -> Heading:
        """Return what the headers say."""
        if isinstance(result, Failure):
            return NO_HEADING
        if _TELLING.isdisjoint(map(str.lower, result.headers)):
            return NO_HEADING
        tags, links, refresh = (result.values(name) for name in ("X-Robots-Tag", "Link", "Refresh"))
        wall = wall_by_headers(result.values)
        if not 200 <= result.status < 300:
            return Heading(tags)
        return Heading(tags, tuple(header_links(links, refresh[0] if refresh else None, self.links)), wall)

    def directives(self, heading: Heading, metas: tuple[tuple[str, str], ...], now: float) -> tuple[str, ...]:
        """Return the directives of headers and page."""
        return directives(heading.tags, metas, self.agent, now) if heading.tags or metas else ()

    def follows(self, names: tuple[str, ...]) -> bool:
        """Return whether the links of a page with these directives are followed."""
        return not (names and self.links.respect_meta_robots and forbids_links(names))


def links_that_lead_on(settings: Settings) -> LinkSettings:
    """Return which links are followed in this run: also those to feeds if pages are visited again; and
    whether they are wanted with what the page says of them."""
    links, recrawl = settings.links, settings.recrawl
    feeds = recrawl.enabled and recrawl.feeds and links.sitemaps
    links = replace(links, kinds=(*links.kinds, FEED)) if feeds else links
    described = "links" in settings.output.keep or settings.hooks.of_links
    return DescribedLinks(*astuple(links)) if described else links
