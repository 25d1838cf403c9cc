"""Sessions: a host that has its turn keeps it for several pages while other hosts wait.

The connection, the name lookup and robots.txt then serve several pages, not one. (Heritrix calls it a session; BUbiNG's
workbench has the same effect.) A session starts when the host's turn comes. It ends after ten URLs, or when the host's
next turn would be more than a minute after the start. The first session of a host has one page, so that even a short
run reaches every host before any host gets a second session. Slow hosts have no sessions, because they would occupy
slots that new hosts need. After a host's robots.txt has been fetched, however, a page is always requested before the
host's turn ends. Nothing is stored: after a restart no host is in a session.
"""

from __future__ import annotations

from crawler.frontier.host import Host
from crawler.frontier.slot_share import QUICK

PAGES = 10  # URLs per session, which share a connection, a name lookup and a robots.txt
_SECONDS = 60.0


class Sessions:
    """Tracks which hosts are in a session."""

    def __init__(self) -> None:
        self.pages = PAGES  # maximum number of URLs in a session
        self.quick = 0  # number of quick hosts in a session

    def begin(self, host: Host, now: float) -> None:
        """Start a session at ``now``, unless the host is in one."""
        if not host.session_until:
            host.session_until = max(now, 0.0) + _SECONDS + 1e-9  # never 0, which means no session
            host.session_pages = 0 if host.politeness.last_request else self.pages - 1
            self.quick += host.kind == QUICK

    def end(self, host: Host) -> None:
        """End the host's session, if it is in one."""
        if host.session_until:
            host.session_until = 0.0
            self.quick -= host.kind == QUICK

    def rate(self, host: Host, kind: int) -> None:
        """Set the kind of the host."""
        if host.session_until:
            self.quick += (kind == QUICK) - (host.kind == QUICK)
        host.kind = kind
