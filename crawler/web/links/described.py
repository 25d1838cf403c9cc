"""The texts and attributes of a page's links."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct, field
from selectolax.lexbor import LexborNode

TEXT_MOST = 200  # characters of a link's text


class Described(Struct):
    """The texts and attributes of a page's links, without their fragments. ``texts`` has the text of every link, in the
    order in which they were found. ``kinds`` has the element names other than ``a``, and ``rels`` the ``rel``
    attributes; few links are in these. ``of`` is the list of hrefs from which all these links were made, in the same
    order; None if there is no such list."""

    texts: dict[str, str] = field(default_factory=dict)
    kinds: dict[str, str] = field(default_factory=dict)
    rels: dict[str, str] = field(default_factory=dict)
    of: list[str] | None = None

    def add(self, link: str, node: LexborNode, attributes: Mapping[str, str | None] | None = None) -> None:
        """Add a new link with the text and attributes of its node. ``attributes``: those of the node, if
        already read."""
        kind = node.tag or ""
        self.note(link, kind, (attributes or node.attributes).get("rel"))
        if kind == "a":
            text = node.text_lexbor()
            self.texts[link] = " ".join(text.split()) if len(text) <= TEXT_MOST else long_text(text)

    def note(self, link: str, kind: str, rel: str | None) -> None:
        """Add a new link, with the name of its element and its ``rel``, but without its text."""
        self.texts[link] = ""
        if kind != "a":
            self.kinds[link] = kind
        if rel and (rel := " ".join(rel[:TEXT_MOST].lower().split())):
            self.rels[link] = rel

    def name(self, link: str, kind: str) -> None:
        """Add a link, if it is new, with only the name of its element."""
        if link not in self.texts:
            self.texts[link] = ""
            if kind != "a":
                self.kinds[link] = kind

    def take(self, link: str, other: Described, known: str) -> None:
        """Add a link, if it is new, with the description of the link ``known`` in ``other``."""
        if link not in self.texts:
            self.texts[link] = other.texts[known]
            if known in other.kinds:
                self.kinds[link] = other.kinds[known]
            if known in other.rels:
                self.rels[link] = other.rels[known]


def long_text(text: str) -> str:
    """Return the text of an element on one line, shortened."""
    return " ".join(text[: 8 * TEXT_MOST].split())[:TEXT_MOST]


def without_fragments(hrefs: Iterable[str]) -> dict[str, None]:
    """Return the distinct links without their fragments, in order."""
    return dict.fromkeys([href.partition("#")[0] if "#" in href else href for href in hrefs])
