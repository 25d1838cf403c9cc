"""What belongs to a crawl: grown from its seeds, asked about each outlink.

An *entry* is what one seed adds, as text that can be stored and given back:

    host     host name, and port if it is not the scheme's own        ``example.com``, ``example.com:8080``
    domain   registrable domain, by the public suffix list            ``example.co.uk``
    prefix   SURT up to the last slash of the path, always as http    ``http://(com,example,)/docs/``
    any      nothing: every http and https URL belongs

An address, and a host that is itself a public suffix or a single label, stands for itself in ``domain``;
there the port says nothing. ``prefix`` compares paths by identity, so that ``%7Euser`` and ``~user`` are
one.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from publicsuffixlist import PublicSuffixList

from crawler.settings import SCOPES
from crawler.urls.host import is_address, split_origin, surt
from crawler.urls.steps import tidy_percent

# Bounds what a page with links to endless host names can make us remember.
_ORIGINS_REMEMBERED = 100_000
_EVERY_PATH = ("/",)


class Scope:
    """The scope of one crawl, of a mode in ``settings.SCOPES`` (ValueError otherwise)."""

    def __init__(self, mode: str) -> None:
        if mode not in SCOPES:
            raise ValueError(f"unknown scope {mode!r}; known are {', '.join(SCOPES)}")
        self.mode = mode
        self._entries: dict[str, None] = {}  # in the order they came
        self._origins: dict[str, tuple[str, ...]] = {}  # scheme, host, port -> what paths in scope start with

    def widen(self, href: str) -> str | None:
        """Take in a seed, or where a seed redirects to; the new entry, or None if it belonged already."""
        if self.mode == "any" or self.contains(href):
            return None
        entry = self._entry(href)
        self.restore([entry])
        return entry

    def contains(self, href: str) -> bool:
        """Whether an href (http or https, canonical) belongs to the crawl."""
        if self.mode == "any":
            return True
        end = href.find("/", 8)
        paths = self._origins.get(href[:end])
        if paths is None:
            if len(self._origins) >= _ORIGINS_REMEMBERED:
                self._origins.clear()
            paths = self._origins[href[:end]] = self._paths(href[: end + 1])
        if paths is _EVERY_PATH or not paths:
            return paths is _EVERY_PATH
        return tidy_percent(href[end:]).startswith(paths)

    def entries(self) -> list[str]:
        """All entries, oldest first."""
        return list(self._entries)

    def restore(self, entries: Iterable[str]) -> None:
        """Take in entries of an earlier run in the same mode."""
        self._entries.update(dict.fromkeys(entries))
        self._origins.clear()

    def _prefix_of(self, form: str) -> str | None:
        # Every entry ends with a slash: one look-up for each slash, however many prefixes there are.
        end = form.find("/", form.find(")"))
        while end >= 0:
            if form[: end + 1] in self._entries:
                return form[: end + 1]
            end = form.find("/", end + 1)
        return None

    def explain(self, href: str) -> str:
        """One sentence: why the href is in or out."""
        if self.mode == "any":
            return "In scope: every http and https URL is."
        inside = self.contains(href)
        if self.mode == "prefix":
            mine = _http_surt(href)
            if inside:
                return f"In scope: {mine} starts with {self._prefix_of(mine)}."
            return f"Out of scope: {mine} starts with none of the prefixes {self._listed()}."
        entry = self._entry(href)
        if inside:
            return f"In scope: its {self.mode} {entry} is one of the seeds'."
        return f"Out of scope: its {self.mode} {entry} is not among {self._listed()}."

    def _paths(self, root: str) -> tuple[str, ...]:
        """What the paths in scope start with, below a scheme, host and port with a slash behind."""
        if self.mode != "prefix":
            return _EVERY_PATH if self._entry(root) in self._entries else ()
        mine = _http_surt(root)
        return tuple(entry[len(mine) - 1 :] for entry in self._entries if entry.startswith(mine))

    def _entry(self, href: str) -> str:
        if self.mode == "host":
            _, host, port, _ = split_origin(href)
            return f"{host}:{port}" if port else host
        if self.mode == "domain":
            return _registrable(split_origin(href)[1])
        mine = _http_surt(href).partition("?")[0]
        return mine[: mine.rindex("/") + 1]

    def _listed(self, most: int = 5) -> str:
        shown = ", ".join(list(self._entries)[:most]) or "(no seed yet)"
        more = len(self._entries) - most
        return f"{shown} and {more} more" if more > 0 else shown


def _http_surt(href: str) -> str:
    form = surt(tidy_percent(href))
    return "http" + form[5:] if form.startswith("https:") else form


def _registrable(host: str) -> str:
    if is_address(host):
        return host
    host = host.rstrip(".") or host
    return _suffixes().privatesuffix(host) or host


@cache
def _suffixes() -> PublicSuffixList:
    return PublicSuffixList()
