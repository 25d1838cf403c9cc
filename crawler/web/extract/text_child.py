"""The program of the processes that extract the main text of pages."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable
from functools import partial
from importlib import import_module

from crawler.base.processes.child import Read
from crawler.web.extract.page_text import Extracted, Forms, decode_asked, encode_text
from crawler.web.links.encoding import python_codec, sniff_encoding

Extract = Callable[[str, str, Forms], Extracted]  # takes a page, its URL, and the requested forms


def program(extractor: str) -> Read:
    """Return the program of the processes. ``extractor`` names the function that they use: ``module:function``."""
    logging.disable()
    warnings.simplefilter("ignore")
    module, _, name = extractor.partition(":")
    return partial(_read, getattr(import_module(module), name))


def _read(extract: Extract, stated: bytes, body: bytes, send: Callable[[bytes], None]) -> bytes:
    forms, url, charset = decode_asked(stated)
    page = body.decode(python_codec(sniff_encoding(body, charset)), "replace").removeprefix("\ufeff")
    return encode_text(extract(page, url, forms))
