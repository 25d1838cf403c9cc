"""The program of the processes that parse pages."""

from __future__ import annotations

import time
from collections.abc import Callable

from selectolax.lexbor import SelectolaxError

from crawler.base.processes.child import Read
from crawler.base.settings.parts import LinkSettings
from crawler.web.links.extract import PageLinks, extract_links, scan_links
from crawler.web.links.markdown_links import markdown_links, markdown_parsers
from crawler.web.links.sitemap import Sitemap, SitemapForm, form_of
from crawler.web.links.tokens import TOKENS_BYTES, Undecided, token_links
from crawler.web.parsing.wire import (
    Kind,
    SitemapRead,
    decode_asked,
    encode_links,
    encode_listed,
    encode_sitemap,
)

TAGS_SHARE = 0.6  # fraction of a page's CPU time limit after which no further tags are read
LISTED_A_PART = 250  # URLs of a sitemap in one part of the result


def program() -> Read:
    """Return the program of the processes."""
    return _read


def _read(stated: bytes, body: bytes, send: Callable[[bytes], None]) -> bytes:
    kind, seconds, charset, settings = decode_asked(stated)
    try:
        if kind is Kind.SITEMAP:
            return _read_sitemap(body, charset, settings, send)
        if kind is Kind.MARKDOWN:
            markdown_parsers()  # imported now, so that the import does not use up the page's time
        until = time.process_time() + TAGS_SHARE * seconds
        return encode_links(_read_links(kind, body, charset, settings, until))
    except SelectolaxError as error:  # Lexbor fails only if memory is exhausted
        raise MemoryError from error


def _read_links(kind: Kind, body: bytes, charset: str | None, settings: LinkSettings, until: float) -> PageLinks:
    if kind is Kind.TREE:
        # The tokens of a smaller page have already been read, and were not sufficient.
        told = token_links(body, charset, settings) if len(body) > TOKENS_BYTES else Undecided.TABLE
        return extract_links(body, charset, settings) if isinstance(told, Undecided) else told
    read = markdown_links if kind is Kind.MARKDOWN else scan_links
    return read(body, charset, settings, lambda: time.process_time() < until)


def _read_sitemap(body: bytes, charset: str | None, settings: LinkSettings, send: Callable[[bytes], None]) -> bytes:
    """Send the URLs of a sitemap in parts, and return the rest of the result."""
    form = form_of(body)
    sitemap = Sitemap(body, settings, charset)
    for listed in sitemap if form is not SitemapForm.NONE else ():
        for start in range(0, len(listed), LISTED_A_PART):
            send(encode_listed(listed[start : start + LISTED_A_PART]))
    return encode_sitemap(SitemapRead(form, sitemap.is_index, sitemap.fault, limit=sitemap.limit))
