"""Why nobody can answer for a crawl."""

from __future__ import annotations

from crawler.base.faults import UserFault


class Unavailable(UserFault):
    """No running crawl can answer. The text is one line for the client."""


class Unreadable(Exception):
    """The job cannot be read. The text is one line for the client, without paths of this machine."""
