"""A page in the hands of the program that loops over a crawl."""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

from multidict import CIMultiDict, CIMultiDictProxy

from crawler.engine.page_handler import HandedPage, Handled
from crawler.fetch.outcome import browser_text
from crawler.library.deliveries import Delivery
from crawler.links import encoding_name, python_codec, sniff_encoding
from crawler.records import encode_page


class Follows:
    """Whether a link is followed: true or false, at once or after an ``await``."""

    __slots__ = ("_answer",)

    def __init__(self, answer: bool) -> None:
        self._answer = answer

    def __bool__(self) -> bool:
        return self._answer

    def __await__(self) -> Generator[None, None, bool]:
        yield from ()
        return self._answer


class Page:
    """A page that was fetched, and that is not finished until the loop asks for the next one.

    ``id`` is text that names this visit of this URL: a page that is delivered again, because the program was killed
    before the page was finished, has the ``id`` it had. ``visit`` is 1 for the first visit. ``data`` stands in the
    record as ``data``: put in what JSON can express."""

    def __init__(self, delivery: Delivery) -> None:
        self.data: dict[str, Any] = {}
        self._delivery = delivery
        self._page: HandedPage = delivery.page
        self._links: list[str] = []

    def __repr__(self) -> str:
        return f"<Page {self.status} {self.url}>"

    @property
    def id(self) -> str:
        return self._page.id

    @property
    def visit(self) -> int:
        return int(self.id.rpartition("-")[2])

    @property
    def url(self) -> str:
        """The canonical URL that was fetched. A redirect is a page of its own, so this is not the target of one."""
        return self._page.record.entry.href

    @property
    def status(self) -> int:
        """The HTTP status."""
        return self._page.record.status or 0

    @cached_property
    def headers(self) -> Mapping[str, str]:
        """The headers of the response. Names are case-insensitive; of several with one name this gives the first, and
        ``headers.getall(name)`` all of them."""
        response = self._page.finished.response
        found = {} if response is None else response.headers
        return CIMultiDictProxy(CIMultiDict((name, browser_text(value)) for name, value in found.items()))

    @property
    def body(self) -> bytes:
        """The body, decoded from its content encoding. It is empty for a redirect."""
        response = self._page.finished.response
        return b"" if response is None or response.body is None else response.body

    @cached_property
    def text(self) -> str:
        """The body as text, in the page's ``charset``. Bytes that are wrong in it become U+FFFD."""
        return self.body.decode(python_codec(self._encoding()), "replace").removeprefix("\ufeff")

    @property
    def charset(self) -> str:
        """The encoding of the body, found as browsers find it: a name of the Encoding Standard, lower-case."""
        return self._encoding()

    @property
    def content_type(self) -> str | None:
        """``type/subtype`` in lower case; None if the server named none."""
        return self._page.record.content_type

    @property
    def depth(self) -> int:
        """Links from a seed."""
        return self._page.record.entry.depth

    @property
    def via(self) -> str | None:
        """The page it was found on; None for a seed."""
        return self._page.record.entry.via

    @property
    def links(self) -> list[str]:
        """The distinct URLs that the page links to, canonical, in their order, whether the crawl follows them or
        not."""
        return list(self._page.links)

    @cached_property
    def record(self) -> dict[str, Any]:
        """The record of the page as it is so far, with the keys of ``pages.jsonl``."""
        found: dict[str, Any] = json.loads(encode_page(replace(self._page.record, id=self.id)))
        return found

    def follow(self, url: str) -> Follows:
        """Follow a link that the crawl did not find on the page. It is admitted in the step that finishes the page, by
        the rules for all links: its scope, its patterns, its depth. A relative one is one of the page. May be awaited,
        and need not be. Returns whether these rules allow it. Raises ValueError if it is no URL to crawl."""
        follows = self._page.follows(url)
        self._links.append(url)
        return Follows(follows)

    async def done(self) -> bool:
        """Finish the page before the loop asks for the next one. Returns True when its record, with ``data``, and its
        links are with the operating system: killed now, they are not lost. Returns False if the crawl has ended
        meanwhile: the next run will deliver the page again.

        Raises TypeError or ValueError if JSON cannot express ``data``; the page is then not finished."""
        json.dumps(self.data, allow_nan=False)
        return await self._delivery.end(Handled(dict(self.data) or None, tuple(self._links)))

    async def drop(self) -> bool:
        """As ``done``, but outputs keep nothing of the page besides its record."""
        json.dumps(self.data, allow_nan=False)
        return await self._delivery.end(Handled(dict(self.data) or None, tuple(self._links), keep=False))

    def _encoding(self) -> str:
        stated = self._page.finished.charset
        if self.content_type is not None and not self.content_type.endswith(("html", "xhtml+xml")):
            return (stated and encoding_name(stated)) or "utf-8"
        return sniff_encoding(self.body, stated)
