"""Walls: pages with a good status that bar the crawler from the page that it asked for.

    a challenge   a script, a puzzle or a proof of work, to be solved by a browser before the page is sent
    a denial      a firewall says that the request was not let through
    a login       the site redirected to a form, whose URL says where one goes after it

They are told by signs that no other page has: headers that the makers of the walls document for this purpose, or
several pieces of markup of one product together, on a page that has hardly any links, and is small, has one of them in
its head, or has no link. A page *about* a challenge shows its markup escaped, or is long, or has links. What is
not certain is a page.

Nothing is solved or evaded: the site does not want to be crawled so, and the crawler asks it more slowly.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from urllib.parse import parse_qsl

from msgspec import Struct

BODY_MOST = 64 * 1024  # bytes of most challenges; one that is longer is known by a sign in its head
READ_MOST = 1024 * 1024  # bytes at the beginning of a page that are searched: the event loop waits meanwhile
LINKS_MOST = 8  # of a challenge: to the maker of the challenge, to a help page


class Challenge(Struct, frozen=True):
    """What bars the crawler: whose challenge it is, and the sign of it. ``login``: a form of the site itself."""

    by: str
    sign: str
    login: bool = False

    @property
    def words(self) -> str:
        """The ``error`` of the record."""
        return f"{self.by}: {self.sign}"


LOGIN = Challenge("login", "a redirect led to a form with a password, whose URL says where to go after it", login=True)

# Headers, their values, whose they are.
_HEADERS = (
    ("cf-mitigated", frozenset({"challenge"}), "challenge of Cloudflare"),
    ("x-amzn-waf-action", frozenset({"challenge", "captcha"}), "challenge of AWS WAF"),
)
WALL_HEADERS = frozenset(name for name, _, _ in _HEADERS)
# Markup, all of it in one page: the first piece is the rarest, and one piece looks otherwise where it is only shown.
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
# Names of parameters that say where to go after a login.
_BACK = re.compile(
    r"next|continue|goto|destination|came_from|service|relaystate|back(_?url)?|return(_?to|_?url|_?path)?"
    r"|redirect(_?to|_?url|_?uri)?",
    re.I,
)
_PASSWORDS = (b'type="password"', b"type='password'", b"type=password")


def challenge_by_headers(values: Callable[[str], Sequence[str]]) -> Challenge | None:
    """The challenge that the headers of an answer name. ``values`` gives the values of a header."""
    for name, words, by in _HEADERS:
        said = values(name)
        if said and said[0].strip().lower() in words:
            return Challenge(by, f"{name}: {said[0].strip().lower()}")
    return None


def challenge_by_markup(body: bytes, links: int) -> Challenge | None:
    """The challenge that a page with so many links is."""
    if links > LINKS_MOST:
        return None
    is_long, body = len(body) > BODY_MOST, body[:READ_MOST]
    head = _HEAD_END.split(body, maxsplit=1)[0] if is_long and links else body
    for by, pieces in _MARKUP:
        if any(piece in head for piece in pieces) and all(piece in body for piece in pieces):
            return Challenge(by, f"its page has {pieces[0].decode('ascii')}")
    return None


def login_page(href: str, redirects: int, body: bytes) -> Challenge | None:
    """Whether the page of the URL, to which so many redirects in a row led, is a form to log in."""
    query = href.partition("?")[2]
    if not redirects or not query:
        return None
    back = (value for name, value in parse_qsl(query) if _BACK.fullmatch(name))
    if not any(value.startswith(("/", "http://", "https://")) for value in back):
        return None
    form = body[:READ_MOST].lower()
    return LOGIN if any(field in form for field in _PASSWORDS) else None
