"""A fence delays or stops requests. It is checked in the step that sends the request, because an earlier check could
expire while the name is looked up and the connection is made."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from typing import NamedTuple

# Returns the seconds until the running task may send its request; 0 means now. Raises FencedOffError if it may not
# send. None: no fence applies.
wait_to_send: ContextVar[Callable[[], float] | None] = ContextVar("wait_to_send", default=None)


class Sending(NamedTuple):
    """The parts of a request besides its URL and headers. ``cookies``: the cookies of a rendered page, as a Cookie
    header."""

    method: str = "GET"
    body: bytes | None = None
    cookies: str = ""


_PLAIN = Sending()

# The request of the running task.
sending: ContextVar[Sending] = ContextVar("sending", default=_PLAIN)


class FencedOffError(asyncio.CancelledError):
    """The request was not sent, because it may not be sent now. Nothing is known about its host.

    The error ends the caller as a cancellation does: everything held for the request is released, and no outcome is
    recorded.
    """


async def pass_fence(waits: Callable[[], AbstractContextManager[object]] = nullcontext) -> None:
    """Wait, in a context of ``waits``, until the running task may send its request. The task must then send it in the
    same step of the event loop. Raises FencedOffError if it may not send."""
    asked = wait_to_send.get()
    while asked is not None and (wait := asked()) > 0.0:
        with waits():
            await asyncio.sleep(wait)
