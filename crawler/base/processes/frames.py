"""What goes over the socket between the crawler and a child process.

    request    CPU seconds (8; 0: any number), bytes of what is asked (4), of the body (8); then these two
    answer     kind (1), whether the child ends with it (1), bytes that follow (8); then these

The child read a stranger's page, so the crawler trusts its answers no more than that page: what they hold is data in
JSON or MessagePack, whose types are checked, and nothing that could be code.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from enum import IntEnum

REQUEST = struct.Struct("<dIQ")
ANSWER = struct.Struct("<BBQ")


class Report(IntEnum):
    """What an answer holds."""

    READY = 0  # the child has started: its process id
    PART = 1  # of the answer; more follows
    DONE = 2  # the rest of it
    MEMORY = 3  # more would have been needed
    RAISED = 4  # an exception: its text, a line feed, its traceback


class WireError(ValueError):
    """Bytes that no child of ours sends."""


def answer(told: Report, payload: bytes = b"", *, ends: bool = False) -> bytes:
    """An answer."""
    return ANSWER.pack(told, ends, len(payload)) + payload


class Answers:
    """Cuts a stream of bytes into answers."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def add(self, data: bytes, take: Callable[[Report, bool, bytes], None]) -> None:
        """Call ``take`` with each answer that is complete now. Raises WireError."""
        self._bytes += data
        at = 0
        while len(self._bytes) - at >= ANSWER.size:
            kind, ends, length = ANSWER.unpack_from(self._bytes, at)
            if kind > max(Report):
                raise WireError(f"an answer of kind {kind}")
            end = at + ANSWER.size + length
            if len(self._bytes) < end:
                break
            take(Report(kind), bool(ends), bytes(self._bytes[at + ANSWER.size : end]))
            at = end
        del self._bytes[:at]
