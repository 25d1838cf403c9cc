"""Access: who may look, and who may change something.

A route needs no code of its own for this: ``Guard`` runs before all of them and decides by the method.

| | on loopback, no token configured | on another host, or a token configured |
|---|---|---|
| GET, HEAD (look) | every program on this machine | the token: header, cookie or ``?token=`` |
| all others (change something) | the token in the header | the token in the header |

On loopback, the attacker is a web page in the user's browser. The same-origin policy does not let it read, unless the
attacker makes a name of their own lead to 127.0.0.1 (DNS rebinding); so only the names of this machine are accepted as
``Host``. The page could still send. So requests that the browser marks as another site's (``Origin``,
``Sec-Fetch-Site``) are refused, even those that only look, because an event stream takes a listener's place.

A cookie never permits a change: the browser adds it by itself, also to requests that another page makes it send, and
cookies do not keep ports apart. If looking needs the token, any Host is accepted, since the machine may have many
names: a rebinding page has no token, and the cookie belongs to the name under which it was set.

A handler that changes something is added like any other and reads its body with ``json_body``::

    app.router.add_post("/api/urls", self._add)

    async def _add(self, request: web.Request) -> web.Response:
        asked = await json_body(request)  # answers 413, 415 and 400 by itself

The page sends ``Authorization: Bearer TOKEN`` and ``Content-Type: application/json``. It gets the token from the
address that is printed at the start, ``/#token=TOKEN`` (``/?token=TOKEN`` if looking needs it too), and keeps it in
``sessionStorage``, which belongs to one origin, port included. An error under ``/api/`` is ``{"error": text}``.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from urllib.parse import quote, urlsplit

from msgspec import Struct

from crawler.service.dashboard.listen import is_loopback

COOKIE = "crawler_dashboard"
LOOKING = frozenset({"GET", "HEAD"})
# Answered without a token to any request with a valid Host: a supervisor learns that the crawl is alive, and no more.
HEALTH = "/healthz"


class Refusal(Struct, frozen=True):
    """Why a request is refused: the status and one line."""

    status: int
    text: str


class Access(Struct, frozen=True):
    """``token`` is required for changes, and with ``to_look`` for everything. If it is None, nothing can be changed."""

    token: str | None = None
    to_look: bool = False

    def refusal(
        self, method: str, path: str, headers: Mapping[str, str], query: Mapping[str, str], cookies: Mapping[str, str]
    ) -> Refusal | None:
        """Return None if the request may be answered. ``headers`` decides whether the case of names matters."""
        host = headers.get("Host", "")
        if not self.to_look and not names_this_machine(host):
            return Refusal(403, "This name does not belong to the dashboard.")
        if comes_from_another_site(headers, host):
            return Refusal(403, "The request comes from another site: open the dashboard's own address.")
        offered = bearer(headers.get("Authorization"))
        if method not in LOOKING:
            if self.token is None:
                return Refusal(403, "This dashboard cannot change anything: it has no token.")
            if not token_matches(self.token, offered):
                return Refusal(401, "To change something, send Authorization: Bearer TOKEN, with the job's token.")
            return None
        if not self.to_look or self.token is None or path == HEALTH:
            return None
        if (
            token_matches(self.token, offered)
            or token_matches(self.token, query.get("token"))
            or cookie_matches(self.token, cookies.get(COOKIE))
        ):
            return None
        return Refusal(
            401, "The dashboard needs its token: open /?token=TOKEN once, or send Authorization: Bearer TOKEN."
        )

    def link(self, url: str) -> str:
        """Return the address for a browser that may also change something. A fragment is not sent to the server."""
        if self.token is None:
            return url
        return f"{url}{'?' if self.to_look else '#'}token={quote(self.token, safe='')}"


def names_this_machine(header: str) -> bool:
    """Return whether a Host header is a name or address of loopback. The port is ignored: tunnels change it."""
    host, bracket, _ = header.partition("]")
    host = host.removeprefix("[") if bracket else header.rpartition(":")[0] or header
    return is_loopback(host.lower())


def comes_from_another_site(headers: Mapping[str, str], host: str) -> bool:
    """Return whether the browser says that the request comes from another site's page. Following a link to us does not
    count.

    https://fetch.spec.whatwg.org/#origin-header, https://www.w3.org/TR/fetch-metadata/. The scheme is ignored: behind a
    TLS proxy it is the proxy's.
    """
    origin = headers.get("Origin")
    if origin is not None and urlsplit_host(origin) != host.lower():
        return True
    followed = headers.get("Sec-Fetch-Mode") == "navigate" and headers.get("Sec-Fetch-Dest") == "document"
    return headers.get("Sec-Fetch-Site", "none") not in ("same-origin", "none") and not followed


def urlsplit_host(origin: str) -> str:
    """Return host and port of an Origin; empty for ``null`` and anything malformed."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""


def cookie_value(token: str) -> str:
    """Return the value of the cookie. It is not the token itself, because cookies do not keep ports apart."""
    return hmac.new(token.encode(), b"crawler dashboard", hashlib.sha256).hexdigest()


def token_matches(token: str, offered: str | None) -> bool:
    """Compare tokens in a time that does not depend on where they differ."""
    return offered is not None and hmac.compare_digest(token.encode(), offered.encode(errors="surrogateescape"))


def bearer(header: str | None) -> str | None:
    """Return the token of an ``Authorization: Bearer`` header (RFC 6750, 2.1)."""
    scheme, _, credentials = (header or "").partition(" ")
    return credentials.strip() if scheme.lower() == "bearer" else None


def cookie_matches(token: str, offered: str | None) -> bool:
    return token_matches(cookie_value(token), offered)
