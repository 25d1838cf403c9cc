"""The structured data of a page: JSON-LD, microdata, RDFa Lite, OpenGraph, Twitter cards, and what a page says of its
URL, its translations, its authors and its dates.

Pages are a stranger's: whatever grows faster than the page (items in items, references between items, names that share
a value) is counted before it is made. What is over a budget is left out, and ``cut`` says so.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any
from urllib.parse import urljoin

import msgspec
from msgspec import Raw
from turbohtml import Document, Element
from turbohtml.extract import MicrodataItem, RdfaItem

from crawler.web.extract.page_text import BYTES_MOST

BLOCK_MOST = 2**20  # characters of a block of JSON-LD
DEPTH_MOST = 64  # objects and lists in each other, and items in each other
ERRORS_MOST = 20
VALUE_MOST = 2**16  # characters of what a ``meta`` element says
SHOWN = 4_000  # characters of a block that cannot be read
ELEMENTS_MOST = 2_000  # ``meta`` elements, and ``link`` elements, that are looked at
REFERENCES_MOST = 100  # of items to properties elsewhere in the page
_NAMES_MOST, _NAME_MOST = 20, 200  # authors, and characters of one
_BASE_MOST = 8_000  # characters of a base URL

_OPENGRAPH = ("og:", "article:", "book:", "profile:", "music:", "video:", "product:", "fb:")
_DATE = re.compile(
    r"[12]\d{3}-\d\d(?:-\d\d(?:[T ]\d\d:?\d\d(?::?\d\d(?:[.,]\d{1,9})?)?\s?(?:Z|[+-]\d\d(?::?\d\d)?)?)?)?",
    re.ASCII | re.I,
)
_AUTHORS = ("author", "article:author", "dc.creator", "dcterms.creator", "citation_author", "parsely-author")
_PUBLISHED = (
    *("article:published_time", "datepublished", "dcterms.issued", "dc.date.issued", "dcterms.created"),
    *("dc.date.created", "dcterms.date", "dc.date", "date", "pubdate", "parsely-pub-date", "sailthru.date"),
)
_MODIFIED = ("article:modified_time", "datemodified", "og:updated_time", "dcterms.modified", "dc.date.modified")


def structured_of(tree: Document, url: str) -> bytes:
    """The structured data of a page with that URL, as an object of JSON whose members are absent if there is nothing in
    them. May take attributes from the tree."""
    base, found = tree.base_url(url), _Members()
    if len(base) > _BASE_MOST:
        base = url
    named = _named(tree, found)
    nodes, errors = _json_ld(tree, found)
    items = _microdata(tree, base, found)
    said = [*_each_node(nodes), *(item["properties"] for item in items)]
    found.add("canonical", next((href for _, href in _links(tree.select("link[rel~=canonical i][href]"), base)), ""))
    found.add("author", _authors(said, named))
    for name, terms, keys in (
        ("published", ("datePublished", "dateCreated", "uploadDate"), _PUBLISHED),
        ("modified", ("dateModified",), _MODIFIED),
    ):
        stated = chain((node.get(term) for term in terms for node in said), (named.get(key) for key in keys))
        found.add(name, _date(chain(stated, _times(tree) if name == "published" else ())))
    found.add("opengraph", _values(named, _OPENGRAPH, "og:"))
    found.add("twitter", _values(named, ("twitter:",), "twitter:"))
    alternates = tree.select("link[rel~=alternate i][hreflang][href]")
    found.cut |= len(alternates) > ELEMENTS_MOST
    found.add_each("hreflang", ({"lang": lang, "href": href} for lang, href in _links(alternates, base)))
    found.add_each("json_ld", nodes)
    found.add_each("json_ld_errors", errors)
    found.add_each("microdata", items)
    found.add_each("rdfa", _rdfa(tree, base, found))
    return found.encode()


class _Members:
    """The members of the object, as many as there is room for."""

    def __init__(self) -> None:
        self.cut = False
        self._members: dict[str, Any] = {}
        self._left = BYTES_MOST - 1_000  # for names and punctuation

    def add(self, name: str, value: object) -> None:
        """Add a member, unless there is nothing in it."""
        if value and (data := self._fitting(value)) is not None:
            self._members[name] = data

    def add_each(self, name: str, values: Iterable[object]) -> None:
        """Add a list, of the values that fit."""
        data = [data for value in values if (data := self._fitting(value)) is not None]
        if data:
            self._members[name] = data

    def _fitting(self, value: object) -> Raw | None:
        data = msgspec.json.encode(value)
        if len(data) >= self._left:
            self.cut = True
            return None
        self._left -= len(data) + 1
        return Raw(data)

    def encode(self) -> bytes:
        """All of them."""
        return msgspec.json.encode(self._members | ({"cut": True} if self.cut else {}))


# -- elements of the head ------------------------------------------------------------------------------------------


def _named(tree: Document, found: _Members) -> dict[str, list[str]]:
    """What ``meta`` elements say, by their names in lower case."""
    metas, named = tree.find_all("meta", limit=ELEMENTS_MOST + 1), defaultdict[str, list[str]](list)
    found.cut |= len(metas) > ELEMENTS_MOST
    for meta in metas[:ELEMENTS_MOST]:
        content = (meta.attr("content") or "").strip()
        if len(content) > VALUE_MOST:
            found.cut = True
        elif content:
            names = f"{meta.attr('property') or ''} {meta.attr('name') or ''} {meta.attr('itemprop') or ''}"
            for name in set(names.lower().split()[:3]):
                named[name].append(content)
    return named


def _values(named: dict[str, list[str]], prefixes: tuple[str, ...], removed: str) -> dict[str, str | list[str]]:
    return {
        name.removeprefix(removed): values if len(values) > 1 else values[0]
        for name, values in named.items()
        if name.startswith(prefixes)
    }


def _links(links: Sequence[Element], base: str) -> Iterator[tuple[str, str]]:
    """The language and the absolute URL of each."""
    for link in links[:ELEMENTS_MOST]:
        try:
            yield (link.attr("hreflang") or "").strip(), urljoin(base, (link.attr("href") or "").strip())
        except ValueError:  # brackets that hold no address
            continue


def _times(tree: Document) -> Iterator[str | None]:
    """The time that the page was published, as ``time`` elements say it."""
    for selector in ("time[pubdate]", "time[class*=publish i],time.entry-date", "article time[datetime]"):
        found = tree.select_one(selector)
        yield None if found is None else found.attr("datetime")


# -- JSON-LD -------------------------------------------------------------------------------------------------------


def _json_ld(tree: Document, found: _Members) -> tuple[list[Any], list[dict[str, str]]]:
    """The values of all blocks, those of an array one by one; and the blocks that are not JSON."""
    nodes, errors = list[Any](), list[dict[str, str]]()
    for script in tree.select("script[type*='ld+json' i]"):
        text = script.text
        try:
            value = _decoded(text)
        except (ValueError, RecursionError, msgspec.DecodeError) as error:
            found.cut |= len(text) > SHOWN or len(errors) >= ERRORS_MOST
            errors.append({"error": str(error), "text": text[:SHOWN]})
        else:
            nodes += value if isinstance(value, list) else [value]
    return nodes, errors[:ERRORS_MOST]


def _decoded(text: str) -> Any:
    if len(text) > BLOCK_MOST:
        raise ValueError(f"longer than {BLOCK_MOST:,} characters")
    bare = text
    for _ in range(3):  # comments and CDATA sections, which hid scripts from browsers of old, and often each other
        bare = bare.strip(" \t\r\n\f/*\ufeff").removeprefix("<!--").removeprefix("<![CDATA[")
        bare = bare.removesuffix("-->").removesuffix("]]>")
    if not bare:
        return []
    value = msgspec.json.decode(bare)
    if bare.count("{") + bare.count("[") > DEPTH_MOST and not _is_within(value, DEPTH_MOST):
        raise ValueError(f"nested more than {DEPTH_MOST} deep")
    return value


def _is_within(value: Any, depth: int) -> bool:
    """Whether it is nested no deeper."""
    if not isinstance(value, dict | list):
        return True
    inside = value.values() if isinstance(value, dict) else value
    return depth > 0 and all(_is_within(each, depth - 1) for each in inside)


def _each_node(values: Iterable[Any]) -> Iterator[dict[str, Any]]:
    """Those that are objects, and those of their graphs."""
    for node in values:
        if isinstance(node, dict):
            yield node
            graph = node.get("@graph")
            yield from (each for each in graph if isinstance(each, dict)) if isinstance(graph, list) else ()


def _authors(said: Sequence[dict[str, Any]], named: dict[str, list[str]]) -> list[str]:
    """The names of the authors, of the first that says any."""
    known = {id: node for node in said if isinstance(id := node.get("@id"), str)}
    for values in chain(
        (node.get("author") or node.get("creator") for node in said), (named.get(key) for key in _AUTHORS)
    ):
        names = (" ".join(name.split())[:_NAME_MOST] for name in _names(values, known))
        kept = [name for name in dict.fromkeys(names) if name and not name.startswith(("http://", "https://"))]
        if kept:
            return kept[:_NAMES_MOST]
    return []


def _names(value: Any, known: dict[str, dict[str, Any]]) -> Iterator[str]:
    """The names in a value of JSON-LD or of microdata: a text, a thing with a name, a reference to one, or several."""
    for each in value if isinstance(value, list) else [value]:
        if isinstance(each, str):
            yield each
        elif isinstance(each, dict):
            thing = each.get("properties", each)
            named = thing.get("name") if isinstance(thing, dict) else None
            if named is None and isinstance(id := each.get("@id"), str):
                named = known.get(id, {}).get("name")
            yield from (name for name in (named if isinstance(named, list) else [named]) if isinstance(name, str))


def _date(stated: Iterable[Any]) -> str:
    """The first that is a date of ISO 8601, with its time if there is one, as it is stated."""
    for value in stated:
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, str) and _DATE.fullmatch(each.strip()):
                return each.strip()
    return ""


# -- items ---------------------------------------------------------------------------------------------------------


def _microdata(tree: Document, base: str, found: _Members) -> list[dict[str, Any]]:
    if tree.select_one("[itemscope]") is None:
        return []
    size = _size(tree.select("[itemprop]"), "itemprop", len(base))
    referring = tree.select("[itemref]")
    references = sum(len((each.attr("itemref") or "").split()) for each in referring)
    if references and (references > REFERENCES_MOST or _refer_on(referring) or size * references > 4 * BYTES_MOST):
        found.cut = True
        for each in referring:
            del each.attrs["itemref"]
    return _items(tree.microdata, base, size, found)


def _refer_on(referring: Sequence[Element]) -> bool:
    """Whether an item refers to what refers again: a chain of these doubles with each."""
    targets = {id for each in referring for id in (each.attr("itemref") or "").split()}
    return any(
        isinstance(around, Element) and around.attr("id") in targets
        for each in referring
        for around in chain((each,), each.ancestors)
    )


def _rdfa(tree: Document, base: str, found: _Members) -> list[dict[str, Any]]:
    if tree.select_one("[typeof]") is None:
        return []
    words = (len(each.attr(name) or "") for each in tree.select("[vocab],[prefix]") for name in ("vocab", "prefix"))
    most = max(words, default=0) + len(base)
    typed = _size(tree.select("[typeof]"), "typeof", most)
    return _items(tree.rdfa, base, typed + _size(tree.select("[property]"), "property", most), found)


def _size(elements: Iterable[Element], attribute: str, more: int) -> int:
    """What the values of these elements take at most: each name has one, and ``more`` with it."""
    size = 0
    for element in elements:
        size += len((element.attr(attribute) or "").split()) * (len(element.html) + more)
        if size > 4 * BYTES_MOST:
            break
    return size


def _items(read: Any, base: str, size: int, found: _Members) -> list[dict[str, Any]]:
    if size <= 4 * BYTES_MOST:
        try:
            return [_item(item, DEPTH_MOST) for item in read(base)]
        except RecursionError:  # items are nested too deeply, in the view of the library or ours
            pass
    found.cut = True
    return []


def _item(item: MicrodataItem | RdfaItem, depth: int) -> dict[str, Any]:
    if depth == 0:
        raise RecursionError
    if isinstance(item, MicrodataItem):
        about = {"type": (item.type or "").split(), "id": item.id}
    else:
        about = {"type": item.type, "resource": item.resource}
    values = {
        name: [value.strip() if isinstance(value, str) else _item(value, depth - 1) for value in several]
        for name, several in item.properties.items()
    }
    return {name: value for name, value in about.items() if value} | {"properties": values}
