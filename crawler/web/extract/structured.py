"""The structured data of a page: JSON-LD, microdata, RDFa Lite, OpenGraph, Twitter cards, and the page's own statements
of its URL, translations, authors and dates.

Pages are untrusted: structures that grow faster than the page (nested items, references between items, names that share
a value) are measured before they are built. Data over the budget is omitted, and ``cut`` is set.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import accumulate, chain
from math import isfinite
from typing import Any
from urllib.parse import urljoin

import msgspec
from msgspec import Raw
from turbohtml import Document
from turbohtml.extract import RdfaItem

from crawler.web.extract.page_text import BYTES_MOST

BLOCK_MOST = 2**20  # maximum characters of a JSON-LD block
DEPTH_MOST = 64  # maximum nesting of objects and lists, and of items
ERRORS_MOST = 20
SHOWN = 4_000  # characters of an invalid block that are shown
TRANSLATIONS_MOST = 2_000
ITEMS_MOST = 4 * BYTES_MOST  # maximum characters of the values of all items
_NAMES_MOST, _NAME_MOST = 20, 200  # maximum number of authors, and of characters per author
_BASE_MOST = 8_000  # maximum characters of a base URL

_BRACKETS = re.compile(r"[\[{\]}]")
_OPENGRAPH = ("og:", "article:", "book:", "profile:", "music:", "video:", "product:", "fb:")
_DATE = re.compile(
    r"[12]\d{3}-\d\d(?:-\d\d(?:[T ]\d\d:?\d\d(?::?\d\d(?:[.,]\d{1,9})?)?\s?(?:Z|[+-]\d\d(?::?\d\d)?)?)?)?",
    re.ASCII | re.I,
)
_TIMES = "time[pubdate],time[class*=publish i],time.entry-date,article time[datetime]"
# The usual places of a value: terms in objects of JSON-LD and microdata, and names of ``meta`` elements.
_AUTHOR = "author creator", "author article:author dc.creator dcterms.creator citation_author parsely-author"
_PUBLISHED = (
    "datePublished dateCreated uploadDate",
    "article:published_time datepublished dcterms.issued dc.date.issued dcterms.created dc.date.created dcterms.date "
    "dc.date date pubdate parsely-pub-date sailthru.date",
)
_MODIFIED = "dateModified", "article:modified_time datemodified og:updated_time dcterms.modified dc.date.modified"


def structured_of(tree: Document, url: str) -> bytes:
    """Return the structured data of the page with this URL, as a JSON object without empty members. May remove
    attributes from the tree."""
    page = _Page(tree, tree.base_url(url)[:_BASE_MOST])
    named, (nodes, errors), (microdata, rdfa) = page.named(), page.json_ld(), page.items()
    said = [*_each_node(nodes), *(item.get("properties", {}) for item in microdata)]

    def stated(terms: str, names: str) -> Iterator[Any]:
        return chain((node.get(term) for term in terms.split() for node in said), map(named.get, names.split()))

    times = (time.attr("datetime") for time in tree.select(_TIMES)[:1])
    members = {
        "canonical": next((link["href"] for link in page.links("link[rel~=canonical i][href]")), None),
        "author": _authors(stated(*_AUTHOR), said),
        "published": _date(chain(stated(*_PUBLISHED), times)),
        "modified": _date(stated(*_MODIFIED)),
        "opengraph": _values(named, _OPENGRAPH, "og:"),
        "twitter": _values(named, ("twitter:",), "twitter:"),
        "hreflang": [*page.links("link[rel~=alternate i][hreflang][href]")],
        "json_ld": nodes,
        "json_ld_errors": errors,
        "microdata": microdata,
        "rdfa": rdfa,
    }
    kept = {name: msgspec.json.encode(value) for name, value in members.items() if value}
    while sum(map(len, kept.values())) > BYTES_MOST - 1_000:  # reserved for names and punctuation
        del kept[max(kept, key=lambda name: len(kept[name]))]
        page.cut = True
    return msgspec.json.encode({name: Raw(data) for name, data in kept.items()} | ({"cut": True} if page.cut else {}))


class _Page:
    """Reads the elements of a page. ``cut``: some data was omitted."""

    def __init__(self, tree: Document, base: str) -> None:
        self.cut = False
        self._tree = tree
        self._base = base

    def named(self) -> dict[str, list[str]]:
        """Return the contents of ``meta`` elements by their lower-case names."""
        named: dict[str, list[str]] = {}
        for meta in self._tree.find_all("meta"):
            content = (meta.attr("content") or "").strip()
            names = " ".join(meta.attr(name) or "" for name in ("property", "name", "itemprop"))
            for name in set(names.lower().split()[:3]) if content else ():
                named.setdefault(name, []).append(content)
        return named

    def links(self, selector: str) -> Iterator[dict[str, str]]:
        """Yield the language and the absolute URL of each link."""
        links = self._tree.select(selector)
        self.cut |= len(links) > TRANSLATIONS_MOST
        for link in links[:TRANSLATIONS_MOST]:
            try:
                href = urljoin(self._base, (link.attr("href") or "").strip())
            except ValueError:  # the URL has brackets without an IPv6 address
                continue
            yield {"lang": (link.attr("hreflang") or "").strip(), "href": href}

    def json_ld(self) -> tuple[list[Any], list[dict[str, str]]]:
        """Return the values of all blocks, with arrays flattened, and the blocks that are not JSON."""
        nodes, errors = list[Any](), list[dict[str, str]]()
        for script in self._tree.select("script[type*='ld+json' i]"):
            text = script.text
            try:
                value = _decoded(text)
            except (ValueError, msgspec.DecodeError) as error:
                self.cut |= len(text) > SHOWN or len(errors) == ERRORS_MOST
                errors.append({"error": str(error), "text": text[:SHOWN]})
            else:
                nodes += value if isinstance(value, list) else [value]
        return nodes, errors[:ERRORS_MOST]

    def items(self) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Return the items of microdata and of RDFa that are not the value of another item."""
        tree = self._tree
        if tree.select_one("[itemscope],[typeof]") is None:
            return [], []
        size, referring = self._size_of_items(), tree.select("[itemref]")
        references = sum(len((each.attr("itemref") or "").split()) for each in referring)
        if size * 1.5 ** min(references, 99) > ITEMS_MOST:  # references can multiply the size by this factor
            self.cut |= bool(referring)
            for each in referring:
                del each.attrs["itemref"]
        try:
            if size <= ITEMS_MOST:
                return _items(tree.microdata(self._base), DEPTH_MOST), _items(tree.rdfa(self._base), DEPTH_MOST)
        except RecursionError:  # items are nested too deeply, for the library or for ``_items``
            pass
        self.cut = True
        return [], []

    def _size_of_items(self) -> int:
        """Return an upper bound on the size of all values. Each name has a value, and a vocabulary may be put before
        the name."""
        tree, size = self._tree, 0
        declared = (each.attr(name) or "" for each in tree.select("[vocab],[prefix]") for name in ("vocab", "prefix"))
        before = max(map(len, declared), default=0) + len(self._base)
        for each in tree.select("[itemprop],[property],[typeof]"):
            names = " ".join(each.attr(name) or "" for name in ("itemprop", "property", "typeof"))
            size += len(names.split()) * (len(each.html) + before)
            if size > ITEMS_MOST:
                break
        return size


def _decoded(text: str) -> Any:
    """Return the value of a JSON-LD block. Raises ValueError or DecodeError."""
    if len(text) > BLOCK_MOST:
        raise ValueError(f"longer than {BLOCK_MOST:,} characters")
    for _ in range(3):  # nested comments and CDATA sections, which once hid scripts from old browsers
        text = text.strip(" \t\r\n\f/*\ufeff").removeprefix("<!--").removeprefix("<![CDATA[")
        text = text.removesuffix("-->").removesuffix("]]>")
    if max(accumulate(1 if each in "[{" else -1 for each in _BRACKETS.findall(text)), default=0) > DEPTH_MOST:
        raise ValueError(f"nested more than {DEPTH_MOST} deep")
    return _JSON.decode(text or "[]")


def _number(text: str) -> float | str:
    """Return the number, or its text if a float cannot hold it."""
    return number if isfinite(number := float(text)) else text


_JSON = msgspec.json.Decoder(float_hook=_number)


def _items(values: Iterable[Any], depth: int) -> list[Any]:
    """Convert values, some of which are items, to their stored form. Raises RecursionError."""
    if depth == 0:
        raise RecursionError
    return [value.strip() if isinstance(value, str) else _item(value, depth) for value in values]


def _item(item: Any, depth: int) -> dict[str, Any]:
    rdfa = isinstance(item, RdfaItem)  # otherwise a MicrodataItem
    members = {
        "type": item.type if rdfa else (item.type or "").split(),
        "id": item.resource if rdfa else item.id,
        "properties": {name: _items(values, depth - 1) for name, values in item.properties.items()},
    }
    return {name: value for name, value in members.items() if value}


def _each_node(values: Iterable[Any]) -> Iterator[dict[str, Any]]:
    """Yield the objects, each followed by those in its ``@graph``."""
    for node in values:
        if isinstance(node, dict):
            graph = node.get("@graph")
            yield from (each for each in (node, *(graph if isinstance(graph, list) else ())) if isinstance(each, dict))


def _values(named: dict[str, list[str]], prefixes: tuple[str, ...], removed: str) -> dict[str, str | list[str]]:
    return {
        name.removeprefix(removed): values if len(values) > 1 else values[0]
        for name, values in named.items()
        if name.startswith(prefixes)
    }


def _authors(stated: Iterable[Any], said: Iterable[dict[str, Any]]) -> list[str]:
    """Return the names of the authors, from the first value that states any."""
    known = {id: node for node in said if isinstance(id := node.get("@id"), str)}
    for values in stated:
        names = (" ".join(name.split())[:_NAME_MOST] for name in _names(values, known))
        found = [name for name in dict.fromkeys(names) if name and not name.startswith(("http://", "https://"))]
        if found:
            return found[:_NAMES_MOST]
    return []


def _names(value: Any, known: dict[str, dict[str, Any]]) -> Iterator[str]:
    """Yield the names in a value of JSON-LD or microdata: a string, a named object, a reference to one, or several."""
    for each in value if isinstance(value, list) else [value]:
        name = each
        if isinstance(each, dict):
            thing = each if "name" in each or "@id" not in each else known.get(str(each["@id"]), each)
            properties = thing.get("properties", thing)
            name = properties.get("name") if isinstance(properties, dict) else None
        yield from (text for text in (name if isinstance(name, list) else [name]) if isinstance(text, str))


def _date(stated: Iterable[Any]) -> str:
    """Return the first ISO 8601 date, including its time if it has one, as stated."""
    each = chain.from_iterable(value if isinstance(value, list) else [value] for value in stated)
    return next((date for text in each if isinstance(text, str) and _DATE.fullmatch(date := text.strip())), "")
