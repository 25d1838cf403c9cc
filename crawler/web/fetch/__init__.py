"""One HTTP exchange: an href goes in, a ``Response`` or a ``Failure`` comes out.

All outcomes of servers and networks are values; exceptions are bugs. Nothing here delays or repeats requests, or
follows redirects: the frontier and the crawl decide about that when they get the result. (Only ``fetch_robots`` follows
redirects, as RFC 9309 requires.)
"""

import crawler.web.fetch.late_authorities  # noqa: F401, before anything imports aiohttp
from crawler.web.fetch.fetcher import ACCEPT_MARKDOWN, Fetcher, is_html
from crawler.web.fetch.outcome import Failure, FailureKind, Fetches, Keeps, RawExchange, Response, Through, Truncation
from crawler.web.fetch.patience import OwnDelays
from crawler.web.fetch.request_profiles import check_access
from crawler.web.fetch.robots_fetch import Followed, NotNow, RobotsResult, ask_robots, fetch_robots
from crawler.web.fetch.secret import SecretText, read_secret, with_own

__all__ = [
    "ACCEPT_MARKDOWN",
    "Failure",
    "FailureKind",
    "Fetcher",
    "Fetches",
    "Followed",
    "Keeps",
    "NotNow",
    "OwnDelays",
    "RawExchange",
    "Response",
    "RobotsResult",
    "SecretText",
    "Through",
    "Truncation",
    "ask_robots",
    "check_access",
    "fetch_robots",
    "is_html",
    "read_secret",
    "with_own",
]
