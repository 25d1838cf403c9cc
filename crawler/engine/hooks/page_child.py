"""What runs in the processes that call a function of the user with pages.

The body of a request is a page, pickled by the crawler; an answer is JSON, so that nothing that a page may have brought
about in the child is code to the crawler.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from functools import partial

from crawler.base.processes.child import Read
from crawler.engine.hooks.answers import Answered, CallFailed, call_with, failed
from crawler.engine.hooks.named_code import NamedCode, load_code
from crawler.engine.hooks.page_view import Page, PageFacts
from crawler.url.urls.canonicaliser import Canonicaliser
from crawler.url.urls.whatwg import Rejected


def encode_page(page: PageFacts) -> bytes:
    """A page for the function."""
    return pickle.dumps(tuple(page), protocol=pickle.HIGHEST_PROTOCOL)


def decode_answer(parts: list[bytes]) -> Answered | CallFailed:
    """What the function said. Raises an exception if it cannot have said that."""
    said = json.loads(parts[-1])
    if isinstance(said, str):
        return CallFailed(said)
    data, links, keep = said
    if data is not None and not isinstance(data, dict):
        raise TypeError("data that is no dictionary")
    return Answered(data, tuple(map(str, links)), keep is True)


def program(name: str) -> Read:
    """The program of the processes. ``name`` is that of the function."""
    return partial(_read, load_code(name, ("page",)))


def _read(code: NamedCode, stated: bytes, body: bytes, send: Callable[[bytes], None]) -> bytes:
    return json.dumps(_called(code, PageFacts(*pickle.loads(body)))).encode()


def _called(code: NamedCode, page: PageFacts) -> Answered | str:
    try:
        return call_with(code, Page(page, partial(is_url, page.url)))
    except BaseException as error:  # also what would end the process  # noqa: BLE001
        return str(failed(code, error))


def is_url(base: str, text: str) -> bool:
    """Whether a link may be followed, as far as one knows here. Raises ValueError if it is none."""
    url = Canonicaliser().canonicalise(text, base)
    if isinstance(url, Rejected):
        raise ValueError(f"{text[:100]!r}: {url.reason}")
    return True
