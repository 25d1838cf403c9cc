"""The links of a page from its tokens alone, by ``crawler._native``: what the tree would say, without the tree.

This is the usual way. It takes a tenth of the time of a tree, and time linear in the page whatever that holds, so no
page is too dear for it. Where only a tree can tell, which is rare, it says so, and why. Where the module is not built,
that is the answer to every page.
"""

from __future__ import annotations

from enum import StrEnum

from crawler.base.settings.parts import DescribedLinks, LinkSettings
from crawler.web.links.described import Described
from crawler.web.links.embedded import attributes_of, embedded
from crawler.web.links.encoding import as_utf8, sniff_encoding
from crawler.web.links.extract import Found, PageLinks
from crawler.web.links.headers import SPACE

try:
    from crawler.base.native import compiled as _native
except ImportError:  # the code in Python does the work
    _scan_page = None
else:
    _scan_page = _native.scan_page

# What ``scan_page`` tells of a page besides its links.
_Told = tuple[list[tuple[str, str]], list[tuple[str, str]], str | None, str | None, int]

TOKENS_BYTES = 2**20  # of a page whose tokens are read at once: 30 ms at most

# Encodings in which a byte below 128 may be part of another character.
_WIDE = frozenset(("utf-16le", "utf-16be", "iso-2022-jp"))


class Undecided(StrEnum):
    """Why a tree is needed."""

    ABSENT = "absent"  # the module is not built, or switched off
    LARGE = "large"  # its tokens are read elsewhere
    TEXT = "text"  # what is said of a link is wanted, and its element holds more than text
    FRAMES = "frames"
    TABLE = "table"  # something was moved in front of it
    FOREIGN = "foreign"  # HTML in a drawing or a formula
    TEMPLATE = "template"
    DEPTH = "depth"  # of tables or drawings in each other
    LINKS = "links"  # about as many as are taken from a page, or some that are too long
    ELEMENTS = "elements"  # so many that may lead on besides anchors that asking about each takes long


def token_links(body: bytes, charset: str | None, settings: LinkSettings) -> PageLinks | Undecided:
    """The links of an HTML page as ``extract_links`` gives them, or why these cannot be told without a tree."""
    if _scan_page is None:
        return Undecided.ABSENT
    encoding = sniff_encoding(body, charset)
    is_plain = encoding == "utf-8" or (encoding not in _WIDE and body.isascii())
    html = body if is_plain else as_utf8(body, encoding)
    found = _scan(html, settings, keeps_own=False)
    if isinstance(found, Found) and found.base is not None:
        found = _scan(html, settings, keeps_own=True)
    if isinstance(found, Undecided):
        return found
    # Links that are too long are counted, and a tree has copies of some.
    return found.links(encoding) if not found.too_long else Undecided.LINKS


def _scan(html: bytes | bytearray, settings: LinkSettings, *, keeps_own: bool) -> Found | Undecided:
    """What the tokens of a page say. Without ``keeps_own`` links to the page itself are left out, as they must be if it
    has no base; most pages have many of them."""
    assert _scan_page is not None
    found = Found(settings, described=Described() if isinstance(settings, DescribedLinks) else None)
    said = found.described
    resources = Described()  # they are described after all links

    def other(kind: str, href: str | None, rel: str | None, media_type: str | None) -> str | None:
        if kind == "a":
            return None if "nofollow" in (rel or "").lower().split() else ""
        if kind == "long":
            found.add(href or "", found.hrefs)
            return None
        link = found.leads_to(kind, href, rel, media_type)
        return None if link is None else link.strip(SPACE)

    def embeds(kind: str, target: str | None, other: str | None, rel: str | None) -> None:
        for text in embedded(kind, attributes_of(kind, target, other)):
            found.add(text, found.embedded)
            if said is not None and (link := text.partition("#")[0]) not in resources.texts:
                resources.note(link, kind, rel)

    def describes(kind: str, link: str, rel: str | None, left_out: bool) -> dict[str, str] | None:
        to = found.unfollowed if left_out else said
        if to is None or (left_out and not found.may_leave_out(link)):
            return None
        to.note(link, kind, rel)
        return to.texts if kind == "a" else None

    told = _scan_page(
        html,
        (found.hrefs, None if said is None else said.texts),
        (found.longest, settings.max_links),
        (keeps_own, settings.respect_rel_nofollow),
        (other, None if settings.embedded == "off" else embeds, describes),
    )
    return Undecided(told) if isinstance(told, str) else _completed(found, told, resources)


def _completed(found: Found, told: _Told, resources: Described) -> Found | Undecided:
    """What was found with what the page says of itself, and what it says of its ``resources``."""
    metas, pragmas, found.title, found.language, own = told
    found.language = found.language or None
    for name, content in metas:
        found.name_meta(name, content)
    if pragmas and (why := _obey(found, pragmas, own)) is not None:
        return why
    for link in resources.texts:
        assert found.described is not None
        found.described.take(link, resources, link)
    if found.unfollowed.texts:
        found.leave_out_own()
    return found


def _obey(found: Found, pragmas: list[tuple[str, str]], own: int) -> Undecided | None:
    """Add what the ``http-equiv`` of a page say: where the page leads by itself comes before its links."""
    links, found.hrefs = found.hrefs, {}
    said = found.described
    found.described = None if said is None else Described()
    for pragma, content in pragmas:
        found.obey_pragma(pragma, content)
    if not found.hrefs:
        found.hrefs, found.described = links, said
        return None
    if len(found.hrefs) + len(links) + own > found.settings.max_links:
        return Undecided.LINKS
    found.hrefs |= links
    if said is not None and found.described is not None:
        if found.cut:
            return Undecided.LINKS  # one that is the same as the shortened one is not described
        for link in said.texts:
            found.described.take(link, said, link)
    found.leave_out_own()
    return None
