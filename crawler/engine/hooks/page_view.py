"""A page as user functions see it. Its parts can be sent to another process."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Generator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from msgspec.structs import replace
from multidict import CIMultiDict, CIMultiDictProxy
from selectolax.lexbor import LexborHTMLParser, LexborNode

from crawler.base.settings.parts import LINK_KINDS, DescribedLinks
from crawler.engine.link_judge import Link
from crawler.url.urls.canonicaliser import Canonicaliser
from crawler.web.extract.edges import HEADER, REDIRECT
from crawler.web.extract.page_text import Extracted, Forms
from crawler.web.links.encoding import encoding_name, python_codec, sniff_encoding
from crawler.web.links.extract import extract_links, title_of
from crawler.web.links.headers import FEED, MARKDOWN
from crawler.web.links.markdown_links import is_markdown, markdown_links
from crawler.web.links.query import encode_queries

if TYPE_CHECKING:
    from crawler.engine.handed_page import HandedPage  # processes with user code do not load the engine

_EVERY_LINK = DescribedLinks(kinds=(*LINK_KINDS, FEED, MARKDOWN), embedded="any")


class PageFacts(NamedTuple):
    """The facts of a page. ``stated``: the charset from the server. ``record``: the page's record as a line of JSON."""

    id: str
    url: str
    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes
    stated: str | None
    content_type: str | None
    depth: int
    via: str | None
    links: tuple[str, ...]
    record: bytes


def facts_of(page: HandedPage) -> PageFacts:
    """Return the facts of a page for user code."""
    from crawler.job.records import encode_page  # noqa: PLC0415
    from crawler.web.fetch.outcome import browser_text  # noqa: PLC0415 -- not loaded in processes, see above

    record, response = page.record, page.draft.response
    body = None if response is None else response.body
    if page.draft.rendering is not None:
        body = page.draft.body  # the rendered document
    headers = () if response is None else response.headers.items()
    return PageFacts(
        page.id,
        record.entry.href,
        record.status or 0,
        tuple((str(name), browser_text(value)) for name, value in headers),
        body or b"",
        page.draft.charset,
        record.content_type,
        record.entry.depth,
        record.entry.via,
        tuple(page.links),
        encode_page(replace(record, id=page.id)),
    )


class Follows(int):
    """Whether a link is followed. Use it like a bool, or ``await`` it; the type bool itself cannot be subclassed."""

    def __repr__(self) -> str:
        return repr(bool(self))

    def __await__(self) -> Generator[None, None, bool]:
        yield from ()
        return bool(self)


class StoredData(dict[str, Any]):
    """The data of a finished page. It can no longer change."""

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise RuntimeError("the page is finished, so its data is stored: change it before done()")

    __setitem__ = __delitem__ = update = setdefault = pop = popitem = clear = __ior__ = _refuse


End = Callable[["Page", bool], Awaitable[bool]]


class Page:
    """A page that was fetched.

    ``id`` identifies this visit of this URL: a page that is delivered again, because the program was killed before the
    page was finished, keeps its ``id``. ``visit`` is 1 for the first visit. ``data`` is stored as ``data`` in the
    record; its values must be valid JSON."""

    def __init__(self, facts: PageFacts, follows: Callable[[str], bool], end: End | None = None) -> None:
        """``follows`` returns whether the crawl would follow a link. ``end(page, keep)`` finishes the page, and outputs
        keep it if ``keep`` is true. If ``end`` is None, the page is finished when the function returns."""
        self._data: dict[str, Any] = {}
        self._facts = facts
        self._follows = follows
        self._followed: list[str] = []
        self._end = end

    def __repr__(self) -> str:
        return f"<Page {self.status} {self.url}>"

    @property
    def data(self) -> dict[str, Any]:
        """The dict that is stored as ``data`` in the record. Add to it; it cannot be replaced."""
        return self._data

    @property
    def id(self) -> str:
        return self._facts.id

    @property
    def visit(self) -> int:
        return int(self.id.rpartition("-")[2])

    @property
    def url(self) -> str:
        """The canonical URL that was fetched. A redirect counts as a separate page, so this is never the target of a
        redirect."""
        return self._facts.url

    @property
    def status(self) -> int:
        """The HTTP status."""
        return self._facts.status

    @cached_property
    def headers(self) -> Mapping[str, str]:
        """The headers of the response. Names are case-insensitive; for a repeated name this returns the first value,
        and ``headers.getall(name)`` returns all of them."""
        return CIMultiDictProxy(CIMultiDict(self._facts.headers))

    @property
    def body(self) -> bytes:
        """The body, decoded from its content encoding. It is empty for a redirect."""
        return self._facts.body

    @cached_property
    def html(self) -> str:
        """The body as text, in the page's ``charset``. Invalid bytes become U+FFFD."""
        return self.body.decode(python_codec(self.charset), "replace").removeprefix("\ufeff")

    @cached_property
    def text(self) -> str:
        """The main text, as ``--output text`` keeps it by default; for types other than HTML, the whole body as text.
        It is extracted on first use, in the calling thread; extraction takes longer for a long page."""
        return self._extracted(Forms.TEXT).text or ""

    @cached_property
    def markdown(self) -> str:
        """The main content in Markdown, as ``--output markdown`` keeps it; extracted like ``text``."""
        return self._extracted(Forms.MARKDOWN).markdown or ""

    @cached_property
    def structured(self) -> dict[str, Any]:
        """The structured data of the page (JSON-LD, microdata, OpenGraph), with the keys of ``structured.jsonl``."""
        found: dict[str, Any] = json.loads(self._extracted(Forms.STRUCTURED).structured or b"{}")
        return found

    @cached_property
    def title(self) -> str | None:
        """The title; None if the page has none."""
        found = self.record.get("title") or (title_of(self._tree) if self._is_html else None)
        return " ".join((found or "").split()) or None

    def css(self, selector: str) -> list[LexborNode]:
        """The elements that match a CSS selector, in document order, as nodes of selectolax: ``node.text()``,
        ``node.attributes``, ``node.css(...)``. Raises an exception for an invalid selector."""
        return self._tree.css(selector)

    def css_first(self, selector: str) -> LexborNode | None:
        """The first element that matches a CSS selector; None if no element matches."""
        return self._tree.css_first(selector)

    def json(self) -> Any:
        """The body, parsed as JSON. Raises ValueError if it is not valid JSON, or nested too deeply."""
        try:
            return json.loads(self.body)
        except RecursionError as error:
            raise ValueError(str(error)) from error

    @cached_property
    def charset(self) -> str:
        """The encoding of the body, detected as in browsers: a name from the Encoding Standard, in lower case."""
        stated = self._facts.stated
        if not self._is_html:
            return (stated and encoding_name(stated)) or "utf-8"
        return sniff_encoding(self.body, stated)

    @property
    def content_type(self) -> str | None:
        """``type/subtype`` in lower case; None if the server sent no type."""
        return self._facts.content_type

    @property
    def depth(self) -> int:
        """The depth of the page: its distance from a seed, in links."""
        return self._facts.depth

    @property
    def via(self) -> str | None:
        """The URL of the page or redirect that led to this page; None for a seed."""
        return self._facts.via

    @cached_property
    def links(self) -> list[Link]:
        """The links of the page to distinct URLs, in page order, whether the crawl follows them or not: each with its
        canonical ``url``, the ``text`` and ``rel`` of its element, and its ``kind``."""
        said = self._said_of_links()
        nothing = ("", "", REDIRECT if 300 <= self.status < 400 else HEADER)
        return [Link(url, self.url, *said.get(url, nothing), self.depth + 1) for url in self._facts.links]

    @cached_property
    def record(self) -> dict[str, Any]:
        """The record of the page so far, with the keys of ``pages.jsonl``."""
        found: dict[str, Any] = json.loads(self._facts.record)
        return found

    @property
    def followed(self) -> tuple[str, ...]:
        """The links that ``follow`` was called with."""
        return tuple(self._followed)

    def follow(self, url: str | Link) -> Follows:
        """Follow a link that the crawl did not find on the page, or one of ``links``. It is admitted in the step that
        finishes the page, by the rules for all links: scope, patterns, depth. A relative link is resolved against the
        page. Awaiting the result is optional. Returns True if these rules allow the link; False for any URL that is not
        http or https. Raises TypeError if ``url`` is neither a str nor a Link, and RuntimeError after ``done``."""
        url = url.url if isinstance(url, Link) else url
        if not isinstance(url, str):
            raise TypeError(f"a link is a str, not {type(url).__name__}")
        if isinstance(self._data, StoredData):
            raise RuntimeError("the page is finished, so its links are stored: follow others before done()")
        follows = self._follows(url)
        self._followed.append(str(url))
        return Follows(follows)

    def done(self) -> Awaitable[bool]:
        """Finish the page before the loop asks for the next one: ``await page.done()``. Returns True when its record,
        with ``data``, and its links have been passed to the operating system: they then survive if the program is
        killed. Returns False if the crawl has ended meanwhile: the next run will deliver the page again.

        Raises TypeError or ValueError if ``data`` is not valid JSON; the page is then not finished. Raises RuntimeError
        in a function that is called with pages, because there is no loop."""
        return self._ended(keep=True)

    def drop(self) -> Awaitable[bool]:
        """Finish the page as ``done`` does, but outputs keep only its record."""
        return self._ended(keep=False)

    def _ended(self, *, keep: bool) -> Awaitable[bool]:
        if self._end is None:
            instead = "return" if keep else "return crawler.DROP"
            raise RuntimeError(f"only a loop over crawler.Crawl can finish its pages; in a function, {instead}")
        ended = self._end(self, keep)
        self._data = StoredData(self._data)
        return ended

    @property
    def _is_html(self) -> bool:
        return self.content_type is None or self.content_type.endswith(("html", "xhtml+xml"))

    @cached_property
    def _tree(self) -> LexborHTMLParser:
        return LexborHTMLParser(self.html)

    def _extracted(self, forms: Forms) -> Extracted:
        from crawler.web.extract.main_text import extract  # noqa: PLC0415 -- many functions do without its tables

        return extract(self.html, self.url, forms) if self._is_html else Extracted(self.html, self.html)

    def _said_of_links(self) -> dict[str, tuple[str, str, str]]:
        """The text, ``rel`` and element of each link of the page, by canonical URL."""
        read = markdown_links if is_markdown(self.content_type) else extract_links if self._is_html else None
        found = None if read is None or not self._facts.links else read(self.body, self._facts.stated, _EVERY_LINK)
        if found is None or (described := found.described) is None:
            return {}
        canonicaliser = Canonicaliser()
        base = canonicaliser.canonicalise(found.base or "", self.url)
        said: dict[str, tuple[str, str, str]] = {}
        for link, text in described.texts.items():
            for sent in encode_queries([link], found.encoding):
                url = canonicaliser.canonicalise(sent, getattr(base, "href", self.url))
                words = (text, described.rels.get(link, ""), described.kinds.get(link, "a"))
                said.setdefault(getattr(url, "href", ""), words)
        return said
