"""Sessions: a host whose turn has come keeps its turns for some pages, while others wait.

The connection, the look-up of the name and robots.txt then serve several pages, not one. (Heritrix calls it a session;
BUbiNG's workbench has the same effect.) A session begins when the host's turn comes. It ends after ten URLs, or when
the host's next turn would be later than a minute after the begin. The first session of a host has one page: every host
is met before any has its second session, also in runs that are short. A slow host has none: it would keep its slots
from new ones. But a robots.txt that was fetched always serves a page before the turn of its host is over. Nothing is
stored: after a restart no host is in a session.
"""

from __future__ import annotations

from crawler.frontier.host import Host
from crawler.frontier.slot_share import QUICK

PAGES = 10  # URLs of a session: a connection, a look-up and a robots.txt serve as many
_SECONDS = 60.0


class Sessions:
    """Which hosts are in a session."""

    def __init__(self) -> None:
        self.pages = PAGES  # URLs of a session
        self.quick = 0  # quick hosts in a session

    def begin(self, host: Host, now: float) -> None:
        """Begin a session at ``now``, unless the host is in one."""
        if not host.session_until:
            host.session_until = max(now, 0.0) + _SECONDS + 1e-9  # not 0
            host.session_pages = 0 if host.politeness.last_request else self.pages - 1
            self.quick += host.kind == QUICK

    def end(self, host: Host) -> None:
        """End the host's session, if it is in one."""
        if host.session_until:
            host.session_until = 0.0
            self.quick -= host.kind == QUICK

    def rate(self, host: Host, kind: int) -> None:
        """Note the kind of the host."""
        if host.session_until:
            self.quick += (kind == QUICK) - (host.kind == QUICK)
        host.kind = kind
