"""What is taken out of a page by default, with the tree of turbohtml: main text, Markdown, structured data."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import turbohtml
from turbohtml import Document, Markdown

from crawler.web.extract.language import language_of
from crawler.web.extract.main_content import main_content
from crawler.web.extract.page_text import Extracted, Forms

SELECTION = 1  # the version of ``main_content``
EXTRACTOR = f"turbohtml {version('turbohtml')}/{SELECTION}"


def extract(page: str, url: str, forms: Forms) -> Extracted:
    """Take out of a page what is wanted. ``url`` is that of the page."""
    tree = turbohtml.parse(page)
    structured = structured_of(tree, url) if forms & Forms.STRUCTURED else None
    if not forms & (Forms.TEXT | Forms.MARKDOWN):
        return Extracted(structured=structured, extractor=EXTRACTOR)
    content = main_content(tree)
    text = "" if content is None else content.to_text()
    markdown = None
    if forms & Forms.MARKDOWN:
        markdown = "" if content is None else content.to_markdown(Markdown(links=Markdown.Links(base_url=url)))
    return Extracted(text if forms & Forms.TEXT else None, markdown, structured, language_of(text), EXTRACTOR)


def structured_of(tree: Document, url: str) -> dict[str, Any]:
    """The structured data of a page."""
    return {"opengraph": dict(tree.opengraph(url))}
