"""The scope of a crawl: it grows from the seeds, and decides which outlinks belong to the crawl.

An *entry* is the contribution of one seed, as text that can be stored and restored:

    host     host name, and port if it is not the scheme's default    ``example.com``, ``example.com:8080``
    domain   registrable domain, by the public suffix list            ``example.co.uk``
    prefix   SURT up to the last slash of the path, always as http    ``http://(com,example,)/docs/``
    any      nothing: every http and https URL belongs

In ``domain``, an address, a public suffix or a single label counts as its own domain, and the port is ignored.
``prefix`` compares paths by identity, so that ``%7Euser`` and ``~user`` are the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import compress, repeat
from operator import attrgetter, not_
from typing import Protocol, TypeVar

from crawler.base.settings.parts import SCOPES
from crawler.url.urls.domain import registrable_domain
from crawler.url.urls.host_key import split_origin, surt
from crawler.url.urls.normalising_steps import tidy_percent

# Bounds the memory that a page with links to endlessly many host names can use.
ORIGINS_REMEMBERED = 100_000

HREF = attrgetter("href")


class Linked(Protocol):
    """Anything with the URL that would be fetched."""

    @property
    def href(self) -> str: ...


L = TypeVar("L", bound=Linked)


class Scope:
    """The scope of one crawl, with a mode in ``settings.SCOPES`` (ValueError otherwise)."""

    def __init__(self, mode: str, origins_remembered: int = ORIGINS_REMEMBERED) -> None:
        if mode not in SCOPES:
            raise ValueError(f"unknown scope {mode!r}; known are {', '.join(SCOPES)}")
        self.mode = mode
        self._most = origins_remembered
        self._entries: dict[str, None] = {}  # in order of arrival
        self._longest = 0  # characters of the longest entry
        # Scheme, host and port -> their entry; with ``prefix``, its beginning.
        self._names: dict[str, str] = {}

    @property
    def is_known(self) -> bool:
        """True if any URL can belong to the crawl."""
        return self.mode == "any" or bool(self._entries)

    def widen(self, href: str) -> str | None:
        """Add a seed, or the target of a seed's redirect. Returns the new entry, or None if the URL already belonged to
        the crawl."""
        if self.mode == "any" or self.contains(href):
            return None
        entry = self._entry(href)
        self.restore([entry])
        return entry

    def entry(self, href: str) -> str | None:
        """Return the entry of the URL, whether or not the URL already belongs to the crawl; None in the mode
        ``any``."""
        return None if self.mode == "any" else self._entry(href)

    def contains(self, href: str) -> bool:
        """Return True if an href (http or https, canonical) belongs to the crawl."""
        if self.mode == "any":
            return True
        end = href.find("/", 8)
        name = self._names.get(href[:end]) or self._name(href[: end + 1])
        if self.mode != "prefix":
            return name in self._entries
        return self._prefix_of(name + tidy_percent(href[end:])) is not None

    def inside(self, links: Sequence[L]) -> list[L]:
        """Return the links that belong to the crawl: like ``contains``, for all links of a page."""
        if self.mode in ("any", "prefix"):
            return [link for link in links if self.contains(link.href)]
        hrefs = list(map(HREF, links))
        first = next(filter(self.contains, hrefs), "")  # most of the other links have the same host
        belong = list(map(str.startswith, hrefs, repeat(first[: first.find("/", 8) + 1])))
        for at in compress(range(len(hrefs)), map(not_, belong)):
            belong[at] = self.contains(hrefs[at])
        return list(compress(links, belong)) if first else []

    def entries(self) -> list[str]:
        """Return all entries, oldest first."""
        return list(self._entries)

    def restore(self, entries: Iterable[str]) -> None:
        """Add entries of an earlier run in the same mode."""
        for entry in entries:
            self._entries[entry] = None
            self._longest = max(self._longest, len(entry))

    def explain(self, href: str) -> str:
        """Return one sentence that explains why the href is in or out of scope."""
        if self.mode == "any":
            return "In scope: every http and https URL is."
        inside = self.contains(href)
        if self.mode == "prefix":
            mine = http_surt(href)
            if inside:
                return f"In scope: {mine} starts with {self._prefix_of(mine)}."
            return f"Out of scope: {mine} starts with none of the prefixes {self._listed()}."
        entry = self._entry(href)
        if inside:
            return f"In scope: its {self.mode} {entry} is one of the seeds'."
        return f"Out of scope: its {self.mode} {entry} is not among {self._listed()}."

    def _name(self, root: str) -> str:
        """Compute and remember the name that ``contains`` needs for a scheme, host and port, given with a trailing
        slash."""
        if len(self._names) >= self._most:
            self._names.clear()
        name = http_surt(root)[:-1] if self.mode == "prefix" else self._entry(root)
        self._names[root[:-1]] = name
        return name

    def _prefix_of(self, form: str) -> str | None:
        """Return the shortest entry that is a prefix of a SURT."""
        # Every entry ends with a slash, so one look-up per slash suffices, however many prefixes there are.
        end = form.find("/", form.index(")"))
        while 0 <= end < self._longest:
            if form[: end + 1] in self._entries:
                return form[: end + 1]
            end = form.find("/", end + 1)
        return None

    def _entry(self, href: str) -> str:
        if self.mode == "host":
            _, host, port, _ = split_origin(href)
            return f"{host}:{port}" if port else host
        if self.mode == "domain":
            return registrable_domain(split_origin(href)[1])
        mine = http_surt(href).partition("?")[0]
        return mine[: mine.rindex("/") + 1]

    def _listed(self, most: int = 5) -> str:
        shown = ", ".join(list(self._entries)[:most]) or "(no seed yet)"
        more = len(self._entries) - most
        return f"{shown} and {more} more" if more > 0 else shown


def http_surt(href: str) -> str:
    """Return the SURT of an href by its identity, with https as http: the form in which prefixes are compared."""
    form = surt(tidy_percent(href))
    return "http" + form[5:] if form.startswith("https:") else form
