"""Access: who may look, and who may change something.

A route needs no code of its own for this: ``Guard`` runs before all of them and decides by the method and the route.

| | needs |
|---|---|
| ``OPEN``: the files of the page, which are the same for every crawl, ``/healthz``, ``/metrics`` | nothing |
| GET and HEAD of everything else: URLs, records, hosts, events | the token in the header, or the cookie |
| all other methods, which change something | the token in the header |

The job's files are readable by their owner alone (mode 0600), and a port of loopback by every user of the machine: so
the token is needed there too.

The link that is printed at the start is ``/?token=TOKEN``. The server answers it with the cookie and leads to
``/#token=TOKEN``: a browser does not send what follows ``#``. The page removes it from the address, keeps the token in
``sessionStorage``, which belongs to one origin, port included, and sends it with changes. So a cookie never permits a
change: the browser adds it by itself, also to requests that another page makes it send, and to those for other ports of
the same host, whose servers may be other users'. For that reason the cookie is not the token either. Its name has the
port, so that two dashboards on a host keep theirs. ``/`` itself needs no cookie, because browsers leave a strict one
out when they follow a link from elsewhere; its requests have it.

Requests that the browser marks as another site's (``Origin``, ``Sec-Fetch-Site``) are refused everywhere. On loopback,
so is a ``Host`` that is not a name of this machine, unless the user configured the token: a web page could point a name
of its own at 127.0.0.1 (DNS rebinding), and a proxy that keeps the Host needs a configured token.

A handler that changes something is added like any other and reads its body with ``json_body``::

    app.router.add_post("/api/urls", self._add)

    async def _add(self, request: web.Request) -> web.Response:
        asked = await json_body(request)  # answers 413, 415 and 400 by itself

The page sends ``Authorization: Bearer TOKEN`` and ``Content-Type: application/json``. An error under ``/api/`` is
``{"error": text}``.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping
from urllib.parse import quote, urlsplit

from msgspec import Struct

from crawler.service.dashboard.listen import is_loopback

LOOKING = frozenset({"GET", "HEAD"})
# Answered to any request with a valid Host: a supervisor learns that the crawl is alive, and no more.
HEALTH = "/healthz"
PAGE = "/"
# Routes that show no URL and no name of a host. In a list of jobs each job has them too.
OPEN = frozenset({PAGE, "/page/{name}", "/metrics", HEALTH})
_HOST = re.compile(r"(?P<name>\[[0-9a-f.]*:[0-9a-f:.]*\]|[0-9a-z._-]+)(?::(?P<port>[0-9]{0,5}))?")
_NEEDED = (
    "This dashboard needs its token. Open the link that was printed when it started; crawler dashboard JOB prints one,"
    " too. The token is in JOB/dashboard-token, unless the configuration gives another one. Programs send"
    " Authorization: Bearer TOKEN."
)


class Refusal(Struct, frozen=True):
    """Why a request is refused: the status and one line."""

    status: int
    text: str


class Access(Struct, frozen=True):
    """``any_host``: the dashboard has other names than those of loopback."""

    token: str
    any_host: bool = False

    def refusal(
        self, method: str, route: str, headers: Mapping[str, str], cookies: Mapping[str, str]
    ) -> Refusal | None:
        """Return None if the request may be answered. ``route``: the pattern that its path matches, or "".
        ``headers`` decides whether the case of names matters."""
        host = headers.get("Host", "")
        if not self.any_host and not names_this_machine(host):
            return Refusal(403, "This name does not belong to the dashboard.")
        if comes_from_another_site(headers, host):
            return Refusal(403, "The request comes from another site: open the dashboard's own address.")
        looks = method in LOOKING
        if (looks and route in OPEN) or self.is_token(bearer(headers.get("Authorization"))):
            return None
        if looks:
            return None if matches(self.cookie, cookies.get(cookie_name(host))) else Refusal(401, _NEEDED)
        return Refusal(401, "To change something, send Authorization: Bearer TOKEN, with the job's token.")

    def is_token(self, offered: str | None) -> bool:
        return matches(self.token, offered)

    @property
    def cookie(self) -> str:
        """The value of the cookie."""
        return hmac.new(self.token.encode(), b"crawler dashboard", hashlib.sha256).hexdigest()

    def query(self) -> str:
        """Return what carries the token in an address."""
        return f"token={quote(self.token, safe='')}"

    def link(self, url: str) -> str:
        """Return the address that lets a browser in."""
        return f"{url}?{self.query()}"


def cookie_name(host: str) -> str:
    """Return the name of the cookie for a Host header: the port is the one that the browser sees."""
    found = _HOST.fullmatch(host.lower())
    return f"crawler_dashboard_{(found and found['port']) or ''}"


def names_this_machine(host: str) -> bool:
    """Return whether a Host header is a name or address of loopback. The port is ignored: tunnels change it."""
    found = _HOST.fullmatch(host.lower())
    return found is not None and is_loopback(found["name"].strip("[]"))


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


def matches(secret: str, offered: str | None) -> bool:
    """Compare secrets in a time that does not depend on where they differ."""
    return offered is not None and hmac.compare_digest(secret.encode(), offered.encode(errors="surrogateescape"))


def bearer(header: str | None) -> str | None:
    """Return the token of an ``Authorization: Bearer`` header (RFC 6750, 2.1)."""
    scheme, _, credentials = (header or "").partition(" ")
    return credentials.strip() if scheme.lower() == "bearer" else None
