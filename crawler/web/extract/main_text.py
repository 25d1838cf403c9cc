"""The main text of a page, by trafilatura (the extra ``text``).

Imported only by the processes that extract text: it takes up to a second of CPU time and 40 MB.
"""

from __future__ import annotations

from collections.abc import Sequence

import trafilatura
from lxml.etree import ErrorTypes, ParserError
from lxml.html import HtmlElement, HTMLParser, document_fromstring

from crawler.web.extract.page_text import MARKDOWN, TEXT

_KINDS = {TEXT: "txt", MARKDOWN: "markdown"}


def main_text(page: str, forms: Sequence[str]) -> dict[str, str]:
    """The main text of a page in each form; empty if it has none. Tables are a part of it, comments of readers are
    not. Raises ValueError if the page is nested so deeply that it cannot be read to its end, and nothing was found
    before that."""
    tree, whole = _tree(page)
    if tree is None:
        return dict.fromkeys(forms, "")
    found = {form: trafilatura.extract(tree, output_format=_KINDS[form], include_comments=False) for form in forms}
    if not (whole or any(found.values())):
        raise ValueError("its elements are nested too deeply")
    return {form: text or "" for form, text in found.items()}


def _tree(page: str) -> tuple[HtmlElement | None, bool]:
    """The tree of the page, and whether that is all of it. The parser of the library itself gives up at 255 elements in
    each other, and does not say so."""
    parser = HTMLParser(encoding="utf-8", huge_tree=True, remove_comments=True, remove_pis=True, collect_ids=False)
    try:
        tree = document_fromstring(page.encode("utf-8", "replace"), parser)
    except ParserError:  # there is nothing in it
        tree = None
    return tree, all(fault.type != ErrorTypes.ERR_RESOURCE_LIMIT for fault in parser.error_log)
