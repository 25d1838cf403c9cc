"""Access control: who may read, and who may make changes.

The routes need no code for access control: ``Guard`` runs before all of them and decides by method and route.

| | needs |
|---|---|
| ``OPEN``: the files of the page, which are the same for every crawl, ``/healthz``, ``/metrics`` | nothing |
| GET and HEAD of everything else: URLs, records, hosts, events | the token in the header, or the cookie |
| all other methods, which make changes | the token in the header |

Only the owner can read the job's files (mode 0600), but every user of the machine can reach a loopback port, so the
token is required there too.

The link printed at the start is ``/?token=TOKEN``. The server answers it with the cookie and a redirect to
``/#token=TOKEN``: browsers do not send the part after ``#``. The page removes it from the address, keeps the token in
``sessionStorage``, which belongs to one origin including the port, and sends it with changes. A cookie alone never
permits a change: the browser also adds it to requests caused by other pages, and to requests for other ports of the
same host, whose servers may belong to other users. For that reason the cookie's value is not the token either. Its name
contains the port, so that two dashboards on a host do not overwrite each other's cookie. ``/`` itself needs no cookie,
because browsers omit a strict cookie when following a link from elsewhere; the page's own requests have it.

Requests that the browser marks as coming from another site (``Origin``, ``Sec-Fetch-Site``) are always refused. On
loopback, a ``Host`` that does not name this machine is refused too, unless the user configured the token: a web page
could point its own name at 127.0.0.1 (DNS rebinding). Behind a proxy that keeps the Host, the user must therefore
configure a token.

A handler that makes changes is added like any other and reads its body with ``json_body``::

    app.router.add_post("/api/urls", self._add)

    async def _add(self, request: web.Request) -> web.Response:
        asked = await json_body(request)  # answers 413, 415, 408 and 400 itself

The page sends ``Authorization: Bearer TOKEN`` and ``Content-Type: application/json``. An error under ``/api/`` is
``{"error": text}``.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import re
from collections.abc import Mapping
from urllib.parse import quote, urlsplit

from msgspec import Struct

from crawler.url.refusal.special_addresses import is_loopback

_LISTEN = re.compile(r"(?:(?P<host>\[[^\]]*\]|[^\[\]:]+):)?(?P<port>[0-9]{1,5})")


def parse_listen(text: str) -> tuple[str, int]:
    """Return host and port of ``[HOST:]PORT``. The default host is 127.0.0.1; port 0 means any free port.

    An IPv6 address is written in brackets, which are removed from the returned host. Raises ValueError with one line.
    """
    match = _LISTEN.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"dashboard address {text!r} is not [HOST:]PORT (an IPv6 host in brackets)")
    host, port = match["host"] or "127.0.0.1", int(match["port"])
    if port > 65_535:
        raise ValueError(f"dashboard port {port} is above 65535")
    if host.startswith("["):
        host = host[1:-1]
        try:
            ipaddress.IPv6Address(host)
        except ValueError:
            raise ValueError(f"dashboard host [{host}] is not an IPv6 address") from None
    return host, port


LOOKING = frozenset({"GET", "HEAD"})
# Open to any request with a valid Host, because this route only shows that the crawl is alive (to a supervisor).
HEALTH = "/healthz"
PAGE = "/"
# Routes that show no URLs or host names. In a list of jobs, each job also has these routes.
OPEN = frozenset({PAGE, "/page/{name}", "/metrics", HEALTH})
_HOST = re.compile(r"(?P<name>\[[0-9a-f.]*:[0-9a-f:.]*\]|[0-9a-z._-]+)(?::(?P<port>[0-9]{0,5}))?")
_NEEDED = (
    "This dashboard needs its token. Open the link printed when it started, or one printed by crawler dashboard JOB."
    " The token is in JOB/dashboard-token, unless the configuration sets another one. Programs send"
    " Authorization: Bearer TOKEN."
)


class Refusal(Struct, frozen=True):
    """The refusal of a request: the HTTP status and a one-line text."""

    status: int
    text: str


class Access(Struct, frozen=True):
    """``any_host`` is True if the dashboard also has names other than those of loopback."""

    token: str
    any_host: bool = False

    def refusal(
        self, method: str, route: str, headers: Mapping[str, str], cookies: Mapping[str, str]
    ) -> Refusal | None:
        """Return None if the request is allowed. ``route`` is the pattern that matches its path, or "". ``headers``
        decides whether header names are case-sensitive."""
        host = headers.get("Host", "")
        if not self.any_host and not names_this_machine(host):
            return Refusal(403, "The Host header does not name this dashboard.")
        if comes_from_another_site(headers, host):
            return Refusal(403, "The request comes from another site: open the dashboard's own address.")
        looks = method in LOOKING
        if (looks and route in OPEN) or self.is_token(bearer(headers.get("Authorization"))):
            return None
        if looks:
            return None if matches(self.cookie, cookies.get(cookie_name(host))) else Refusal(401, _NEEDED)
        return Refusal(401, "To make changes, send Authorization: Bearer TOKEN, with the job's token.")

    def is_token(self, offered: str | None) -> bool:
        return matches(self.token, offered)

    @property
    def cookie(self) -> str:
        """The value of the cookie."""
        return hmac.new(self.token.encode(), b"crawler dashboard", hashlib.sha256).hexdigest()

    def query(self) -> str:
        """Return the query parameter with the token."""
        return f"token={quote(self.token, safe='')}"

    def link(self, url: str) -> str:
        """Return the address that authorises a browser."""
        return f"{url}?{self.query()}"


def cookie_name(host: str) -> str:
    """Return the name of the cookie for a Host header, whose port is the one the browser sees."""
    found = _HOST.fullmatch(host.lower())
    return f"crawler_dashboard_{(found and found['port']) or ''}"


def names_this_machine(host: str) -> bool:
    """Return True if a Host header is a loopback name or address. The port is ignored: tunnels change it."""
    found = _HOST.fullmatch(host.lower())
    return found is not None and is_loopback(found["name"].strip("[]"))


def comes_from_another_site(headers: Mapping[str, str], host: str) -> bool:
    """Return True if the browser marks the request as coming from another site's page. Following a link from there is
    allowed.

    https://fetch.spec.whatwg.org/#origin-header, https://www.w3.org/TR/fetch-metadata/. The scheme is ignored: behind a
    TLS proxy it differs.
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
    """Compare secrets in constant time."""
    return offered is not None and hmac.compare_digest(secret.encode(), offered.encode(errors="surrogateescape"))


def bearer(header: str | None) -> str | None:
    """Return the token of an ``Authorization: Bearer`` header (RFC 6750, 2.1)."""
    scheme, _, credentials = (header or "").partition(" ")
    return credentials.strip() if scheme.lower() == "bearer" else None
