"""What a page says of its links."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct, field
from selectolax.lexbor import LexborNode

TEXT_MOST = 200  # characters of what the page says of a link


class Described(Struct):
    """What a page says of its links, which are without their fragments here. ``texts`` has all of them, in the order
    in which they were found, and what their elements say. ``kinds`` has the names of the elements that are no ``a``,
    and ``rels`` has each ``rel`` that there is: few links are in these. ``of`` is the list of hrefs whose links these
    are, in its order and without any others; None if there is no such list."""

    texts: dict[str, str] = field(default_factory=dict)
    kinds: dict[str, str] = field(default_factory=dict)
    rels: dict[str, str] = field(default_factory=dict)
    of: list[str] | None = None

    def add(self, link: str, node: LexborNode, attributes: Mapping[str, str | None] | None = None) -> None:
        """Add what the node says of a link that is not there yet. ``attributes``: those of the node, where they are at
        hand."""
        kind = node.tag or ""
        self.note(link, kind, (attributes or node.attributes).get("rel"))
        if kind == "a":
            text = node.text_lexbor()
            self.texts[link] = " ".join(text.split()) if len(text) <= TEXT_MOST else long_text(text)

    def note(self, link: str, kind: str, rel: str | None) -> None:
        """Add a link that is not there yet, with the name of its element and its ``rel``, but without its text."""
        self.texts[link] = ""
        if kind != "a":
            self.kinds[link] = kind
        if rel and (rel := " ".join(rel[:TEXT_MOST].lower().split())):
            self.rels[link] = rel

    def name(self, link: str, kind: str) -> None:
        """Add a link of which nothing is known but the name of its element, if it is not there yet."""
        if link not in self.texts:
            self.texts[link] = ""
            if kind != "a":
                self.kinds[link] = kind

    def take(self, link: str, other: Described, known: str) -> None:
        """Add a link, if it is not there yet, with what another one says of the link that it knows as ``known``."""
        if link not in self.texts:
            self.texts[link] = other.texts[known]
            if known in other.kinds:
                self.kinds[link] = other.kinds[known]
            if known in other.rels:
                self.rels[link] = other.rels[known]


def long_text(text: str) -> str:
    """The text of an element on one line, cut."""
    return " ".join(text[: 8 * TEXT_MOST].split())[:TEXT_MOST]


def without_fragments(hrefs: Iterable[str]) -> dict[str, None]:
    """The distinct links, in order."""
    return dict.fromkeys([href.partition("#")[0] if "#" in href else href for href in hrefs])
