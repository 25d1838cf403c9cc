"""Challenge pages: responses with a success status that keep the crawler from the requested page.

    a challenge   a script, a puzzle or a proof of work that a browser must solve before the page is sent
    a denial      a firewall's notice that it blocked the request
    a login       a redirect led to a form, whose URL contains the address to return to after login

They are recognised by signs that no other page has: headers that vendors document for this purpose, or several pieces
of markup of one product together. A page recognised by markup must also have few links, and be small, have one of the
pieces in its head, or have no links. A page *about* a challenge shows the markup escaped, or is long, or has links. In
case of doubt it is treated as a page.

Challenges are never solved or evaded: the site does not want to be crawled this way, and the crawler slows down.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from urllib.parse import parse_qsl

from msgspec import Struct

BODY_MOST = 64 * 1024  # bytes; few challenges are longer, and a longer page is a challenge only with a sign in its head
READ_MOST = 1024 * 1024  # bytes searched at the start of a page; the search blocks the event loop
LINKS_MOST = 8  # maximum number of links of a challenge: to its vendor, to a help page


class Challenge(Struct, frozen=True):
    """The vendor of the challenge and the sign by which it was recognised.

    ``login`` is True for a login form of the site itself.
    """

    by: str
    sign: str
    login: bool = False

    @property
    def words(self) -> str:
        """Text for the ``error`` field of the record."""
        return f"{self.by}: {self.sign}"


LOGIN = Challenge("login", "a redirect led to a form with a password, whose URL says where to go after it", login=True)

# Header, its values, and the name of the challenge.
_HEADERS = (
    ("cf-mitigated", frozenset({"challenge"}), "challenge of Cloudflare"),
    ("x-amzn-waf-action", frozenset({"challenge", "captcha"}), "challenge of AWS WAF"),
)
WALL_HEADERS = frozenset(name for name, _, _ in _HEADERS)
# Markup that must all occur in one page. The first piece is the rarest, and at least one piece looks different in a
# page that merely shows the markup.
_MARKUP: tuple[tuple[str, tuple[bytes, ...]], ...] = (
    ("challenge of Cloudflare", (b"window._cf_chl_opt", b"/cdn-cgi/challenge-platform/", b"<title>Just a moment...<")),
    (
        "challenge of Anubis",
        (b'<script id="anubis_challenge" type="application/json">', b'<script id="anubis_version"'),
    ),
    ("challenge of AWS WAF", (b"window.gokuProps", b".awswaf.com/", b'/challenge.js"></script>')),
    ("challenge of DataDome", (b'src="https://ct.captcha-delivery.com/c.js"', b"var dd={", b"captcha-delivery.com'")),
    ("challenge of HUMAN", (b"window._pxAppId", b'id="px-captcha"')),
    ("challenge of Sucuri", (b"sucuri_cloudproxy_js", b"<title>You are being redirected...<")),
    ("denial of Imperva", (b"Incapsula incident ID", b'src="/_Incapsula_Resource?', b"Request unsuccessful.")),
)
_HEAD_END = re.compile(rb"</head|<body", re.I)
# Names of parameters that contain the address to return to after login.
_BACK = re.compile(
    r"next|continue|goto|destination|came_from|service|relaystate|back(_?url)?|return(_?to|_?url|_?path)?"
    r"|redirect(_?to|_?url|_?uri)?",
    re.I,
)
_PASSWORDS = (b'type="password"', b"type='password'", b"type=password")


def challenge_by_headers(values: Callable[[str], Sequence[str]]) -> Challenge | None:
    """Return the challenge that the response headers name, if any. ``values`` returns the values of a header."""
    for name, words, by in _HEADERS:
        said = values(name)
        if said and said[0].strip().lower() in words:
            return Challenge(by, f"{name}: {said[0].strip().lower()}")
    return None


def challenge_by_markup(body: bytes, links: int) -> Challenge | None:
    """Return the challenge recognised in the markup of a page with this number of links, or None."""
    if links > LINKS_MOST:
        return None
    is_long, body = len(body) > BODY_MOST, body[:READ_MOST]
    head = _HEAD_END.split(body, maxsplit=1)[0] if is_long and links else body
    for by, pieces in _MARKUP:
        if any(piece in head for piece in pieces) and all(piece in body for piece in pieces):
            return Challenge(by, f"its page has {pieces[0].decode('ascii')}")
    return None


def login_page(href: str, redirects: int, body: bytes) -> Challenge | None:
    """Return ``LOGIN`` if the page of the URL, reached by this number of consecutive redirects, is a login form."""
    query = href.partition("?")[2]
    if not redirects or not query:
        return None
    back = (value for name, value in parse_qsl(query) if _BACK.fullmatch(name))
    if not any(value.startswith(("/", "http://", "https://")) for value in back):
        return None
    form = body[:READ_MOST].lower()
    return LOGIN if any(field in form for field in _PASSWORDS) else None
