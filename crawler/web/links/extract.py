"""Extracts the links of a page.

What a page links to is what its tree says, the tree that the HTML Standard describes and Lexbor builds:
``extract_links``. A tree can cost any amount of time and memory, whatever the size of the page, so ``is_cheap`` says
for which pages it may be built here; ``crawler.web.parsing`` builds that of any other in a process with limits. Where a
tree breaks these, the links are those of ``scan_links``: the tags alone, in time and memory linear in the page.
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

CHEAP_BYTES = 16 * 1024  # attributes of one tag are compared with each other: 16 KB of them take 30 ms
CHEAP_PRODUCT = 2**20  # of bytes and start tags: what a tree of them needs at worst is 40 ms and 45 MB
RAW_LENGTHS = 8  # times the longest URL that an href may be long as written: the parser shortens dots and spaces
METAS_MOST = 64  # of one page
META_CHARACTERS_MOST = 1_024  # of a content
TITLES_MOST = 16  # of one page that are looked at, if drawings have some too

_TAG_NAME = re.compile(rb"<([a-zA-Z]++)")
_TAGS_AT_ONCE = 4096  # bounds the size of the tree, about 0.5 KB a tag
_TAG_BYTES_AT_ONCE = 512 * 1024
_ANCHORS = frozenset(("a", "area"))
_FRAMES = frozenset(("iframe", "frame"))
# Elements of SVG and MathML whose content is HTML (HTML Standard, 13.2.6: integration points).
_HTML_INSIDE = frozenset(("foreignobject", "desc", "title", "annotation-xml", "mi", "mo", "mn", "ms", "mtext"))


class PageLinks(Struct, frozen=True):
    """The links of a page.

    ``base`` is the first ``base[href]`` as written, or None. ``hrefs`` are distinct, in document order,
    without surrounding ASCII white space, otherwise as written; they contain no lone surrogates.
    ``truncated``: the page has more than ``LinkSettings.max_links``. ``metas`` are the name and content of each
    ``meta`` element that has both. ``embedded`` are the embedded resources, if they are wanted, as ``hrefs`` are and
    none of these. ``too_long`` counts the links that can only be longer than
    ``LinkSettings.max_url_length``. ``cut`` says why the page was not read as a whole, if it was not. ``described`` has
    what the page says of its links where that is wanted (``DescribedLinks``); ``unfollowed`` then has those that it
    asks robots not to follow, as far as that is respected. ``about`` is what it
    says of itself. ``refresh``: where it sends its visitors, if such links are followed. ``license``: its terms of use
    in RSL, as written.
    """

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
    """Whether the tree of a page costs no more than a few hundredths of a second, whatever the page holds.

    The worst that a tree can do with ``n`` start tags is to copy all open formatting elements, with all their
    attributes, for each of the others. The attributes are at most as many as bytes, so the product bounds the copies.
    """
    size = len(body)
    if size > CHEAP_BYTES:
        return False
    return size <= 1_024 or size * (body.count(b"<") - body.count(b"</")) <= CHEAP_PRODUCT


def extract_links(body: bytes, charset: str | None, settings: LinkSettings) -> PageLinks:
    """The outlinks of an HTML page; ``charset`` is the label in its Content-Type header.

    It accepts any bytes. Hrefs that lead to the page itself (empty, or only a fragment) are left out, unless a
    ``base`` gives them another meaning.
    """
    return _read(body, charset, settings, lambda html: (bytes(html),))


def scan_links(
    body: bytes, charset: str | None, settings: LinkSettings, goes_on: Callable[[], bool] = lambda: True
) -> PageLinks:
    """As ``extract_links``, but of the page's tags alone, without a tree of all of it.

    It differs where only the tree can tell what a tag is: inside ``svg``, ``math``, ``template`` and ``select``, and in
    pages of frames; and in the order of links between the cells of a table. ``goes_on`` is asked after every few
    thousand tags: False ends the reading, and ``cut`` says so."""
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
    """Gives out the tags of a page, some at a time, as long as ``goes_on`` says so."""

    def __init__(self, goes_on: Callable[[], bool], *, embedded: bool) -> None:
        self._goes_on = goes_on
        self._embedded = embedded
        self.ended_at: int | None = None  # tags, if the page has more

    @property
    def cut(self) -> str:
        """Why the page was not read as a whole."""
        return f"only its first {self.ended_at} tags were read: more would take too long"

    def __call__(self, html: bytes | bytearray) -> Iterable[bytes]:
        from crawler.web.links.tags import link_tags  # noqa: PLC0415, its patterns are large, and few pages need them

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
    """The tag with its end tag, so that the tree stays flat. Outside a frameset the parser ignores a ``frame``."""
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
    """What was read of a page so far."""

    settings: LinkSettings
    base: str | None = None
    hrefs: dict[str, None] = field(default_factory=dict)
    metas: list[tuple[str, str]] = field(default_factory=list)
    too_long: int = 0
    embedded: dict[str, None] = field(default_factory=dict)
    described: Described | None = None
    unfollowed: Described = field(default_factory=Described)  # by links as they are written
    title: str | None = None
    language: str | None = None  # of the html element
    pragmas: dict[str, str] = field(default_factory=dict)  # what is stated first, by http-equiv or relation
    canonical: str | None = None
    cut: bool = False  # whether a link was shortened

    def read(self, parser: LexborHTMLParser) -> None:
        """Add what the tree holds."""
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
        """Add what the page says of itself."""
        for node in parser.tags("meta"):
            attributes = node.attrs
            content = attributes.get("content")
            if content is not None:
                self.name_meta(attributes.get("name"), content)
                self.obey_pragma(attributes.get("http-equiv"), content)
        if self.title is None:
            self.title = _title(parser)
        if self.language is None and parser.root is not None:
            self.language = parser.root.attrs.get("lang") or None

    def _read_links(self, parser: LexborHTMLParser) -> None:
        hrefs, longest, most = self.hrefs, self.longest, self.settings.max_links
        seen: Mapping[str, None] = hrefs
        described = self.described
        texts = None if described is None else described.texts
        respect_rel = self.settings.respect_rel_nofollow
        # This loop runs for each link of each page: what is usual is done in place.
        for node in parser.css("[href],[src]" if _FRAMES.intersection(self.settings.kinds) else "[href]"):
            kind, attributes = node.tag, None
            if kind in _ANCHORS:
                attributes = node.attributes
                href = attributes.get("href")
                if href is None and "href" in attributes:  # without a value
                    href = ""
                if respect_rel and "nofollow" in (attributes.get("rel") or "").lower().split():
                    if described is not None and href is not None:
                        self._leave_out(href.strip(SPACE), node)
                    continue
            else:
                href = self._other(node)
                if self.base is not None:
                    seen = {}  # what seemed to lead to the page itself is described by the next link to it
            if href is None or (href := href.strip(SPACE)) in seen:
                continue
            if len(href) > longest or len(hrefs) > most:
                self.add(href, hrefs)
                continue
            hrefs[href] = None
            if texts is not None and described is not None:
                link = href.partition("#")[0] if "#" in href else href
                # Links into the page itself are none, unless a base gives them another meaning.
                if link not in texts and (link or self.base is not None):
                    if kind == "a" and attributes and not attributes.get("rel"):
                        text = node.text_lexbor()
                        texts[link] = " ".join(text.split()) if len(text) <= TEXT_MOST else long_text(text)
                    else:
                        described.add(link, node, attributes)

    def leave_out_own(self) -> None:
        """Leave out the links that lead to the page itself, unless a base gives them another meaning."""
        if self.base is None:
            for links in (self.hrefs, self.unfollowed.texts):
                for own in [href for href in links if not href or href[0] == "#"]:
                    del links[own]

    def links(self, encoding: str) -> PageLinks:
        """The links of the page."""
        base, hrefs, metas, settings = self.base, self.hrefs, tuple(self.metas), self.settings
        words = about(self.title, self.language or self.pragmas.get("content-language"), self.canonical)
        if base is not None and len(base) > self.longest and not foreign_scheme(base):
            # What a link means cannot be told without it, and nearly all would be too long.
            cut = f"the base of its links has {len(base)} characters"
            return PageLinks(
                None,
                [],
                encoding,
                False,
                metas,
                self.too_long + len(hrefs),
                cut,
                about=words,
                license=self.pragmas.get("license"),
            )
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
        """What the page says of its links."""
        said = self.described
        if said is not None:
            for href in left_out:
                said.take(href.partition("#")[0], self.unfollowed, href)
            if self.base is not None:
                said.name("", "a")  # those that came before the base seemed to lead to the page itself
        return said

    @property
    def longest(self) -> int:
        """Characters of a link as it is written."""
        return RAW_LENGTHS * self.settings.max_url_length

    def add(self, href: str, to: dict[str, None]) -> None:
        """Add a link, unless there is one more than the limit already."""
        href = href.strip(SPACE)
        if len(href) > self.longest:
            self.cut = True
            href = href.partition("#")[0]
            if len(href) > self.longest:
                # Text that is plainly no URL of the web, such as an image in `data:`, is rejected by its beginning.
                if not foreign_scheme(href):
                    self.too_long += 1
                    return
                href = href[: self.longest]
        if len(to) <= self.settings.max_links:
            to[href] = None

    def _leave_out(self, href: str, node: LexborNode) -> None:
        """Note a link that the page asks robots not to follow."""
        if self.may_leave_out(href):
            self.unfollowed.add(href, node)

    def may_leave_out(self, href: str) -> bool:
        """Whether a link that the page asks robots not to follow is to be noted: it is new, and there is room."""
        unfollowed = self.unfollowed.texts
        return len(href) <= self.longest and len(unfollowed) <= self.settings.max_links and href not in unfollowed

    def _other(self, node: LexborNode) -> str | None:
        """What an element leads to that is no anchor."""
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
        """What an element leads to that is no anchor. ``href`` is that, or the ``src`` of a frame."""
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
        """Add what the ``http-equiv`` of a ``meta`` element says."""
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


def _title(parser: LexborHTMLParser) -> str | None:
    """The text of the first ``title`` of the document. That of a drawing is not its own."""
    node = parser.css_first("title")
    if node is not None and _is_foreign(node):
        node = next((other for other in islice(parser.css("title"), TITLES_MOST) if not _is_foreign(other)), None)
    return None if node is None else node.text()


def _is_foreign(node: LexborNode) -> bool:
    """Whether the element belongs to SVG or MathML, where its name means nothing."""
    parent = node.parent
    while parent is not None:
        name = (parent.tag or "").lower()
        if name in ("svg", "math") or name in _HTML_INSIDE:
            return name not in _HTML_INSIDE
        parent = parent.parent
    return False
