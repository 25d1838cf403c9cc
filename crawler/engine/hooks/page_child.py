"""The program of the processes that call a user function with pages.

The body of a request is a page, pickled by the crawler. An answer is JSON, so that a child process compromised by a
page cannot make the crawler run code.
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
    """Encode a page for the function."""
    return pickle.dumps(tuple(page), protocol=pickle.HIGHEST_PROTOCOL)


def decode_answer(parts: list[bytes]) -> Answered | CallFailed:
    """Decode the function's result. Raises an exception if it is malformed."""
    said = json.loads(parts[-1])
    if isinstance(said, str):
        return CallFailed(said)
    data, links, keep = said
    if data is not None and not isinstance(data, dict):
        raise TypeError("data is not a dictionary")
    return Answered(data, tuple(map(str, links)), keep is True)


def program(name: str) -> Read:
    """Return the function that each process runs for its requests. ``name`` names the user function."""
    return partial(_read, load_code(name, ("page",)))


def _read(code: NamedCode, stated: bytes, body: bytes, send: Callable[[bytes], None]) -> bytes:
    return json.dumps(_called(code, PageFacts(*pickle.loads(body)))).encode()


def _called(code: NamedCode, page: PageFacts) -> Answered | str:
    try:
        return call_with(code, Page(page, partial(is_url, page.url)))
    except BaseException as error:  # even an exception that would end the process # noqa: BLE001
        return str(failed(code, error))


def is_url(base: str, text: str) -> bool:
    """Return whether the text is a valid http or https URL; this process cannot check the crawl's rules."""
    return not isinstance(Canonicaliser().canonicalise(text, base), Rejected)
