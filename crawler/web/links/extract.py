"""Extracts the links of a page.

The links of a page are defined by its tree, which the HTML Standard describes and Lexbor builds: ``extract_links``. A
tree can cost any amount of time and memory, whatever the size of the page, so ``is_cheap`` returns whether it may be
built here; otherwise ``crawler.web.parsing`` builds it in a process with limits. If a tree exceeds these limits, the
links come from ``scan_links``: from the tags alone, in time and memory linear in the page.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice

from msgspec import Struct, field
from msgspec.structs import replace
from selectolax.lexbor import LexborHTMLParser, LexborNode

from crawler.base.settings.parts import DescribedLinks, LinkSettings
from crawler.url.urls.whatwg import foreign_scheme
from crawler.web.links.about import NOTHING_SAID, About, about
from crawler.web.links.described import TEXT_MOST, Described, long_text
from crawler.web.links.embedded import CLOSED, SELECTOR, embedded
from crawler.web.links.encoding import as_utf8, sniff_encoding
from crawler.web.links.headers import RSL, SPACE, leads_on, names_license
from crawler.web.links.refresh import Refresh, parse_refresh

CHEAP_BYTES = 16 * 1024  # bytes; attributes of one tag are compared with each other, which takes 30 ms for 16 KB
CHEAP_PRODUCT = 2**20  # bytes times start tags; the worst tree takes 40 ms and 45 MB
RAW_LENGTHS = 8  # limit of an href as written, as a multiple of the longest URL: the parser removes dots and spaces
METAS_MOST = 64  # maximum meta elements of a page
META_CHARACTERS_MOST = 1_024  # maximum characters of a ``content`` attribute
TITLES_MOST = 16  # maximum titles to check in a page, because drawings may have titles too

_TAG_NAME = re.compile(rb"<([a-zA-Z]++)")
_TAGS_AT_ONCE = 4096  # bounds the size of the tree, about 0.5 KB per tag
_TAG_BYTES_AT_ONCE = 512 * 1024
_ANCHORS = frozenset(("a", "area"))
_FRAMES = frozenset(("iframe", "frame"))
# Elements of SVG and MathML whose content is HTML (HTML Standard, 13.2.6: integration points).
_HTML_INSIDE = frozenset(("foreignobject", "desc", "title", "annotation-xml", "mi", "mo", "mn", "ms", "mtext"))


class PageLinks(Struct, frozen=True):
    """The links of a page.

    ``base`` is the first ``base[href]`` as written, or None. ``hrefs`` are distinct, in document order, without
    surrounding ASCII white space, otherwise as written; they contain no lone surrogates. ``truncated``: the page has
    more than ``LinkSettings.max_links``. ``metas`` are the name and content of each ``meta`` element that has both.
    ``embedded`` are the embedded resources, if they are wanted, in the same form and without any of ``hrefs``.
    ``too_long`` counts the links that are certainly longer than ``LinkSettings.max_url_length``. ``cut`` is the reason
    why only part of the page was read, if so. ``described`` has the texts and attributes of its links if they are
    wanted (``DescribedLinks``); ``unfollowed`` then has the links that robots should not follow, if the crawl respects
    that. ``about`` is its metadata. ``refresh``: the target of its redirect, if such links are followed. ``license``:
    the URL of its terms of use in RSL, as written."""

    base: str | None
    hrefs: list[str]
    encoding: str
    truncated: bool
    metas: tuple[tuple[str, str], ...] = ()
    too_long: int = 0
    cut: str | None = None
    embedded: list[str] = field(default_factory=list)
    described: Described | None = None
    unfollowed: list[str] = field(default_factory=list)
    about: About = NOTHING_SAID
    refresh: Refresh | None = None
    license: str | None = None


def is_cheap(body: bytes) -> bool:
    """Return whether building the tree of a page takes at most a few hundredths of a second, whatever the page
    contains.

    In the worst case, the parser copies all open formatting elements, with all their attributes, for each other start
    tag. A page has at most as many attributes as bytes, so bytes times start tags bounds the copies."""
    size = len(body)
    if size > CHEAP_BYTES:
        return False
    return size <= 1_024 or size * (body.count(b"<") - body.count(b"</")) <= CHEAP_PRODUCT


def extract_links(body: bytes, charset: str | None, settings: LinkSettings) -> PageLinks:
    """Return the outlinks of an HTML page; ``charset`` is the label in its Content-Type header.

    The page may be any bytes. Hrefs that lead to the page itself (empty, or only a fragment) are omitted, unless a
    ``base`` gives them another meaning."""
    return _read(body, charset, settings, lambda html: (bytes(html),))


def scan_links(
    body: bytes, charset: str | None, settings: LinkSettings, goes_on: Callable[[], bool] = lambda: True
) -> PageLinks:
    """Return the links as ``extract_links`` does, but from the page's tags alone, without a complete tree.

    The result differs where only the tree can interpret a tag: inside ``svg``, ``math``, ``template`` and ``select``,
    and in pages of frames; and in the order of links between the cells of a table. ``goes_on`` is called after every
    few thousand tags: False stops reading, and ``cut`` states that."""
    tags = _TagGroups(goes_on, embedded=settings.embedded != "off")
    links = _read(body, charset, settings, tags)
    return links if tags.ended_at is None or links.cut is not None else replace(links, cut=tags.cut)


def _read(
    body: bytes, charset: str | None, settings: LinkSettings, pieces: Callable[[bytes | bytearray], Iterable[bytes]]
) -> PageLinks:
    encoding = sniff_encoding(body, charset)
    found = Found(settings, described=Described() if isinstance(settings, DescribedLinks) else None)
    for piece in pieces(body if encoding == "utf-8" else as_utf8(body, encoding)):
        found.read(LexborHTMLParser(piece))
    found.leave_out_own()
    return found.links(encoding)


class _TagGroups:
    """Yields the tags of a page in groups, while ``goes_on`` returns True."""

    def __init__(self, goes_on: Callable[[], bool], *, embedded: bool) -> None:
        self._goes_on = goes_on
        self._embedded = embedded
        self.ended_at: int | None = None  # number of tags read, if the page has more

    @property
    def cut(self) -> str:
        """The reason why only part of the page was read."""
        return f"only its first {self.ended_at} tags were read; more would take too long"

    def __call__(self, html: bytes | bytearray) -> Iterable[bytes]:
        from crawler.web.links.scan_tags import link_tags  # noqa: PLC0415, its patterns are large, and few pages need them

        tags, read = link_tags(html, embedded=self._embedded), 0
        while group := list(_some(tags)):
            if read and not self._goes_on():
                self.ended_at = read
                return
            read += len(group)
            yield b"".join(map(closed, dict.fromkeys(group)))


def _some(tags: Iterator[bytes]) -> Iterator[bytes]:
    size = 0
    for tag in islice(tags, _TAGS_AT_ONCE):
        yield tag
        size += len(tag)
        if size > _TAG_BYTES_AT_ONCE:
            return


def closed(tag: bytes) -> bytes:
    """Return the tag with its end tag, so that the tree stays flat. A ``frame`` becomes an ``iframe``, because the
    parser ignores it outside a frameset."""
    name = tag[1:7].lower()
    if name == b"iframe":
        return tag + b"</iframe>"
    whole = _name(tag)
    if whole in CLOSED:
        return b"%b</%b>" % (tag, whole.encode("ascii"))
    if name[:5] == b"frame":
        return b"<iframe" + tag[6:] + b"</iframe>"
    return tag + b"</a>" if whole == "a" else tag


def _name(tag: bytes) -> str:
    found = _TAG_NAME.match(tag)
    return "" if found is None else found[1].decode("ascii").lower()


class Found(Struct):
    """The parts of a page that were read so far."""

    settings: LinkSettings
    base: str | None = None
    hrefs: dict[str, None] = field(default_factory=dict)
    metas: list[tuple[str, str]] = field(default_factory=list)
    too_long: int = 0
    embedded: dict[str, None] = field(default_factory=dict)
    described: Described | None = None
    unfollowed: Described = field(default_factory=Described)  # links as written
    title: str | None = None
    language: str | None = None  # the language of the html element
    pragmas: dict[str, str] = field(default_factory=dict)  # the first value of each ``http-equiv`` or link relation
    canonical: str | None = None
    cut: bool = False  # True if a link was shortened

    def read(self, parser: LexborHTMLParser) -> None:
        """Add the contents of the tree."""
        self._read_page(parser)
        self._read_links(parser)
        if self.settings.embedded != "off":
            described = self.described
            for node in parser.css(SELECTOR):
                for text in embedded(node.tag, node.attrs):
                    self.add(text, self.embedded)
                    if described is not None and (link := text.partition("#")[0]) not in described.texts:
                        described.add(link, node)

    def _read_page(self, parser: LexborHTMLParser) -> None:
        """Add the page's metadata."""
        for node in parser.tags("meta"):
            attributes = node.attrs
            content = attributes.get("content")
            if content is not None:
                self.name_meta(attributes.get("name"), content)
                self.obey_pragma(attributes.get("http-equiv"), content)
        if self.title is None:
            self.title = title_of(parser)
        if self.language is None and parser.root is not None:
            self.language = parser.root.attrs.get("lang") or None

    def _read_links(self, parser: LexborHTMLParser) -> None:
        hrefs, longest, most = self.hrefs, self.longest, self.settings.max_links
        seen: Mapping[str, None] = hrefs
        described = self.described
        texts = None if described is None else described.texts
        respect_rel = self.settings.respect_rel_nofollow
        # This loop runs for each link of each page, so the usual case is handled inline.
        for node in parser.css("[href],[src]" if _FRAMES.intersection(self.settings.kinds) else "[href]"):
            kind, attributes = node.tag, None
            if kind in _ANCHORS:
                attributes = node.attributes
                href = attributes.get("href")
                if href is None and "href" in attributes:  # the attribute has no value
                    href = ""
                if respect_rel and "nofollow" in (attributes.get("rel") or "").lower().split():
                    if described is not None and href is not None:
                        self._leave_out(href.strip(SPACE), node)
                    continue
            else:
                href = self._other(node)
                if self.base is not None:
                    seen = {}  # the next link to the page itself replaces the description
            if href is None or (href := href.strip(SPACE)) in seen:
                continue
            if len(href) > longest or len(hrefs) > most:
                self.add(href, hrefs)
                continue
            hrefs[href] = None
            if texts is not None and described is not None:
                link = href.partition("#")[0] if "#" in href else href
                # Links into the page itself are skipped, unless a base gives them another meaning.
                if link not in texts and (link or self.base is not None):
                    if kind == "a" and attributes and not attributes.get("rel"):
                        text = node.text_lexbor()
                        texts[link] = " ".join(text.split()) if len(text) <= TEXT_MOST else long_text(text)
                    else:
                        described.add(link, node, attributes)

    def leave_out_own(self) -> None:
        """Remove the links to the page itself, unless a base gives them another meaning."""
        if self.base is None:
            for links in (self.hrefs, self.unfollowed.texts):
                for own in [href for href in links if not href or href[0] == "#"]:
                    del links[own]

    def links(self, encoding: str) -> PageLinks:
        """Return the links of the page."""
        base, hrefs, metas, settings = self.base, self.hrefs, tuple(self.metas), self.settings
        words = about(self.title, self.language or self.pragmas.get("content-language"), self.canonical)
        if base is not None and len(base) > self.longest and not foreign_scheme(base):
            # Without the base, links have no meaning, and nearly all would be too long.
            cut = f"the base of its links has {len(base)} characters"
            return PageLinks(None, [], encoding, False, metas, self.too_long + len(hrefs), cut, about=words)
        found = list(islice(hrefs, settings.max_links))
        resources = [href for href in islice(self.embedded, settings.max_links) if href not in hrefs]
        truncated = max(len(hrefs), len(self.embedded)) > settings.max_links
        left_out = [href for href in islice(self.unfollowed.texts, settings.max_links) if href not in hrefs]
        said = self._said(left_out)
        others = resources or left_out or base is not None or self.cut or truncated
        if said is not None and found and not others and "" not in said.texts:
            said.of = found
        moves = parse_refresh(self.pragmas.get("refresh", "x"))
        read = (metas, self.too_long, None, resources, said, left_out, words, moves, self.pragmas.get("license"))
        return PageLinks(base, found, encoding, truncated, *read)

    def _said(self, left_out: Iterable[str]) -> Described | None:
        """Return the descriptions of the page's links."""
        said = self.described
        if said is not None:
            for href in left_out:
                said.take(href.partition("#")[0], self.unfollowed, href)
            if self.base is not None:
                said.name("", "a")  # links before the base seemed to lead to the page itself
        return said

    @property
    def longest(self) -> int:
        """The maximum number of characters of a link as written."""
        return RAW_LENGTHS * self.settings.max_url_length

    def add(self, href: str, to: dict[str, None]) -> None:
        """Add a link, unless the page already has more links than the limit."""
        href = href.strip(SPACE)
        if len(href) > self.longest:
            self.cut = True
            href = href.partition("#")[0]
            if len(href) > self.longest:
                # A string that is clearly not a web URL, such as an image in `data:`, can be rejected by looking only
                # at its beginning.
                if not foreign_scheme(href):
                    self.too_long += 1
                    return
                href = href[: self.longest]
        if len(to) <= self.settings.max_links:
            to[href] = None

    def _leave_out(self, href: str, node: LexborNode) -> None:
        """Record a link that robots should not follow."""
        if self.may_leave_out(href):
            self.unfollowed.add(href, node)

    def may_leave_out(self, href: str) -> bool:
        """Return whether a link that robots should not follow must be recorded: it is new, and there is room."""
        unfollowed = self.unfollowed.texts
        return len(href) <= self.longest and len(unfollowed) <= self.settings.max_links and href not in unfollowed

    def _other(self, node: LexborNode) -> str | None:
        """Return the target of an element other than an anchor."""
        kind = node.tag
        attributes = node.attrs
        if kind == "link":
            return self.leads_to(kind, attributes.get("href"), attributes.get("rel"), attributes.get("type"))
        if kind in _FRAMES:
            return self.leads_to(kind, attributes.get("src"), None, None)
        if kind == "base" and self.base is None and "href" in attributes and not _is_foreign(node):
            return self.leads_to(kind, attributes.get("href"), None, None)
        return None

    def leads_to(self, kind: str, href: str | None, rel: str | None, media_type: str | None) -> str | None:
        """Return the target of an element other than an anchor. ``href`` is its ``href``, or the ``src`` of a frame."""
        if kind in _FRAMES:
            return href if kind in self.settings.kinds else None
        if kind == "base":
            if self.base is None:
                self.base = (href or "").strip(SPACE)
            return None
        relations = (rel or "").lower().split()
        if "canonical" in relations and self.canonical is None:
            self.canonical = href
        if media_type and len(media_type) >= len(RSL) and href and names_license(rel or "", media_type):
            self.pragmas.setdefault("license", href.strip(SPACE))
        return href if leads_on(relations, (media_type or "").lower(), self.settings) else None

    def name_meta(self, name: str | None, content: str) -> None:
        """Add a ``meta`` element."""
        if name is not None and len(self.metas) < METAS_MOST:
            self.metas.append((name.strip(SPACE)[:META_CHARACTERS_MOST], content[:META_CHARACTERS_MOST]))

    def obey_pragma(self, pragma: str | None, content: str) -> None:
        """Process the ``http-equiv`` of a ``meta`` element."""
        pragma = (pragma or "").lower()
        if pragma == "refresh" and "refresh" in self.settings.kinds:
            found = parse_refresh(content)
            if found is not None:
                self.pragmas.setdefault(pragma, content)
            if found is not None and found.target:
                self.add(found.target, self.hrefs)
                if self.described is not None:
                    self.described.name(found.target.partition("#")[0], "meta")
        elif pragma == "content-language" and "," not in content and (tag := content.strip(SPACE).partition(" ")[0]):
            self.pragmas.setdefault(pragma, tag)


def title_of(parser: LexborHTMLParser) -> str | None:
    """Return the text of the document's first ``title`` element, ignoring those inside SVG."""
    node = parser.css_first("title")
    if node is not None and _is_foreign(node):
        node = next((other for other in islice(parser.css("title"), TITLES_MOST) if not _is_foreign(other)), None)
    return None if node is None else node.text()


def _is_foreign(node: LexborNode) -> bool:
    """Return whether the element belongs to SVG or MathML, where its name has another meaning."""
    parent = node.parent
    while parent is not None:
        name = (parent.tag or "").lower()
        if name in ("svg", "math") or name in _HTML_INSIDE:
            return name not in _HTML_INSIDE
        parent = parent.parent
    return False
