"""robots.txt by RFC 9309, as plain data: bytes in, rules out.

This module selects the groups for one crawler, in time linear in the size of the file. A group belongs to the agents
on the lines right above its rules. Groups of one agent are merged. ``*`` counts only if no group names the crawler.
Sitemap lines and unknown lines neither end a list of agents nor start a group. Protego then matches paths against the
selected rules: ``*`` and a final ``$`` are wildcards, percent-encoding is normalised on both sides, the longest pattern
wins, and Allow wins a tie. (Protego alone multiplies rules by agents: 15,000 lines of each, which fit in the size
limit, would make 225 million rules. It also compares the whole agent line, such as "crawler 0.1".)
"""

from __future__ import annotations

import math
import re

from protego import Protego

_LINE_END = re.compile(r"\r\n|\r|\n")
_TOKEN = re.compile(r"[A-Za-z0-9_.-]+")
_COMPATIBLE = re.compile(r"Mozilla/[^(]*\([^;]*compatible;\s*([A-Za-z0-9_.-]+)")
# Characters that Protego would take for line ends.
_ODD_LINE_END = re.compile("[\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029]")

_SITEMAP = re.compile(r"(?:\A|[\r\n])[ \t\0]*+site-?map[ \t]*+:([^\r\n#]*)", re.IGNORECASE)

SITEMAPS_MOST = 1_000  # taken from one robots.txt

_AGENT = frozenset(("user-agent", "useragent", "user agent"))
_ALLOW = frozenset(("allow",))
_DISALLOW = frozenset(("disallow", "dissallow", "dissalow", "disalow", "diasllow", "disallaw"))
_DELAY = frozenset(("crawl-delay", "crawldelay", "crawl delay"))
_KNOWN = _AGENT | _ALLOW | _DISALLOW | _DELAY


class RobotsRecordError(ValueError):
    """Stored bytes are not a robots record."""


class RobotsRules:
    """The rules of one host for one crawler."""

    __slots__ = ("_otherwise", "_patterns", "crawl_delay", "sitemaps")

    def __init__(
        self,
        patterns: Protego | None,
        *,
        otherwise: bool = True,
        crawl_delay: float | None = None,
        sitemaps: tuple[str, ...] = (),
    ) -> None:
        self._patterns = patterns
        self._otherwise = otherwise
        self.sitemaps = sitemaps  # of the host, as written, for all crawlers
        self.crawl_delay = crawl_delay  # seconds between two requests; None if not given

    def allowed(self, href: str) -> bool:
        """Whether an absolute http or https URL of this host may be fetched; ``/robots.txt`` always may be."""
        target = _target(href)
        if target.partition("?")[0] == "/robots.txt":
            return True
        if self._patterns is None:
            return self._otherwise
        # Rules never see the host, so a dummy host takes its place.
        return bool(self._patterns.can_fetch("http://h" + target, "*"))


ALLOW_ALL = RobotsRules(None)
DISALLOW_ALL = RobotsRules(None, otherwise=False)


def parse_robots(body: bytes, user_agent: str, max_bytes: int) -> RobotsRules:
    """The rules of a robots.txt for the crawler that sends ``user_agent``.

    It accepts any bytes and never raises. At most ``max_bytes`` are read. A line cut by that limit is dropped, since
    half a path would be a different rule.
    """
    head = body[:max_bytes]
    if len(body) >= max_bytes:
        head = head[: max(head.rfind(b"\n"), head.rfind(b"\r")) + 1]
    text = head.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace")
    rules, delays = _own_group(text, product_token(user_agent).lower())
    crawl_delay = max(delays, default=None)
    sitemaps = _sitemaps(text)
    if not rules and not sitemaps and crawl_delay is None:
        return ALLOW_ALL
    patterns = Protego.parse("\n".join(["User-agent: *", *rules])) if rules else None
    return RobotsRules(patterns, crawl_delay=crawl_delay, sitemaps=sitemaps)


def robots_for_status(status: int, body: bytes | None, user_agent: str, max_bytes: int) -> RobotsRules:
    """The rules that follow from the answer to the request for robots.txt (RFC 9309, 2.3.1).

    2xx: the rules of the file. 4xx: there is no file, so everything is allowed; likewise for a 3xx that remains after
    five redirects or has no target. 5xx and anything else: everything is forbidden until the file can be read.
    """
    if 200 <= status < 300:
        return parse_robots(body or b"", user_agent, max_bytes)
    return ALLOW_ALL if 300 <= status < 500 else DISALLOW_ALL


def product_token(user_agent: str) -> str:
    """The crawler's name in robots.txt: ``crawler`` for ``crawler/0.1 (+https://example.com)``.

    For a browser-like ``Mozilla/5.0 (compatible; name/1.0)`` it is ``name``. Empty if there is none.
    """
    found = _COMPATIBLE.match(user_agent)
    if found is not None:
        return found[1]
    plain = _TOKEN.match(user_agent)
    return "" if plain is None else plain[0]


def robots_url(href: str) -> str:
    """The URL of the robots.txt for an absolute http or https URL: same scheme, host and port."""
    scheme, _, rest = href.partition("://")
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
    return f"{scheme}://{authority.rpartition('@')[2]}/robots.txt"


def _target(href: str) -> str:
    """Path and query of an absolute URL."""
    start = href.find("/", href.find("://") + 3)
    return "/" if start < 0 else href[start:].partition("#")[0]


def _own_group(text: str, token: str) -> tuple[list[str], list[float]]:
    """The rule lines (distinct, normalised) and crawl delays (seconds) that apply to ``token``."""
    rules: dict[bool, dict[str, None]] = {True: {}, False: {}}  # by whether the group names the crawler, or ``*``
    delays: dict[bool, list[float]] = {True: [], False: []}
    named = False
    groups: set[bool] = set()
    in_agents = False
    for line in _LINE_END.split(text):
        directive = _directive(line)
        if directive is None:
            continue
        key, value = directive
        if key in _AGENT:
            if not in_agents:
                groups = set()
                in_agents = True
            if value == "*":
                groups.add(False)
            elif token and _agent_token(value) == token:
                groups.add(True)
                named = True
            continue
        in_agents = False
        for group in groups:
            if key in _DELAY:
                delays[group] += _seconds(value)
            elif value:
                rules[group][f"{'Allow' if key in _ALLOW else 'Disallow'}: {value}"] = None
    return list(rules[named]), delays[named]


def _directive(line: str) -> tuple[str, str] | None:
    """(key in lower case, value); None for an unknown key. A missing colon is tolerated."""
    stated = line.partition("#")[0].strip(" \t\0")
    key, colon, value = stated.partition(":")
    key = key.strip(" \t").lower()
    if not colon or key not in _KNOWN:
        words = stated.split(None, 1)
        if len(words) < 2 or words[0].lower() not in _KNOWN:
            return None
        key, value = words[0].lower(), words[1]
    value = _ODD_LINE_END.sub(lambda odd: "".join(f"%{byte:02X}" for byte in odd[0].encode()), value)
    return key, value.strip(" \t")


def _agent_token(value: str) -> str | None:
    found = _TOKEN.match(value)
    return None if found is None else found[0].lower()


def _sitemaps(text: str) -> tuple[str, ...]:
    """The distinct values of the Sitemap lines, which belong to no group."""
    found: dict[str, None] = {}
    for line in _SITEMAP.finditer(text):
        found[line[1].strip(" \t\0")] = None
        if len(found) == SITEMAPS_MOST:
            break
    found.pop("", None)
    return tuple(found)


def _seconds(value: str) -> list[float]:
    try:
        seconds = float(value)
    except ValueError:
        return []
    return [seconds] if math.isfinite(seconds) and seconds >= 0 else []
