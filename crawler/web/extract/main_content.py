"""Which element of a page holds its main content, and what in it does not belong there.

A page is a tree of turbohtml. Every paragraph gives the length of its text outside links to all elements around it. The
content begins at ``body`` and goes down to the child that has nearly all of that, as long as there is one: so an
article that is divided among many containers stays whole, and one in a single container is found there. What is named
like navigation, comments of readers or advertisements goes, unless it holds much of the content.
"""

from __future__ import annotations

import re
from functools import lru_cache

from turbohtml import Document, Element, Node, Text

NEARLY_ALL = 0.7  # of the content that a child needs to be the content
HIDDEN = 0.1  # of the page that may be hidden, and is removed; what is more is shown later
MUCH = 0.3  # of the content that is not removed, whatever its name
MOST = 0.65  # of the page, likewise: one may say more about cookies than in its article ...
ENOUGH = 200  # ... but has so many characters left then
FEW, LITTLE = 500, 0.25  # characters outside links, and their share, below which a page is one of links
HALF = 0.5  # of the page that an element needs to be the content if the page calls it so
LINKED = 0.7  # of the text of a block, above which it is a list of links
SHORT = 20  # characters of a paragraph that says nothing

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
_HEADED = frozenset(("section", "h1", "h2", "h3", "h4", "h5", "h6", "dt", "p", "li"))  # an id says what they are about
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
_SUBJECT = re.compile(r"\b(?:tag|category|format)-\S+")  # what an article is about, not what it is


def main_content(page: Document) -> Element | None:
    """Return the element that holds the main content; None if the page has no body. What does not belong to it is
    removed from the tree."""
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
            kind = _kind(f" {classes}")  # ids of sections and headings are made of their words
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
    if not called:  # otherwise they are a part of it, as in the contents of a manual
        _remove_lists_of_links(content, weights)
    return content


def _is_of_links(body: Element, weights: dict[Node, int]) -> bool:
    """Whether the page is an index or the like, whose content is links."""
    weight = weights.get(body, 0)
    return weight < FEW and weight < LITTLE * len(body.text.strip())


def _unfold_layouts(body: Element) -> None:
    """Make blocks of tables that only say where things stand: they have no headings of columns, but hold whole parts of
    a page."""
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
    """The characters of text outside links in each element that has some."""
    weights: dict[Node, int] = {}
    for element in reversed(body.select(_SELECTED)):  # what is in an element before the element
        weight = weights.get(element, 0)
        tag = element.tag
        if tag in _CONTAINERS:  # what no element in it has
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
        while isinstance(around, Element):  # up to one of those above
            weights[around] = weights.get(around, 0) + weight
            around = None if around.tag in _BLOCKS else around.parent
    return weights


def _only_child(element: Element, weights: dict[Node, int]) -> Element | None:
    """The child that has nearly all of the content, if no paragraph stands beside it."""
    children = [child for child in element.children if isinstance(child, Element) and child in weights]
    if not children or any(child.tag in _LEAVES for child in children):
        return None
    child = max(children, key=weights.__getitem__)
    if weights[child] < NEARLY_ALL * weights[element] or sum(map(_is_section, children)) > 1:
        return None
    return child


def _is_section(element: Element) -> bool:
    """Whether this is a section of a text, as generators of documentation call it."""
    return element.tag == "section" or bool(_SECTION.match(str(element.attr("class") or "")))


@lru_cache(maxsize=8_192)  # a site has few, and each on many elements
def _kind(names: str) -> re.Pattern[str] | None:
    """What an element with this id and these classes is: beside the content, apart from it, or anything else."""
    names = _SUBJECT.sub("", names)
    return next((kind for kind in (_NAMED_BESIDE, _NAMED_APART) if kind.search(names)), None)


def _remove(element: Element, weights: dict[Node, int], most: float) -> None:
    """Remove an element, unless it weighs more than that."""
    weight = weights.get(element, 0)
    if weight > most or element.parent is None:
        return
    if weight:
        for around in element.ancestors:
            if isinstance(around, Element) and around in weights:
                weights[around] -= weight
    element.decompose()


def _remove_lists_of_links(content: Element, weights: dict[Node, int]) -> None:
    links: dict[Node, list[int]] = {}  # the characters of each link in a block
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
