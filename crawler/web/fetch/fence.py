"""A fence: a request is sent only while whoever makes it may send it, and when it may. That is asked in the step that
sends the request: to look up a name and to connect may take longer than an earlier answer holds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from typing import NamedTuple

# What tells the seconds until the running task may send its request; 0: it is sent now. It raises FencedOffError if the
# task may send none. None: it need not wait.
wait_to_send: ContextVar[Callable[[], float] | None] = ContextVar("wait_to_send", default=None)


class Sending(NamedTuple):
    """A request besides its URL and headers. ``cookies``: those that a page has for it, as a header."""

    method: str = "GET"
    body: bytes | None = None
    cookies: str = ""


_PLAIN = Sending()

# What the running task sends.
sending: ContextVar[Sending] = ContextVar("sending", default=_PLAIN)


class FencedOffError(asyncio.CancelledError):
    """The request was not sent, because it may not be sent now. Nothing is known of its host.

    It ends what wanted the request as a cancellation does: all that is held for a request is given back then, and no
    outcome is made of it."""


async def pass_fence(waits: Callable[[], AbstractContextManager[object]] = nullcontext) -> None:
    """Wait until the running task may send its request, which it must do in the step in which this returns. It waits
    in a context of ``waits``. Raises FencedOffError if it may send none."""
    asked = wait_to_send.get()
    while asked is not None and (wait := asked()) > 0.0:
        with waits():
            await asyncio.sleep(wait)
