"""A hook of mkdocs: the site lists its pages for language models in llms.txt (https://llmstxt.org)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.nav import Navigation
from mkdocs.structure.pages import Page

_NAVIGATION: list[Navigation] = []


def on_nav(nav: Navigation, **_: Any) -> None:
    _NAVIGATION[:] = [nav]


def on_post_build(config: MkDocsConfig) -> None:
    lines = [f"# {config.site_name}", "", f"> {config.site_description}"]
    for item in _NAVIGATION[0].items:
        lines += ["", f"## {item.title}", ""]
        lines += [line_of(page) for page in ([item] if isinstance(item, Page) else item.children or [])]
    (Path(config.site_dir) / "llms.txt").write_text("\n".join(lines) + "\n", "utf-8")


def line_of(page: Any) -> str:
    """The link to a page, with the first sentence of its first paragraph."""
    paragraph = next((text for text in re.split(r"\n{2,}", page.markdown) if re.match(r"[A-Z*[]|`[^`]", text)), "")
    plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", " ".join(paragraph.split()))
    return f"- [{page.title}]({page.url or 'index.html'}): {re.split(r'(?<=[.?]) ', plain)[0].removesuffix(':')}"
