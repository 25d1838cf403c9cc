"""The frames on the socket between the crawler and a child process.

    request    CPU seconds (8; 0: unlimited), length of the question (4), of the body (8); then these two
    answer     kind (1), whether the child ends after it (1), length of the payload (8); then the payload

The child has read an untrusted page, so the crawler trusts the child's answers no more than the page. Answers contain
data in JSON or MessagePack, whose types are checked, and never code.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from enum import IntEnum

REQUEST = struct.Struct("<dIQ")
ANSWER = struct.Struct("<BBQ")


class Report(IntEnum):
    """The content of an answer."""

    READY = 0  # the child has started: its process id
    PART = 1  # a part of the answer; more follows
    DONE = 2  # the rest of the answer
    MEMORY = 3  # the memory limit was reached
    RAISED = 4  # an exception was raised: its text, a line feed, its traceback


class WireError(ValueError):
    """Raised for bytes that no correct child process sends."""


def answer(told: Report, payload: bytes = b"", *, ends: bool = False) -> bytes:
    """Encode an answer."""
    return ANSWER.pack(told, ends, len(payload)) + payload


class Answers:
    """Splits a stream of bytes into answers."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def add(self, data: bytes, take: Callable[[Report, bool, bytes], None]) -> None:
        """Call ``take`` with each complete answer. Raises WireError."""
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
