"""What runs in the processes that call a function of the user with pages.

The parent imports the code once, so that each child that it forks has it. A request is a page, pickled by the crawler;
an answer is JSON, so that nothing that a page may have brought about in the child is code to the crawler.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import socket
import struct
from functools import partial

from crawler.engine.hooks.answers import Answered, CallFailed, call_with, failed
from crawler.engine.hooks.named_code import CodeError, NamedCode, load_code
from crawler.engine.hooks.page_view import Page, PageFacts
from crawler.url.urls.canonicaliser import Canonicaliser
from crawler.url.urls.whatwg import Rejected
from crawler.web.parsing import child_process
from crawler.web.parsing.wire import Told, WireError, answer

NICE = 5  # below the crawler: no host waits for code
HEAD = struct.Struct("<QQ")  # the number of the call, bytes of the page


def page_request(call: int, page: PageFacts) -> bytes:
    """A request. ``call`` is its number, which the answer repeats."""
    sent = pickle.dumps(tuple(page), protocol=pickle.HIGHEST_PROTOCOL)
    return HEAD.pack(call, len(sent)) + sent


def decode_answer(told: Told, payload: bytes, call: int) -> Answered | CallFailed | None:
    """What the function said; None if it is the answer to another call. Raises WireError."""
    try:
        if told is not Told.CODE:
            raise WireError("an answer to another question")
        found = json.loads(payload)
        if found["call"] != call:
            return None
        if "failed" in found:
            return CallFailed(str(found["failed"]))
        data = found["data"]
        if data is not None and not isinstance(data, dict):
            raise WireError("data that is no dictionary")
        return Answered(data, tuple(map(str, found["links"])), found["keep"] is True)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise WireError(f"not an answer of the code: {error}") from error


def parent(control_fd: int, memory: int, name: str) -> None:
    """Fork children until the crawler is gone. ``name`` is that of the function."""
    os.nice(NICE)
    code: NamedCode | CodeError
    try:
        code = load_code(name, ("page",))
    except CodeError as error:  # the crawler could load it: each page is told
        code = error
    child_process.parent(control_fd, memory, partial(_call_for, code))


def _call_for(code: NamedCode | CodeError, descriptor: int, _: int) -> None:
    own = os.getpid()
    with contextlib.suppress(ConnectionError), socket.socket(fileno=descriptor) as channel:
        channel.sendall(answer(Told.READY))
        while True:
            head = channel.recv(HEAD.size, socket.MSG_WAITALL)
            if len(head) < HEAD.size:
                return
            call, size = HEAD.unpack(head)
            said = _called(code, PageFacts(*pickle.loads(channel.recv(size, socket.MSG_WAITALL))))
            if os.getpid() != own:  # a copy that the function has forked, and that returned too: one answers
                return
            channel.sendall(answer(Told.CODE, json.dumps(said | {"call": call}).encode()))


def _called(code: NamedCode | CodeError, page: PageFacts) -> dict[str, object]:
    if isinstance(code, CodeError):
        return {"failed": str(code)}
    try:
        return call_with(code, Page(page, partial(is_url, page.url)))._asdict()
    except BaseException as error:  # also what would end the process  # noqa: BLE001
        return {"failed": str(failed(code, error))}


def is_url(base: str, text: str) -> bool:
    """Whether a link may be followed, as far as one knows here. Raises ValueError if it is none."""
    url = Canonicaliser().canonicalise(text, base)
    if isinstance(url, Rejected):
        raise ValueError(f"{text[:100]!r}: {url.reason}")
    return True
