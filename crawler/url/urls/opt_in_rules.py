"""Opt-in rules: heuristics that merge keys that usually, but not always, name the same page.

No rule is on by default. A rule changes only the key, never what is fetched: a bad choice may merge two pages, but
never requests a wrong one. Rules run in the order of ``RULES``, regardless of the order in the settings, until nothing
changes, so that the key of a key is itself.

Each rule is a function from key to key. It never makes a key longer, and returns a key that parses to itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from msgspec import Struct


class Rule(Struct, frozen=True):
    """One opt-in step from key to key."""

    name: str
    effect: str  # one sentence for the user
    example: tuple[str, str]  # an example key, before and after the rule
    apply: Callable[[str], str]


# Parameters that advertising and mailing systems add; the page never reads them.
TRACKING_PREFIXES = ("utm_", "mtm_", "pk_", "hsa_")
_TRACKING = """
    _ga _gl _hsenc _hsmi dclid fbclid gbraid gclid gclsrc igshid li_fat_id mc_cid mc_eid mkt_tok msclkid
    oly_anon_id oly_enc_id s_cid ttclid twclid vero_id wbraid wickedid yclid
"""
TRACKING_NAMES = frozenset(_TRACKING.split())
SESSION_NAMES = frozenset(("jsessionid", "phpsessid", "sessionid", "session_id", "sid", "cfid", "cftoken"))
SESSION_PREFIXES = ("aspsessionid",)
INDEX_PAGES = frozenset(
    f"{stem}.{extension}"
    for stem in ("index", "default")
    for extension in ("html", "htm", "shtml", "xhtml", "php", "asp", "aspx", "jsp", "cgi")
)

# Not after a dot, or "/.;jsessionid=1/" would leave a dot segment.
_PATH_SESSION = re.compile(r"(?<!\.)(?:;(?:jsessionid|phpsessid)=[^/;]*)+", re.IGNORECASE)
_ASP_NET_SESSION = re.compile(r"/\(S\([A-Za-z0-9]{24}\)\)(?=/)", re.IGNORECASE)
# At least two labels must be left: "www.com" stays.
_WWW = re.compile(r"(?<=//)(?:www\.)+(?=[^/:.]+\.)")
_PLAIN_HTTPS = re.compile(r"https(?=://(?:\[[^/]*\]|[^/:\[]*)(?:/|\Z))")


def https_as_http(key: str) -> str:
    """Replace https with http, but only without a port: port 80 of one scheme is not port 80 of the other."""
    return "http" + key[5:] if _PLAIN_HTTPS.match(key) else key


def drop_www(key: str) -> str:
    return _WWW.sub("", key, count=1)


def drop_session_ids(key: str) -> str:
    if "?" not in key and ";" not in key and "(" not in key:
        return key
    origin, path, query = _split(key)
    path = _ASP_NET_SESSION.sub("", _PATH_SESSION.sub("", path))
    return _join(origin + path, _without(query, _names_session))


def drop_tracking(key: str) -> str:
    if "?" not in key:
        return key
    origin, path, query = _split(key)
    return _join(origin + path, _without(query, _names_tracking))


def sort_query(key: str) -> str:
    """Sort by name only, and stably: the order of parameters with the same name may matter."""
    if "&" not in key:
        return key
    origin, path, query = _split(key)
    return _join(origin + path, "&".join(sorted(query.split("&"), key=_name)))


def drop_index_page(key: str) -> str:
    origin, path, query = _split(key)
    keep = stop = len(path)
    while (slash := path.rfind("/", 0, stop)) >= 0 and path[slash + 1 : stop].lower() in INDEX_PAGES:
        keep = slash + 1
        stop = len(path[:slash].rstrip("/")) if path[slash - 1 : slash] == "/" else slash
    return _join(origin + path[:keep], query)


def drop_trailing_slash(key: str) -> str:
    origin, path, query = _split(key)
    return _join(origin + (path.rstrip("/") or "/"), query)


def _split(key: str) -> tuple[str, str, str]:
    """Return the origin, the path, and the query without its question mark."""
    head, _, query = key.partition("?")
    slash = head.index("/", head.index("//") + 2)
    return head[:slash], head[slash:], query


def _join(head: str, query: str) -> str:
    return f"{head}?{query}" if query else head


def _name(pair: str) -> str:
    return pair.partition("=")[0]


def _names_session(name: str) -> bool:
    return name in SESSION_NAMES or name.startswith(SESSION_PREFIXES)


def _names_tracking(name: str) -> bool:
    return name in TRACKING_NAMES or name.startswith(TRACKING_PREFIXES)


def _without(query: str, unwanted: Callable[[str], bool]) -> str:
    """Return the query without the parameters whose name, in lower case, is unwanted."""
    return "&".join(pair for pair in query.split("&") if not unwanted(_name(pair).lower()))


RULES: Mapping[str, Rule] = MappingProxyType(
    {
        rule.name: rule
        for rule in (
            Rule(
                "https-as-http",
                "Treat https as http where no port is given.",
                ("https://example.com/a", "http://example.com/a"),
                https_as_http,
            ),
            Rule(
                "drop-www",
                "Drop a leading www. of the host if two labels remain.",
                ("http://www.example.com/", "http://example.com/"),
                drop_www,
            ),
            Rule(
                "drop-session-ids",
                "Drop session identifiers from path and query.",
                ("http://example.com/a;jsessionid=1F?sid=2&p=3", "http://example.com/a?p=3"),
                drop_session_ids,
            ),
            Rule(
                "drop-tracking",
                "Drop parameters that advertising and mailing systems add.",
                ("http://example.com/?utm_source=x&p=3&gclid=y", "http://example.com/?p=3"),
                drop_tracking,
            ),
            Rule(
                "sort-query",
                "Sort the parameters by name, keeping the order of equal names.",
                ("http://example.com/?b=1&a=2&b=0", "http://example.com/?a=2&b=1&b=0"),
                sort_query,
            ),
            Rule(
                "drop-index-page",
                "Drop a last path segment such as index.html or default.aspx.",
                ("http://example.com/docs/index.html", "http://example.com/docs/"),
                drop_index_page,
            ),
            Rule(
                "drop-trailing-slash",
                "Drop slashes at the end of the path, except the root's.",
                ("http://example.com/docs/", "http://example.com/docs"),
                drop_trailing_slash,
            ),
        )
    }
)


def chosen(names: Sequence[str]) -> tuple[Rule, ...]:
    """Return the named rules in the order in which they run.

    Raises ValueError for an unknown name; the message gives the name and the known rule closest to it.
    """
    for name in names:
        if name not in RULES:
            import difflib  # noqa: PLC0415, only for a wrong name

            near = difflib.get_close_matches(name, RULES, n=1, cutoff=0.0)[0]
            raise ValueError(f"unknown canonicalisation rule {name!r}; the nearest known is {near!r}")
    return tuple(rule for rule in RULES.values() if rule.name in names)


def settle(key: str, rules: Sequence[Rule]) -> str:
    """Return the key after applying the rules until nothing changes: one rule may make an earlier one applicable."""
    while True:
        before = key
        for rule in rules:
            key = rule.apply(key)
        if key == before:
            return key
