"""Finds the element of a page that holds its main content, and removes other parts from it.

A page is a tree of turbohtml. The length of each paragraph's text, without its links, is added to the weight of all its
ancestors. The search starts at ``body`` and descends to the child with nearly all of the content, as long as there is
one. So an article that is divided among many containers stays whole, and one in a single container is found. Elements
named like navigation, readers' comments or advertisements are removed, unless they hold much of the content.
"""

from __future__ import annotations

import re
from functools import lru_cache

from turbohtml import Document, Element, Node, Text

NEARLY_ALL = 0.7  # minimum share of the content for a child to become the content
HIDDEN = 0.1  # maximum share of the page for a hidden element to be removed; larger ones are probably shown later
MUCH = 0.3  # share of the content above which an element is kept, whatever its name is
MOST = 0.65  # share of the page above which footers and the like are kept: a cookie notice may exceed the article ...
ENOUGH = 200  # ... but after its removal the page must still have this many characters
FEW, LITTLE = 500, 0.25  # characters outside links, and their share, below which a page is an index of links
HALF = 0.5  # minimum share of the page for an element that the page marks as content to become the content
LINKED = 0.7  # share of link text above which a block is a list of links
SHORT = 20  # characters below which a paragraph is ignored

_NEVER = "script,style,noscript,template,iframe,svg,button,select,textarea"
_HIDDEN = "[hidden],[aria-hidden=true],[style*='display:none' i],[style*='display: none' i]"
_BESIDE = (
    "nav,footer,aside,form,dialog,[role=navigation],[role=complementary],[role=contentinfo],[role=search],"
    "[role=dialog],[role=banner],table[summary*=navigation i]"
)
_CALLED_CONTENT = "main,[role=main],article,[itemprop=articleBody]"
_PARTS = "table,h1,h2,h3,h4,pre,ul,ol,blockquote"
_PROSE = frozenset(("p", "pre", "blockquote"))
_CONTAINERS = frozenset(("li", "td", "dd", "div", "section", "article"))
_BLOCKS = _PROSE | _CONTAINERS | {"body", "dl", "figure", "form", "header", "main", "ol", "table", "tbody", "tr", "ul"}
_SELECTED = ",".join(sorted(_BLOCKS))
_LEAVES = frozenset(("p", "pre", "blockquote", "ul", "ol", "li", "table", "tbody", "tr", "td", "dl", "dd"))
_HEADED = frozenset(("section", "h1", "h2", "h3", "h4", "h5", "h6", "dt", "p", "li"))  # whose id names its subject
_SECTION = re.compile(r"sect(?:ion|[1-5])\b")
_WORD = r"(?x) (?:^|[\s_-]|(?<=[a-z])(?=[A-Z])) (?i:{}) (?:$|[\s_-]|(?=[A-Z]))"
_NAMED_BESIDE = re.compile(
    _WORD.format(
        r"""comments?(?:-?list|-?area|-?section)?|respond|disqus|footer|side-?bar|cookies?|consent|gdpr|modal|popup
        |related|newsletter"""
    )
)
_NAMED_APART = re.compile(
    _WORD.format(
        r"""recommend\w*|read-?next|more-?(?:from|news|stories|on)|trending|popular|share|sharing|social|sociable|follow
        |subscri\w+|sign-?up|promo\w*|sponsor\w*|advert\w*|ads?|outbrain|taboola|breadcrumbs?|nav|navbar|navigation|menu
        |masthead|byline|author|bio|dateline|timestamp|pub-?date|meta|post-?info|tags?|tagged|caption|credit|copyright
        |cookie\w*|paywall|pagination|pager|prev|print|hidden|skip|toolbar|widget\w*|teaser\w*|toc|banner|gallery
        |slideshow|rating|embed"""
    )
)
_SUBJECT = re.compile(r"\b(?:tag|category|format)-\S+")  # the subject of an article, not its role


def main_content(page: Document) -> Element | None:
    """Return the element that holds the main content, or None if the page has no body. Removes other parts from the
    tree."""
    body = page.select_one("body")
    if body is None:
        return None
    page.remove(_NEVER)
    _unfold_layouts(body)
    weights = _weights(body)
    for element in body.select(_HIDDEN):
        _remove(element, weights, HIDDEN * weights.get(body, 0))
    beside, apart = body.select(_BESIDE), list[Element]()
    for element in body.select("[class]:not(span,code),[id]:not(span,code)"):
        classes = element.attr("class") or ""
        kind = _kind(f"{element.attr('id') or ''} {classes}")
        if kind is not None and (element.tag in _HEADED or _is_section(element)):
            kind = _kind(f" {classes}")  # the ids of headings are made from their text
        if kind is not None:
            (beside if kind is _NAMED_BESIDE else apart).append(element)
    if _is_of_links(body, weights):
        everything = len(body.text)
        for element in beside:
            if len(element.text) < HALF * everything:
                element.decompose()
        return body
    for element in beside:
        weight = weights.get(body, 0)
        _remove(element, weights, min(MOST * weight, weight - ENOUGH))
    content = max(body.select(_CALLED_CONTENT), key=lambda each: weights.get(each, 0), default=body)
    called = weights.get(content, 0) > HALF * weights.get(body, 0)
    if not called:
        content = body
    while (child := _only_child(content, weights)) is not None:
        content = child
    much = MUCH * weights.get(content, 0)
    for element in apart:
        _remove(element, weights, much)
    if not called:  # if the page marks its content, lists of links in it belong to it
        _remove_lists_of_links(content, weights)
    return content


def _is_of_links(body: Element, weights: dict[Node, int]) -> bool:
    """Return True if the page is an index or similar, whose content is links."""
    weight = weights.get(body, 0)
    return weight < FEW and weight < LITTLE * len(body.text.strip())


def _unfold_layouts(body: Element) -> None:
    """Turn layout tables into blocks. A layout table has no column headings, and holds whole parts of a page."""
    for table in body.select("table"):
        if table.select_one("th,caption") is None and table.select_one(_PARTS) is not None:
            parts = [table]
            for tags in (("tbody",), ("tr",), ("td",)):
                parts = [
                    each for part in parts for each in part.children if isinstance(each, Element) and each.tag in tags
                ]
                for part in parts:
                    part.tag = "div"
            table.tag = "div"


def _weights(body: Element) -> dict[Node, int]:
    """Return the number of characters outside links for each element that has any."""
    weights: dict[Node, int] = {}
    for element in reversed(body.select(_SELECTED)):  # reversed, so that children come before their parents
        weight = weights.get(element, 0)
        tag = element.tag
        if tag in _CONTAINERS:  # count only text outside child elements
            own = 0
            for child in element.children:
                if isinstance(child, Text):
                    own += len(child.data.strip())
        elif tag in _PROSE:
            own = len(element.text.strip())
            if own >= SHORT and any(isinstance(child, Element) for child in element.children):
                for link in element.select("a"):
                    own -= len(link.text)
        else:
            own = 0
        if own >= SHORT:
            weight += own
            weights[element] = weight
        around = element.parent if weight else None
        while isinstance(around, Element):  # up to the next enclosing block
            weights[around] = weights.get(around, 0) + weight
            around = None if around.tag in _BLOCKS else around.parent
    return weights


def _only_child(element: Element, weights: dict[Node, int]) -> Element | None:
    """Return the child with nearly all of the content, or None if there is none, or if a child is a paragraph or the
    like."""
    children = [child for child in element.children if isinstance(child, Element) and child in weights]
    if not children or any(child.tag in _LEAVES for child in children):
        return None
    child = max(children, key=weights.__getitem__)
    if weights[child] < NEARLY_ALL * weights[element] or sum(map(_is_section, children)) > 1:
        return None
    return child


def _is_section(element: Element) -> bool:
    """Return True if the element is a section of a text, as named by documentation generators."""
    return element.tag == "section" or bool(_SECTION.match(str(element.attr("class") or "")))


@lru_cache(maxsize=8_192)  # the elements of a site use only a few distinct names
def _kind(names: str) -> re.Pattern[str] | None:
    """Return the pattern that the id or the classes of an element match, or None if they match none."""
    names = _SUBJECT.sub("", names)
    return next((kind for kind in (_NAMED_BESIDE, _NAMED_APART) if kind.search(names)), None)


def _remove(element: Element, weights: dict[Node, int], most: float) -> None:
    """Remove an element, unless its weight exceeds ``most``."""
    weight = weights.get(element, 0)
    if weight > most or element.parent is None:
        return
    if weight:
        for around in element.ancestors:
            if isinstance(around, Element) and around in weights:
                weights[around] -= weight
    element.decompose()


def _remove_lists_of_links(content: Element, weights: dict[Node, int]) -> None:
    links: dict[Node, list[int]] = {}  # the length of each link in a block
    for link in content.select("a"):
        characters = len(link.text.strip())
        for around in link.ancestors:
            links.setdefault(around, []).append(characters)
            if around == content:
                break
    for block in content.select("ul,ol,div,section,table,p"):
        linked = links.get(block, ())
        if len(linked) > (block.tag != "div") and sum(linked) > LINKED * weights.get(block, 0):
            characters = len(block.text.strip())
            if characters and sum(linked) > LINKED * characters:
                block.decompose()
