"""A page's own address, split once for all its links."""

from __future__ import annotations

from crawler.urls import clean
from crawler.urls.steps import identity

# Bounds what a page with links to endless host names can make us remember.
_ORIGINS_REMEMBERED = 50_000


class Origins:
    """Remembers which origins (scheme, host, port) are clean; a crawl meets the same ones again and again."""

    __slots__ = ("_clean",)

    def __init__(self) -> None:
        self._clean: set[str] = set()

    def join(self, link: str) -> str | None:
        """The href of an absolute link of clean characters, or None if only the parser knows."""
        if "/." in link or link[-1] == "?":
            return None
        end = link.find("/", 8)
        origin = link[:end] if end > 0 else link
        if origin not in self._clean:
            if clean.origin(origin) is None:
                return None
            if len(self._clean) >= _ORIGINS_REMEMBERED:
                self._clean.clear()
            self._clean.add(origin)
        return link if end > 0 else link + "/"


class Base:
    """What relative links are resolved against, made from an href."""

    __slots__ = ("_directory", "_origin", "_origins", "_page", "_scheme", "_upwards", "href", "plain")

    def __init__(self, href: str, origins: Origins) -> None:
        slash = href.index("/", href.index("//") + 2)
        self.href = href
        self._origins = origins
        self._origin = href[:slash]
        self._scheme = href[: href.index("//")]
        self._page = href.partition("?")[0]
        self._directory = self._page[: self._page.rindex("/") + 1]
        # The page's directory, its parent, and so on up to the root.
        self._upwards = [self._directory]
        #: True if a clean link behind this base is its own key.
        self.plain = identity(href) == href

    def join(self, link: str) -> str | None:
        """The href of a link without fragment and of clean characters, or None if only the parser knows."""
        if not link:
            return self.href
        first = link[0]
        if first == ".":
            return self._join_above(link)
        if "/." in link or link[-1] == "?":
            return None
        if first == "/":
            return self._origin + link if link[:2] != "//" else self._origins.join(self._scheme + link)
        if first == "?":
            return self._page + link
        if ":" not in link:
            return self._directory + link
        if link[:4] == "http":
            return self._origins.join(link)
        return self._directory + link if _colon_in_path(link) else None

    def _join_above(self, link: str) -> str | None:
        start = 2 if link[:2] == "./" else 0
        up = 0
        while link.startswith("../", start):
            up += 1
            start += 3
        rest = link[start:]
        if start == 0 or rest.startswith((".", "/")) or rest.endswith("?") or "/." in rest:
            return None
        return self._above(up) + rest

    def _above(self, up: int) -> str:
        """The directory ``up`` levels above the page's; above the root is the root."""
        upwards = self._upwards
        while len(upwards) <= up:
            last = upwards[-1]
            parent = last[: last.rindex("/", 0, -1) + 1]
            if len(parent) <= len(self._origin):
                return last
            upwards.append(parent)
        return upwards[up]


def _colon_in_path(link: str) -> bool:
    """True if the first colon comes too late to end a scheme."""
    head = link.partition(":")[0]
    return "/" in head or "?" in head
