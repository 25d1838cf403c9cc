"""Extracts the main text of a page with trafilatura (``text.extractor``; the optional dependency of that name).

Only the processes that extract text import it, because the import takes up to a second of CPU time and 40 MB.
"""

from __future__ import annotations

from importlib.metadata import version

import trafilatura
import turbohtml
from lxml.etree import ErrorTypes, ParserError
from lxml.html import HtmlElement, HTMLParser, document_fromstring

from crawler.web.extract.language import language_of
from crawler.web.extract.page_text import Extracted, Forms
from crawler.web.extract.structured import structured_of

EXTRACTOR = f"trafilatura {version('trafilatura')}"


def extract(page: str, url: str, forms: Forms) -> Extracted:
    """See ``main_text.extract``. Readers' comments are not part of the text. Raises ValueError if the page is nested
    too deeply to be parsed completely, and no text was found in the parsed part."""
    structured = structured_of(turbohtml.parse(page), url) if forms & Forms.STRUCTURED else None
    if not forms & (Forms.TEXT | Forms.MARKDOWN):
        return Extracted(structured=structured, extractor=EXTRACTOR)
    tree, whole = _tree(page)
    text = _text(tree, url, "txt")
    if not (whole or text):
        raise ValueError("its elements are nested too deeply")
    return Extracted(
        text if forms & Forms.TEXT else None,
        _text(tree, url, "markdown") if forms & Forms.MARKDOWN else None,
        structured,
        language_of(text),
        EXTRACTOR,
    )


def _text(tree: HtmlElement | None, url: str, form: str) -> str:
    if tree is None:
        return ""
    links = form == "markdown"
    found = trafilatura.extract(tree, url=url, output_format=form, include_comments=False, include_links=links)
    return found or ""


def _tree(page: str) -> tuple[HtmlElement | None, bool]:
    """Return the tree of the page, and whether it is complete. The library's own parser silently stops at 255 levels of
    nesting."""
    parser = HTMLParser(encoding="utf-8", huge_tree=True, remove_comments=True, remove_pis=True, collect_ids=False)
    try:
        tree = document_fromstring(page.encode("utf-8", "replace"), parser)
    except ParserError:  # the page is empty
        tree = None
    return tree, all(fault.type != ErrorTypes.ERR_RESOURCE_LIMIT for fault in parser.error_log)
