"""Which element of a page holds its main content, and what in it does not belong there.

A page is a tree of turbohtml. Every paragraph gives the length of its text outside links to all elements around it. The
content begins at ``body`` and goes down to the child that has nearly all of that, as long as there is one: so an
article that is divided among many containers stays whole, and one in a single container is found there. What is named
like navigation, comments of readers or advertisements goes, unless it holds much of the content.
"""

from __future__ import annotations

import re

from turbohtml import Document, Element, Text

NEARLY_ALL = 0.7  # of the content that a child needs to be the content
MUCH = 0.3  # of the content that is never removed for its name
LINKED = 0.7  # of the text of a block, above which it is a list of links
SHORT = 20  # characters of a paragraph that says nothing

_NEVER = (
    "script,style,noscript,template,iframe,form,button,select,textarea,svg,nav,footer,aside,dialog,"
    "[hidden],[aria-hidden=true],[role=navigation],[role=complementary],[role=contentinfo],[role=search],[role=dialog],"
    "[role=banner],[style*='display:none' i],[style*='display: none' i]"
)
_PARAGRAPHS = "p,pre,blockquote,li,td,dd,div,section,article"
_CONTAINERS = frozenset(("li", "td", "dd", "div", "section", "article"))
_LEAVES = frozenset(("p", "pre", "blockquote", "ul", "ol", "li", "table", "tbody", "tr", "td", "dl", "dd"))
_NAMES = re.compile(
    r"""(?ix) (?:^|[\s_-]|(?<=[a-z])(?=[A-Z])) (?:
    comments?|respond|disqus|sidebar|side-bar|related|recommend\w*|read-?next|more-?(?:from|stories|on)|trending|popular
    |share|sharing|social|sociable|follow|newsletter|subscri\w+|sign-?up|promo\w*|sponsor\w*|advert\w*|ads?|outbrain
    |taboola|breadcrumbs?|nav|navbar|navigation|menu|footer|masthead|byline|author|bio|dateline|timestamp|pub-?date|meta
    |post-?info|tags?|tagged|caption|credit|copyright|cookie\w*|consent|gdpr|modal|popup|paywall|pagination|pager|prev
    |print|hidden|skip|toolbar|widget\w*|teaser\w*|toc|banner|gallery|slideshow|rating|embed
    ) (?:$|[\s_-]|(?=[A-Z]))"""
)


def main_content(page: Document) -> Element | None:
    """Return the element that holds the main content; None if the page has no body. Everything that does not belong to
    it is removed from the tree."""
    body = page.select_one("body")
    if body is None:
        return None
    page.remove(_NEVER)
    weights = _weights(body)
    content = body
    while (child := _heaviest(content, weights)) is not None:
        if weights[child] < NEARLY_ALL * weights[content] or child.tag in _LEAVES:
            break
        content = child
    _remove_by_name(content, weights)
    _remove_lists_of_links(content)
    return content


def _weights(body: Element) -> dict[Element, int]:
    """The characters of text outside links in each element that has some."""
    weights: dict[Element, int] = {}
    for paragraph in body.select(_PARAGRAPHS):
        own = _characters(paragraph)
        if own < SHORT:
            continue
        element = paragraph
        while True:
            weights[element] = weights.get(element, 0) + own
            parent = element.parent
            if element == body or not isinstance(parent, Element):
                break
            element = parent
    return weights


def _characters(paragraph: Element) -> int:
    """Those of a paragraph outside links; of a container only those that no element in it has."""
    if paragraph.tag in _CONTAINERS:
        return sum(len(child.data.strip()) for child in paragraph.children if isinstance(child, Text))
    return len(paragraph.text.strip()) - sum(len(link.text) for link in paragraph.select("a"))


def _heaviest(element: Element, weights: dict[Element, int]) -> Element | None:
    children = [child for child in element.children if isinstance(child, Element) and child in weights]
    return max(children, key=weights.__getitem__, default=None)


def _remove_by_name(content: Element, weights: dict[Element, int]) -> None:
    much = MUCH * weights.get(content, 0)
    for element in content.select("[class],[id]"):
        named = f"{element.attr('id') or ''} {element.attr('class') or ''}"
        if weights.get(element, 0) <= much and _NAMES.search(named):
            element.decompose()


def _remove_lists_of_links(content: Element) -> None:
    for block in content.select("ul,ol,div,section,table,p"):
        links = block.select("a")
        if len(links) > 1 or (links and block.tag == "div"):
            characters = len(block.text.strip())
            if characters and sum(len(link.text.strip()) for link in links) > LINKED * characters:
                block.decompose()
