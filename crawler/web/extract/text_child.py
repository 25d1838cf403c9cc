"""What runs in the processes that extract the main text of pages.

The parent imports the extractor once, so that each child that it forks has it. The child limits its own memory before
it reads anything, and the CPU time of each page. What goes beyond kills it, or makes the extraction fail.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import warnings
from collections.abc import Callable
from functools import partial
from importlib import import_module

from crawler.web.extract.page_text import Extracted, Forms, encode_text
from crawler.web.links.encoding import python_codec, sniff_encoding
from crawler.web.parsing import child_process
from crawler.web.parsing.child_process import limit_memory, limited
from crawler.web.parsing.wire import NO_CHARSET, REQUEST, Told, answer

LAST_BYTES = 2 * 2**20  # a child ends after a page of more: a heap that was large does not shrink for sure
NICE = 5  # below the crawler: whoever waits for text does not wait for a server

Extract = Callable[[str, str, Forms], Extracted]  # a page, its URL, what is wanted of it


def parent(control_fd: int, memory: int, extractor: str) -> None:
    """Fork children until the crawler is gone. ``extractor`` names the function that they use: ``module:function``."""
    os.nice(NICE)
    logging.disable()
    warnings.simplefilter("ignore")
    module, _, name = extractor.partition(":")
    extract: Extract
    try:
        extract = getattr(import_module(module), name)
    except Exception as error:  # noqa: BLE001 -- a library that is broken: each page is told
        extract = partial(_raise, error)
    child_process.parent(control_fd, memory, partial(_extract_for, extract))


def _raise(error: Exception, page: str, url: str, forms: Forms) -> Extracted:
    raise error


def _extract_for(extract: Extract, descriptor: int, memory: int) -> None:
    limit_memory(memory)
    with contextlib.suppress(ConnectionError), socket.socket(fileno=descriptor) as channel:
        channel.sendall(answer(Told.READY))
        while True:
            head = channel.recv(REQUEST.size, socket.MSG_WAITALL)
            if len(head) < REQUEST.size:
                return
            forms, seconds, stated, charset, size = REQUEST.unpack(head)
            labelled = 0 if charset == NO_CHARSET else charset
            said = channel.recv(stated + labelled, socket.MSG_WAITALL)
            url, label = (
                said[:stated].decode(),
                None if charset == NO_CHARSET else said[stated:].decode("utf-8", "replace"),
            )
            try:
                body = channel.recv(size, socket.MSG_WAITALL) if size else b""
            except MemoryError:
                channel.sendall(answer(Told.MEMORY, ends=True))
                return
            told, payload = limited(partial(_text, extract, body, label, url, Forms(forms)), seconds)
            ends = told is not Told.TEXT or size > LAST_BYTES
            channel.sendall(answer(told, payload, ends=ends))
            if ends:
                return


def _text(extract: Extract, body: bytes, charset: str | None, url: str, forms: Forms) -> tuple[Told, bytes]:
    page = body.decode(python_codec(sniff_encoding(body, charset)), "replace").removeprefix("\ufeff")
    return Told.TEXT, encode_text(extract(page, url, forms))
