"""The default extractor, based on the tree of turbohtml: main text, Markdown, structured data."""

from __future__ import annotations

import contextlib
import re

import turbohtml
from turbohtml import Element, Node, Text

from crawler.web.extract.language import language_of
from crawler.web.extract.main_content import main_content
from crawler.web.extract.page_text import Extracted, Forms
from crawler.web.extract.structured import structured_of

SELECTION = 1  # the version of ``main_content``
_HIGHLIGHT = re.compile(r"(?:^|\s)(?:highlight-(?:source-)?|lang(?:uage)?-|brush:\s*|sourceCode\s+)([\w+#-]+)")
_SCRIPTS = re.compile(r"(?i)(?:javascript|vbscript|data):")
_NO_PART_OF_URL = re.compile(r"[\x00-\x20]")  # browsers ignore these in a scheme
_PERMALINKS = frozenset(("", "¶", "#", "§"))  # texts of permalinks, which lead to their own position
_NO_LANGUAGES = ("default", "none", "text", "plaintext", "notranslate")
EXTRACTOR = f"turbohtml {turbohtml.__version__}/{SELECTION}"


def extract(page: str, url: str, forms: Forms) -> Extracted:
    """Extract the requested forms from a page. ``url`` is the page's URL."""
    tree = turbohtml.parse(page.replace("\xa0", " ").replace("&nbsp;", " ").replace("&#160;", " "))
    structured = structured_of(tree, url) if forms & Forms.STRUCTURED else None
    if not forms & (Forms.TEXT | Forms.MARKDOWN):
        return Extracted(structured=structured, extractor=EXTRACTOR)
    text = markdown = ""
    titles = [" ".join(title.text.split()).rstrip("¶§ ") for title in tree.select("h1")]
    if (content := main_content(tree)) is not None:
        for link in content.select("a"):
            stated = link.attr("href") or ""
            href = stated.strip()
            if link.text.strip() in _PERMALINKS and link.select_one("img") is None:
                link.decompose()
            elif _SCRIPTS.match(_NO_PART_OF_URL.sub("", href)):
                link.unwrap()
            elif href != stated:
                link.attrs["href"] = href
        if forms & Forms.MARKDOWN:
            markdown = _markdown(content, tree.base_url(url))
            if len(titles) == 1 and titles[0] and content.select_one("h1") is None:  # the title is outside the content
                markdown = f"# {titles[0]}\n\n{markdown}"
        text = _text(content)
    return Extracted(
        text if forms & Forms.TEXT else None,
        markdown if forms & Forms.MARKDOWN else None,
        structured,
        language_of(text),
        EXTRACTOR,
    )


def _markdown(content: Element, base: str) -> str:
    """Return the content in Markdown, with absolute links. Changes the tree."""
    for image in content.select("img[src^='data:' i]"):  # a placeholder, until a script loads the image
        image.attrs["src"] = image.attr("data-src") or ""
    with contextlib.suppress(ValueError):  # a <base> that is not a URL
        content.resolve_links(base)
    for code in content.select("pre,code"):
        if "`" in (code.attr("class") or ""):  # it would end the code block in Markdown
            del code.attrs["class"]
    for code in content.select("pre"):
        if (language := _language_of_code(code)) is not None:
            code.add_class(f"language-{language}")
    return content.to_markdown()


def _text(content: Element) -> str:
    """Return the content as text, with a bar between the cells of a row. Changes the tree, because the library would
    pad each cell to the width of its column, so one long cell would cause megabytes of spaces."""
    for part in content.select("table,thead,tbody,tfoot,tr"):
        part.tag = "div"
    for cell in content.select("td,th"):
        cell.tag = "span"
        if cell.next_sibling is not None:
            cell.insert_after(Text(" | "))
    return content.to_text()


def _language_of_code(code: Element) -> str | None:
    """Return the language stated by the code element or one of its ancestors, in the notation of Sphinx, Jekyll, Pandoc
    or GitHub."""
    if stated := code.attr("data-lang") or code.attr("lang"):
        return stated
    around: Node | None = code
    for _ in range(3):
        if isinstance(around, Element) and (found := _HIGHLIGHT.search(around.attr("class") or "")):
            return None if found[1] in _NO_LANGUAGES else found[1]
        around = None if around is None else around.parent
    return None
