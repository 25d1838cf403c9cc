"""HTTP messages as the blocks of records.

The block keeps the body's content codings, as received, but not its transfer coding, which belongs to the connection;
the record states the length instead. The ``Transfer-Encoding`` header is renamed to ``X-Orig-Transfer-Encoding``, as in
Webrecorder's tools, because readers would otherwise expect chunks. Nothing else in the head is changed, except that a
line ending in LF alone gets a CRLF: otherwise some readers would treat the whole message as the head.
"""

from __future__ import annotations

import re

REQUEST_TYPE = "application/http; msgtype=request"
RESPONSE_TYPE = "application/http; msgtype=response"

_TRANSFER_CODING = re.compile(rb"^(transfer-encoding[ \t]*:)", re.IGNORECASE | re.MULTILINE)
_LINE_END = re.compile(rb"\r?\n")
_STATUS = re.compile(rb"HTTP/[0-9.]+ +([0-9]{3})(?![0-9])")


def request_block(sent: bytes) -> bytes:
    """Return the block of a request without a body: its head as sent."""
    return _head(sent)


def response_head(received: bytes) -> bytes:
    """Return the head of a response as received, which starts its block."""
    if b"\ntransfer-encoding" in received.lower():
        received = _TRANSFER_CODING.sub(rb"X-Orig-\1", received)
    return _head(received)


def status_of(head: bytes) -> int | None:
    """Return the status of a response head, or None."""
    found = _STATUS.match(head)
    return int(found[1]) if found else None


def _head(head: bytes) -> bytes:
    """Return the head, ending with an empty line."""
    head = head.rstrip(b"\r\n")
    if head.count(b"\n") != head.count(b"\r\n"):
        head = _LINE_END.sub(b"\r\n", head)
    return head + b"\r\n\r\n"
