"""HTTP messages as the blocks of records.

The body has its content codings, as it came, but no transfer coding: that is how the connection carried it, and the
length of the record says where it ends. A header that still named it would make readers look for chunks, so its name
becomes ``X-Orig-Transfer-Encoding``, as the tools of Webrecorder write it. Nothing else of a head is changed, but for
lines that end in LF alone: some readers take the whole message for a head then.
"""

from __future__ import annotations

import re

REQUEST_TYPE = "application/http; msgtype=request"
RESPONSE_TYPE = "application/http; msgtype=response"

_TRANSFER_CODING = re.compile(rb"^(transfer-encoding[ \t]*:)", re.IGNORECASE | re.MULTILINE)
_LINE_END = re.compile(rb"\r?\n")
_STATUS = re.compile(rb"HTTP/[0-9.]+ +([0-9]{3})(?![0-9])")


def request_block(sent: bytes) -> bytes:
    """A request without a body: its head as it was sent."""
    return _head(sent)


def response_head(received: bytes) -> bytes:
    """A response up to its body: its head as it was received."""
    if b"\ntransfer-encoding" in received.lower():
        received = _TRANSFER_CODING.sub(rb"X-Orig-\1", received)
    return _head(received)


def status_of(head: bytes) -> int | None:
    """The status that a head begins with."""
    found = _STATUS.match(head)
    return int(found[1]) if found else None


def _head(head: bytes) -> bytes:
    """The head with the empty line that ends it."""
    head = head.rstrip(b"\r\n")
    if head.count(b"\n") != head.count(b"\r\n"):
        head = _LINE_END.sub(b"\r\n", head)
    return head + b"\r\n\r\n"
