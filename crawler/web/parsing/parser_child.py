"""What runs in the parser's processes (``child_process``).

A parser limits its own memory before it reads anything, and the CPU time of each page while it parses. What goes
beyond kills it, or makes the parse fail.
"""

from __future__ import annotations

import contextlib
import socket
import time

from selectolax.lexbor import SelectolaxError

from crawler.base.settings.parts import LinkSettings
from crawler.web.links.extract import PageLinks, extract_links, scan_links
from crawler.web.links.markdown import markdown_links, markdown_parsers
from crawler.web.links.sitemap import Sitemap, SitemapForm, form_of
from crawler.web.links.tokens import TOKENS_BYTES, Undecided, token_links
from crawler.web.parsing import child_process
from crawler.web.parsing.child_process import limit_memory, limited
from crawler.web.parsing.wire import (
    NO_CHARSET,
    REQUEST,
    Kind,
    SitemapRead,
    Told,
    answer,
    decode_settings,
    encode_links,
    encode_listed,
    encode_sitemap,
)

TAGS_SHARE = 0.6  # of the CPU time of a page, after which no more of its tags are read
LISTED_A_PART = 250  # URLs of a sitemap in one answer
LAST_BYTES = 2 * 2**20  # a parser ends after a page of more: a heap that was large does not shrink for sure

_NO_MEMORY = (MemoryError, SelectolaxError)  # Lexbor fails only when it gets no memory


def parent(control_fd: int, memory: int) -> None:
    """Fork parsers until the crawler is gone."""
    child_process.parent(control_fd, memory, _parse_for)


def _parse_for(descriptor: int, memory: int) -> None:
    limit_memory(memory)
    with contextlib.suppress(ConnectionError), socket.socket(fileno=descriptor) as channel:
        channel.sendall(answer(Told.READY))
        while True:
            head = channel.recv(REQUEST.size, socket.MSG_WAITALL)
            if len(head) < REQUEST.size:
                return
            kind, seconds, settings, charset, size = REQUEST.unpack(head)
            labelled = 0 if charset == NO_CHARSET else charset
            stated = channel.recv(settings + labelled, socket.MSG_WAITALL)
            label = None if charset == NO_CHARSET else stated[settings:].decode("utf-8", "replace")
            try:
                body = channel.recv(size, socket.MSG_WAITALL) if size else b""
            except MemoryError:
                channel.sendall(answer(Told.MEMORY, ends=True))
                return
            if kind == Kind.SITEMAP:
                told, payload = _parse_sitemap(channel, body, label, stated[:settings], seconds)
            else:
                told, payload = _parse(Kind(kind), body, label, stated[:settings], seconds)
            ends = told is not Told.LINKS or size > LAST_BYTES
            channel.sendall(answer(told, payload, ends=ends))
            if ends:
                return


def _read(kind: Kind, body: bytes, charset: str | None, settings: LinkSettings, until: float) -> PageLinks:
    if kind is Kind.TREE:
        # Of a smaller page it is known that its tokens do not tell.
        told = token_links(body, charset, settings) if len(body) > TOKENS_BYTES else Undecided.TABLE
        return extract_links(body, charset, settings) if isinstance(told, Undecided) else told
    read = markdown_links if kind is Kind.MARKDOWN else scan_links
    return read(body, charset, settings, lambda: time.process_time() < until)


def _parse(kind: Kind, body: bytes, charset: str | None, stated: bytes, seconds: float) -> tuple[Told, bytes]:
    def read() -> tuple[Told, bytes]:
        links = _read(kind, body, charset, decode_settings(stated), time.process_time() + TAGS_SHARE * seconds)
        return Told.LINKS, encode_links(links)

    if kind is Kind.MARKDOWN:
        markdown_parsers()  # the page does not pay for what they import
    return limited(read, seconds, _NO_MEMORY)


def _parse_sitemap(
    channel: socket.socket, body: bytes, charset: str | None, stated: bytes, seconds: float
) -> tuple[Told, bytes]:
    """Send the URLs of a sitemap in parts, and return what is to be told at its end."""

    def read() -> tuple[Told, bytes]:
        form = form_of(body)
        sitemap = Sitemap(body, decode_settings(stated), charset)
        for listed in sitemap if form is not SitemapForm.NONE else ():
            for start in range(0, len(listed), LISTED_A_PART):
                channel.sendall(answer(Told.PART, encode_listed(listed[start : start + LISTED_A_PART])))
        return Told.SITEMAP, encode_sitemap(SitemapRead(form, sitemap.is_index, sitemap.fault, limit=sitemap.limit))

    return limited(read, seconds, _NO_MEMORY)
