"""What a host asks of crawlers, as plain data: robots.txt by RFC 9309, and the directives of a page."""

from crawler.url.robots.directives import directives, forbids_links
from crawler.url.robots.parse import (
    ALLOW_ALL,
    DISALLOW_ALL,
    LINE_BYTES,
    SITEMAPS_MOST,
    Cut,
    RobotsRecordError,
    RobotsRules,
    parse_robots,
    product_token,
    robots_for_status,
    robots_url,
    unreachable,
)
from crawler.url.robots.path_patterns import STAR_BUDGET

__all__ = [
    "ALLOW_ALL",
    "DISALLOW_ALL",
    "LINE_BYTES",
    "SITEMAPS_MOST",
    "STAR_BUDGET",
    "Cut",
    "RobotsRecordError",
    "RobotsRules",
    "directives",
    "forbids_links",
    "parse_robots",
    "product_token",
    "robots_for_status",
    "robots_url",
    "unreachable",
]
