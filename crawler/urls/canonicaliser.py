"""Canonicalisation: from the text of a link to what is fetched and what is hashed.

Three ways lead to the same answer. ``explain`` walks the steps one by one and is what the others are held
to. ``canonicalise`` asks the parser unless the text is plainly clean. ``outlinks`` is for all links of a
page: it splits the base once, resolves clean links by putting strings together, and asks the parser about
the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import NamedTuple

from crawler.urls import clean
from crawler.urls.rules import chosen, settle
from crawler.urls.steps import STEPS, identity
from crawler.urls.whatwg import Rejected, drop_fragment, foreign_scheme, parse, resolve, scalar_values


class Canonical(NamedTuple):
    """The two values of one URL, both ASCII."""

    href: str  # what is fetched: the WHATWG href without its fragment
    key: str  # what the seen-set hashes


# One call into C for each link; the class itself would cost a Python frame.
_canonical = partial(tuple.__new__, Canonical)


class _Base:
    """A page's own address, split once for all its links."""

    __slots__ = ("directories", "href", "origin", "page", "plain", "scheme")

    def __init__(self, href: str) -> None:
        self.href = href
        self.page = href.partition("?")[0]
        slash = href.index("/", href.index("//") + 2)
        self.origin = href[:slash]
        self.scheme = href[: href.index("//")]
        # The page's directory, its parent, and so on up to the root.
        self.directories = [self.page[: self.page.rindex("/") + 1]]
        # A clean link behind a plain base is its own key.
        self.plain = identity(self.page) == self.page

    def directory(self, up: int) -> str:
        """The directory ``up`` levels above the page's; above the root is the root."""
        directories = self.directories
        while len(directories) <= up:
            last = directories[-1]
            parent = last[: last.rindex("/", 0, -1) + 1]
            directories.append(parent if len(parent) > len(self.origin) else last)
        return directories[up]

    def join(self, link: str) -> str | None:
        """The href of a link without fragment, or None if it is not clean."""
        if "/." in link and not link.startswith("../"):
            return None
        first = link[:1]
        if first == "/":
            if clean.from_root(link):
                return self.origin + link
            if link[:2] == "//":
                return _absolute(self.scheme + link)
            return None
        if clean.from_directory(link):
            return self.directories[0] + link
        if first == ".":
            return self._join_above(link)
        if first == "?":
            return self.page + link if clean.from_page(link) else None
        return _absolute(link) if first else self.href

    def _join_above(self, link: str) -> str | None:
        up = 0
        start = 2 if link.startswith("./") else 0
        while link.startswith("../", start):
            up += 1
            start += 3
        rest = link[start:]
        if start == 0 or "/." in rest or not (rest == "" or clean.from_directory(rest)):
            return None
        return self.directory(up) + rest


def _absolute(link: str) -> str | None:
    """The href of an absolute link without fragment, or None if it is not clean."""
    found = clean.absolute(link)
    if found is None or "/." in link:
        return None
    return link if found.lastindex else link + "/"


class Canonicaliser:
    """Canonicalisation with a fixed choice of opt-in rules, by their names in ``RULES``.

    Raises ValueError naming an unknown rule and the nearest known.
    """

    def __init__(self, rules: Sequence[str] = ()) -> None:
        self._rules = chosen(rules)

    def canonicalise(self, text: str, base: str | None = None) -> Canonical | Rejected:
        """The href and key of one text, resolved against ``base`` if that is given."""
        if base is None and (href := _absolute(text.partition("#")[0])) is not None:
            return Canonical(href, self._ruled(href))
        resolved = resolve(text, base)
        if isinstance(resolved, Rejected):
            return resolved
        return Canonical(resolved, self._ruled(identity(resolved)))

    def outlinks(self, base: str, hrefs: Iterable[str]) -> tuple[list[Canonical], int]:
        """The URLs a page links to, each key once: (those fetchable in page order, how many texts were
        rejected).

        ``base`` is the page's URL, or what its first ``base`` element says. Equal texts count once.
        """
        base = scalar_values(base)
        own = parse(base)
        split = None if isinstance(own, Rejected) else _Base(drop_fragment(own))
        found: dict[str, str] = {}
        seen: set[str] = set()
        rejected = 0
        for text in dict.fromkeys(hrefs):
            link = text.partition("#")[0]
            if link in seen:
                continue
            href = split.join(link) if split is not None else None
            if href is not None:
                seen.add(link)
                key = href if split is not None and split.plain else identity(href)
            else:
                resolved = _ask(text, base)
                if isinstance(resolved, Rejected):
                    rejected += 1
                    continue
                href, key = resolved, identity(resolved)
            found.setdefault(self._ruled(key), href)
        return list(map(_canonical, zip(found.values(), found, strict=True))), rejected

    def explain(self, text: str, base: str | None = None) -> list[tuple[str, str]]:
        """Each step's name and the value after it; the last is ("rejected", reason) if there is no URL."""
        value = scalar_values(text)
        told = [("text", value)]
        parsed = parse(value, None if base is None else scalar_values(base))
        if isinstance(parsed, Rejected):
            return [*told, ("rejected", parsed.reason)]
        value = drop_fragment(parsed)
        told += [("parse", parsed), ("drop fragment", value)]
        for step in STEPS:
            value = step(value)
            told.append((step.__name__.replace("_", " "), value))
        for rule in self._rules:
            value = rule.apply(value)
            told.append((rule.name, value))
        if (settled := settle(value, self._rules)) != value:
            told.append(("rules again", settled))
        return told

    def _ruled(self, key: str) -> str:
        return settle(key, self._rules) if self._rules else key


def _ask(text: str, base: str) -> str | Rejected:
    """As ``resolve``, for a base that is a scalar-value string."""
    if foreign_scheme(text):
        return Rejected("not http or https")
    href = parse(scalar_values(text), base)
    return href if isinstance(href, Rejected) else drop_fragment(href)
