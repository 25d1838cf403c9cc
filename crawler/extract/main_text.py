"""The main text of a page, by trafilatura (the extra ``text``).

Imported only by the processes that extract text: it takes up to a second of CPU time and 40 MB.
"""

from __future__ import annotations

from collections.abc import Sequence

import trafilatura

from crawler.extract.page_text import MARKDOWN, TEXT

_KINDS = {TEXT: "txt", MARKDOWN: "markdown"}


def main_text(page: str, forms: Sequence[str]) -> dict[str, str]:
    """The main text of a page in each form; empty if it has none. Tables are a part of it, comments of readers are
    not."""
    tree = trafilatura.load_html(page) if page.strip() else None
    if tree is None:
        return dict.fromkeys(forms, "")
    return {form: trafilatura.extract(tree, output_format=_KINDS[form], include_comments=False) or "" for form in forms}
