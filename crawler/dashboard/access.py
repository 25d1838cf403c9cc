"""Who may look.

Without a token the dashboard is on loopback, where every program of this machine may look; what must be kept out is
a web page in the user's browser. The same-origin policy does that, unless a name of the attacker's own is made to
lead to 127.0.0.1 (DNS rebinding); so only the names of this machine are accepted as Host.

With a token the Host may be any, since the machine may be known by many names: a rebinding page has no token,
and the cookie belongs to the name it was set under.
"""

from __future__ import annotations

import hashlib
import hmac

from crawler.dashboard.listen import is_loopback

COOKIE = "crawler_dashboard"


def host_allowed(header: str, token: str | None) -> bool:
    """Whether a request with this Host header is answered. The port does not matter: tunnels change it."""
    if token is not None:
        return True
    host, bracket, _ = header.partition("]")
    host = host.removeprefix("[") if bracket else header.rpartition(":")[0] or header
    return is_loopback(host.lower())


def cookie_value(token: str) -> str:
    """What the cookie holds: cookies do not keep ports apart, so the token itself stays out of it."""
    return hmac.new(token.encode(), b"crawler dashboard", hashlib.sha256).hexdigest()


def token_matches(token: str, offered: str | None) -> bool:
    return offered is not None and hmac.compare_digest(token.encode(), offered.encode(errors="surrogateescape"))


def bearer(header: str | None) -> str | None:
    """The token of an ``Authorization: Bearer`` header (RFC 6750, 2.1)."""
    scheme, _, credentials = (header or "").partition(" ")
    return credentials.strip() if scheme.lower() == "bearer" else None


def cookie_matches(token: str, offered: str | None) -> bool:
    return token_matches(cookie_value(token), offered)
