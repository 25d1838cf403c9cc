"""Canonicalisation: from the text of a link to what is fetched and what is hashed.

Four ways lead to the same result. ``explain`` performs the steps one by one; the others must agree with it.
``canonicalise`` calls the parser unless the text is plainly clean. ``outlinks`` handles all links of a page: it splits
the base once, resolves clean links by joining strings, and calls the parser for the rest. ``keys`` does the same for a
list of absolute URLs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import NamedTuple, cast

from crawler.url.urls import clean
from crawler.url.urls.base import Base, Roots
from crawler.url.urls.host_key import split_origin
from crawler.url.urls.normalising_steps import STEPS, identity
from crawler.url.urls.opt_in_rules import chosen, settle
from crawler.url.urls.whatwg import (
    NOT_HTTP,
    TRIMMED,
    Rejected,
    drop_fragment,
    foreign_scheme,
    parse,
    requested,
    resolve,
    scalar_values,
)


class Canonical(NamedTuple):
    """The href and the key of one URL, both ASCII, and the server that the href names."""

    href: str  # what is fetched: the WHATWG href without its fragment and without credentials
    key: str  # what the seen-set hashes

    # These properties are computed from the href on demand, because links that are already known never need them.

    @property
    def scheme(self) -> str:
        """``http`` or ``https``."""
        return split_origin(self.href)[0]

    @property
    def host(self) -> str:
        """The host of the href; an IPv6 address keeps its brackets."""
        return split_origin(self.href)[1]


# One call into C for each link; the class itself would cost a Python frame.
_canonical = partial(tuple.__new__, Canonical)


class Canonicaliser:
    """Canonicalisation with a fixed choice of opt-in rules, by their names in ``RULES``.

    Raises ValueError for an unknown rule; the message names the rule and the known rule closest to it.
    """

    def __init__(self, rules: Sequence[str] = ()) -> None:
        self._rules = chosen(rules)
        self._roots = Roots()

    def canonicalise(self, text: str, base: str | None = None) -> Canonical | Rejected:
        """Return the href and key of one text, resolved against ``base`` if given."""
        if base is None and (clean_href := self._clean(text)) is not None:
            return Canonical(clean_href, settle(clean_href, self._rules))
        resolved = resolve(text, base)
        return resolved if isinstance(resolved, Rejected) else Canonical(resolved, self._key(resolved))

    def _clean(self, text: str) -> str | None:
        """Return the href of an absolute URL that is clean except for its fragment; None for any other text."""
        link = text.partition("#")[0]
        is_clean = link.startswith(("http://", "https://")) and clean.although_odd(link) is not None
        return self._roots.join(link) if is_clean else None

    def outlinks(self, base: str, hrefs: Iterable[str]) -> tuple[list[Canonical], int]:
        """Return (the URLs that a page links to, the number of rejected links). Each key occurs once, with the href
        that came first.

        ``base`` is the page's URL, or that of its first ``base`` element. Links that differ only in the fragment count
        once.
        """
        urls, rejected, _ = self.traced_outlinks(base, hrefs)
        return urls, rejected

    def traced_outlinks(self, base: str, hrefs: Iterable[str]) -> tuple[list[Canonical], int, list[str]]:
        """Return the same as ``outlinks``, and for each URL its link, as written except for its fragment."""
        links, joined, same = self._joined(base, hrefs)
        if same and None not in joined:  # the usual case: each link is its own key
            plain = dict.fromkeys(cast("list[str]", joined))
            if len(plain) < len(links):  # the first of several links to one URL is its source
                first = dict(zip(reversed(joined), reversed(links), strict=True))
                links = list(map(first.__getitem__, plain))
            return list(map(_canonical, zip(plain, plain, strict=True))), 0, links
        base = scalar_values(base)
        found: dict[str, str] = {}
        sources: list[str] = []
        rejected = 0
        for link, href in zip(links, joined, strict=True):
            asked = _ask(link, base) if href is None else href
            if isinstance(asked, Rejected):
                rejected += 1
                continue
            key = asked if same and href is not None else self._key(asked)
            if key not in found:
                found[key] = asked
                sources.append(link)
        return list(map(_canonical, zip(found.values(), found, strict=True))), rejected, sources

    def _joined(self, base: str, hrefs: Iterable[str]) -> tuple[list[str], list[str | None], bool]:
        """Return (the distinct links, their hrefs if joining suffices, whether the hrefs are also the keys)."""
        own = self._clean(base) or resolve(base)
        links, oddities = clean.distinct_links(hrefs)
        if isinstance(own, Rejected):
            return links, [None] * len(links), False
        split = Base(own, self._roots)
        return links, split.join(links, oddities), split.plain and not self._rules

    def keys(self, texts: Sequence[str]) -> list[str | Rejected]:
        """Return the key of each text, or why it has none. There is no base, so all texts must be absolute.

        This takes a third to two thirds of the time of calling ``canonicalise`` for each text.
        """
        links = [text.partition("#")[0] if "#" in text else text for text in texts]
        oddities = clean.oddities(links)
        if len(oddities) != len(links):  # a text contains a line break, so texts cannot be treated as lines
            return [self._key_of(text) for text in texts]
        known, join, rules = self._roots.known, self._roots.join, self._rules
        found: list[str | Rejected] = []
        add = found.append
        for text, link, odd in zip(texts, links, oddities, strict=True):
            if odd and not clean.although_odd(link):
                add(self._key_of(text))
                continue
            href = link if link[: link.find("/", 8) + 1] in known else join(link)
            if href is None:
                add(self._key_of(text))
            else:
                add(settle(href, rules) if rules else href)
        return found

    def _key_of(self, text: str) -> str | Rejected:
        url = self.canonicalise(text)
        return url if isinstance(url, Rejected) else url.key

    def explain(self, text: str, base: str | None = None) -> list[tuple[str, str]]:
        """Return each step's name and the value after it; the last is ("rejected", reason) if there is no URL."""
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

    def _key(self, href: str) -> str:
        key = identity(href)
        return settle(key, self._rules) if self._rules else key


def canonicalise(text: str, base: str | None = None, rules: Sequence[str] = ()) -> Canonical:
    """Return the href and key of one text, resolved against ``base`` if given. ``rules`` are the names of opt-in rules.
    Raises ValueError if the result is not an http or https URL, and for an unknown rule."""
    url = Canonicaliser(rules).canonicalise(text, base)
    if isinstance(url, Rejected):
        raise ValueError(f"{text!r} is not a URL: {url.reason}")
    return url


def _ask(link: str, base: str) -> str | Rejected:
    """Return the parser's href of a link without its fragment, for a base that is a scalar-value string."""
    if foreign_scheme(link):
        return NOT_HTTP
    if link[-1:] in TRIMMED:
        link += "#"
    href = parse(scalar_values(link), base)
    return href if isinstance(href, Rejected) else requested(href)
