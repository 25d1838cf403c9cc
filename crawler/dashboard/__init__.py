"""The live page, and the same numbers for programs.

`listen` and `access` are pure (where to bind, who may look, who may change something). `guard` asks them before every
route, `token` keeps the token, `feed` says what is and what happened, `event_stream` carries it to the listeners,
`http_server` bounds connections, `server` has the routes, and the browser loads ``page/``. Everything shown comes from
one mapping, the one that ``stats --json`` prints.
"""

from crawler.dashboard.access import Access
from crawler.dashboard.feed import Feed
from crawler.dashboard.guard import json_body
from crawler.dashboard.http_server import Limits
from crawler.dashboard.job_list import JobList, Routes
from crawler.dashboard.listen import is_loopback, parse_listen
from crawler.dashboard.server import Dashboard, JobPage, LiveServer, page_file, stream
from crawler.dashboard.token import TOKEN, access_of, keep_token, spoken_of

__all__ = [
    "TOKEN",
    "Access",
    "Dashboard",
    "Feed",
    "JobList",
    "JobPage",
    "Limits",
    "LiveServer",
    "Routes",
    "access_of",
    "is_loopback",
    "json_body",
    "keep_token",
    "page_file",
    "parse_listen",
    "spoken_of",
    "stream",
]
