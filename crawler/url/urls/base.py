"""A page's own URL, split once for all its links.

Links are resolved by joining strings: this module knows the structure of clean links (see ``clean``), and returns None
for every link that only the parser can judge.
"""

from __future__ import annotations

from collections.abc import Sequence

from crawler.url.urls import clean
from crawler.url.urls.normalising_steps import identity
from crawler.url.urls.whatwg import parse

# Bounds the memory that a page with links to endlessly many host names can use.
ROOTS_REMEMBERED = 50_000

# Links that start with more "../" than this are left to the parser.
_LEVELS = 8
_NOWHERE = "", b"nowhere"


class Roots:
    """Remembers which roots (scheme, host, port and slash) are clean, because a crawl meets the same ones
    repeatedly."""

    __slots__ = ("known",)

    def __init__(self) -> None:
        self.known: set[str] = set()

    def join(self, link: str) -> str | None:
        """Return the href of an absolute link that is clean if its root is."""
        slash = link.find("/", 8)
        root = link[: slash + 1] if slash > 0 else link + "/"
        if root not in self.known:
            # Addresses and punycode names are checked by the parser, once each.
            if clean.root(root) is None and ("@" in root or parse(root) != root):
                return None
            if len(self.known) >= ROOTS_REMEMBERED:
                self.known.clear()
            self.known.add(root)
        return link if slash > 0 else root


class Base:
    """The base that the links of a page are resolved against, made from an href."""

    __slots__ = ("_directory", "_origin", "_page", "_roots", "_scheme", "href", "plain")

    def __init__(self, href: str, roots: Roots) -> None:
        slash = href.index("/", href.index("//") + 2)
        self.href = href
        self._roots = roots
        self._origin = href[:slash]
        self._scheme = href[: href.index("//")]
        self._page = href.partition("?")[0]
        self._directory = self._page[: self._page.rindex("/") + 1]
        #: True if clean links resolved against this base are their own keys.
        self.plain = identity(href) == href

    def join(self, links: Sequence[str], oddities: Sequence[bytes]) -> list[str | None]:
        """Return the href of each of a page's links, given as ``clean.distinct_links`` returns them; None for a link
        that the parser must judge.

        This is the only loop that runs for every link of every page; so, for speed, it is one function with local
        names.
        """
        page, origin, directory, known = self._page, self._origin, self._directory, self._roots.known
        parent = directory[: max(directory.rindex("/", 0, -1), len(origin)) + 1]
        above: dict[str, tuple[str, bytes]] = {}
        joined: list[str | None] = []
        add = joined.append
        for link, odd in zip(links, oddities, strict=True):
            if not odd and link[:3] == "../" and link[3:4] != "/":
                add(parent + link[3:])
                continue
            first = link[:1]
            if first == ".":
                above = above or self._above()
                end = link.rfind("../") + 3
                start, usual = above.get(link[:end], _NOWHERE)
                add(start + link[end:] if odd == usual and link[end : end + 1] != "/" else None)
            elif odd and not clean.although_odd(link):
                add(None)
            elif first == "/":
                add(origin + link if link[:2] != "//" else self._roots.join(self._scheme + link))
            elif first == "?":
                add(page + link)
            elif ":" not in link:
                add(directory + link if first else self.href)
            elif link[:4] == "http":
                add(link if link[: link.find("/", 8) + 1] in known else self._roots.join(link))
            else:
                add(None)  # nearly always another scheme
        return joined

    def _above(self) -> dict[str, tuple[str, bytes]]:
        """Map the start of a link -> (the directory that it refers to, the odd bytes of the start itself).

        The directory above the root is the root.
        """
        directory, root = self._directory, len(self._origin) + 1
        above = {"./": (directory, b"")}
        for up in range(_LEVELS):
            directory = directory[: max(directory.rindex("/", 0, -1) + 1, root)]
            above["../" * (up + 1)] = directory, clean.DOT_SEGMENT * up
        return above
