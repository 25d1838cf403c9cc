"""robots.txt by RFC 9309, as plain data: bytes in, rules out.

A group belongs to the agents on the lines directly above its rules. Groups of one agent are merged. ``*`` counts only
if no group names the crawler. Sitemap, Crawl-delay and unknown lines neither end a list of agents nor start a group
(RFC 9309, 2.2.4; Google does the same); a Crawl-delay counts for the agents above it. Statements of consent belong to a
group like rules do (``crawler.url.consent.statements``). Only lines that concern this crawler are kept. Time and
memory are linear in the bytes read, which are bounded.
"""

from __future__ import annotations

import codecs
import math
import re
import sys
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from crawler.url.consent.statements import PathStatements, robots_statements
from crawler.url.robots.path_patterns import Patterns

LINE_BYTES = 16_664  # maximum line length, as in Google's parser: eight times the longest URL of some browsers
SITEMAPS_MOST = 1_000  # sitemaps kept from one robots.txt
LICENSES_MOST = 15  # licenses kept from one robots.txt: each costs a request

_TOKEN = re.compile(r"[A-Za-z0-9_.-]+")
_COMPATIBLE = re.compile(r"Mozilla/[^(]*\([^;]*compatible;\s*([A-Za-z0-9_.-]+)")
_MARK = re.compile("\xef(?:\xbb\xbf?)?")  # a byte order mark, or the start of one
_WIDE = (  # UTF-32 first, because one of its marks starts with a UTF-16 mark
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
# A line with a known key or a common misspelling. The colon may be missing, except for keys in the second line.
_LINE = re.compile(
    r"""^[ \t\0]*+
    (?: (user[ -]?agent | allow | dis{1,2}al{1,2}ow | diasllow | disallaw | crawl[ -]?delay) (?: [ \t]*+ : | [ \t]++ )
      | (site-?map | content-(?:signal|usage) | license) [ \t]*+ : )
    [ \t\0]*+ ([^\n#]*+)""",
    re.IGNORECASE | re.MULTILINE | re.VERBOSE | re.ASCII,
)
MAX_BYTES = 512_000  # bytes read of a robots.txt; RFC 9309 asks for at least 500 KiB
_LONG_LINE = re.compile("^([^\n]{%d})[^\n]++" % (LINE_BYTES - 1), re.MULTILINE)  # noqa: UP031, braces
_BLANK = " \t\0"


class RobotsRecordError(ValueError):
    """The stored bytes are not a robots record."""


class Cut(StrEnum):
    """Why a part of a robots.txt was left out, as text."""

    BYTES = "it is longer than 500 KiB"
    LINES = f"lines are cut at {LINE_BYTES:,} bytes"
    PATTERNS = "it has more patterns with * than can be matched in time"
    SITEMAPS = f"it lists more than {SITEMAPS_MOST:,} sitemaps"
    LICENSES = f"it names more than {LICENSES_MOST} licenses"


class RobotsRules(Struct, frozen=True):
    """The rules of one host for one crawler. ``crawl_delay``: seconds between two requests. ``sitemaps`` and
    ``licenses`` are for all crawlers: URLs as written."""

    patterns: Patterns | None
    otherwise: bool = True
    crawl_delay: float | None = None
    sitemaps: tuple[str, ...] = ()
    licenses: tuple[str, ...] = ()
    statements: tuple[PathStatements, ...] = ()
    cut: tuple[Cut, ...] = ()

    @property
    def size(self) -> int:
        """The memory in bytes, without the statements."""
        own = sum(map(sys.getsizeof, (self, self.sitemaps, *self.sitemaps, *self.licenses)))
        return own if self.patterns is None else own + self.patterns.size

    def allowed(self, href: str) -> bool:
        """Return True if an absolute http or https URL of this host may be fetched; ``/robots.txt`` always may be."""
        target = target_of(href)
        if target.partition("?")[0] == "/robots.txt":
            return True
        return self.otherwise if self.patterns is None else self.patterns.allow(target)


ALLOW_ALL = RobotsRules(None)
DISALLOW_ALL = RobotsRules(None, otherwise=False)


def parse_robots(body: bytes, user_agent: str, max_bytes: int = MAX_BYTES) -> RobotsRules:
    """Parse a robots.txt for the crawler that sends ``user_agent``.

    Accepts any bytes and never raises. At most ``max_bytes`` are read. A line cut by that limit is dropped, since half
    a path would be a different rule.
    """
    cut = list[Cut]()
    head = _narrow(body[:max_bytes])[:max_bytes]
    if len(body) >= max_bytes or len(head) == max_bytes:
        head = head[: max(head.rfind(b"\n"), head.rfind(b"\r")) + 1]
        cut.append(Cut.BYTES)
    text = head.decode("latin-1")  # one character per byte
    mark = _MARK.match(text)
    text = text[0 if mark is None else mark.end() :].replace("\r", "\n")
    while "\n\n" in text:
        text = text.replace("\n\n", "\n")
    text, long_lines = _LONG_LINE.subn(r"\1", text)
    if long_lines:
        cut.append(Cut.LINES)
    rules = _own_group(text, product_token(user_agent).lower())
    cut += rules.cut
    if len(rules.sitemaps) > SITEMAPS_MOST:
        cut.append(Cut.SITEMAPS)
    if len(rules.licenses) > LICENSES_MOST:
        cut.append(Cut.LICENSES)
    sitemaps, licenses = rules.sitemaps[:SITEMAPS_MOST], rules.licenses[:LICENSES_MOST]
    return replace(rules, sitemaps=sitemaps, licenses=licenses, cut=tuple(cut))


def _narrow(body: bytes) -> bytes:
    """Return the file in UTF-8: a file that starts with another byte order mark is converted."""
    codec = next((codec for mark, codec in _WIDE if body.startswith(mark)), None)
    return body if codec is None else body.decode(codec, "replace").encode()


def robots_for_status(status: int, body: bytes | None, user_agent: str) -> RobotsRules:
    """Return the rules that follow from the response to the robots.txt request (RFC 9309, 2.3.1).

    2xx: the rules of the file. Unreachable: everything is disallowed until the file can be read. 4xx: there is no file,
    so everything is allowed; likewise for a 3xx that remains after five redirects or has no target.
    """
    if 200 <= status < 300:
        return parse_robots(body or b"", user_agent)
    return DISALLOW_ALL if unreachable(status) else ALLOW_ALL


def unreachable(status: int) -> bool:
    """Return True if a status reveals nothing about robots.txt, not even that there is none: 5xx, 429, and invalid
    statuses."""
    return status == 429 or not 200 <= status < 500


def product_token(user_agent: str) -> str:
    """Return the crawler's name in robots.txt: ``crawler`` for ``crawler/0.1 (+https://example.com)``.

    For a browser-like ``Mozilla/5.0 (compatible; name/1.0)``, return ``name``. Empty if there is none.
    """
    found = _COMPATIBLE.match(user_agent)
    if found is not None:
        return found[1]
    plain = _TOKEN.match(user_agent)
    return "" if plain is None else plain[0]


def robots_url(href: str) -> str:
    """Return the robots.txt URL for an absolute http or https URL: same scheme, host and port."""
    scheme, _, rest = href.partition("://")
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
    return f"{scheme}://{authority.rpartition('@')[2]}/robots.txt"


def target_of(href: str) -> str:
    """Return the path and query of an absolute URL."""
    start = href.find("/", href.find("://") + 3)
    return "/" if start < 0 else href[start:].partition("#")[0]


def _own_group(text: str, token: str) -> RobotsRules:
    """Return everything that applies to ``token``. Lines end with LF."""
    # The rule lines in order, for groups that name the crawler (True) and for ``*`` (False).
    groups: dict[bool, dict[tuple[str, str], None]] = {True: {}, False: {}}
    sitemaps: dict[str, None] = {}
    licenses: dict[str, None] = {}
    own = in_agents = False
    named: set[bool] = set()  # groups that the agents above the line name
    for key, other, value in _LINE.findall(text):
        kind = (key or other).lower()
        if kind.startswith(("site", "license")):
            urls = licenses if kind == "license" else sitemaps
            if (url := _url(value)) and len(urls) <= SITEMAPS_MOST:
                urls[url] = None
        elif kind.startswith("user"):
            if not in_agents:
                named, in_agents = set(), True
            if value[:1] == "*" and not value[1:2].strip():
                named.add(False)
            elif token and _agent_token(value) == token:
                named.add(True)
                own = True
        else:
            in_agents = in_agents and kind.startswith("crawl")
            for group in named:
                groups[group][kind, value] = None
    lines = [(kind, value.strip(_BLANK)) for kind, value in groups[own]]
    rules = [(kind == "allow", value) for kind, value in lines if value and kind[0] in "ad"]
    delays = [second for kind, value in lines if kind.startswith("crawl") for second in _seconds(value)]
    stated = [(kind, value) for kind, value in lines if kind.startswith("content")]
    patterns, statements = Patterns(rules), robots_statements(stated)
    cut = (Cut.PATTERNS,) if patterns.cut else ()
    delay = max(delays, default=None)
    return RobotsRules(patterns or None, True, delay, tuple(sitemaps), tuple(licenses), statements, cut)


def _url(value: str) -> str:
    return value.strip(_BLANK).encode("latin-1").decode("utf-8", "replace")


def _agent_token(value: str) -> str | None:
    found = _TOKEN.match(value)
    return None if found is None else found[0].lower()


def _seconds(value: str) -> list[float]:
    try:
        seconds = float(value)
    except ValueError:
        return []
    return [seconds] if math.isfinite(seconds) and seconds >= 0 else []
