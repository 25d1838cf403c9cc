"""The body of an answer as it is stored: after content decoding, as a user wants to open it."""

from __future__ import annotations

import asyncio

from crawler.web.fetch import RawExchange, Response, Truncation
from crawler.web.fetch.content_coding import Overlong, Undecodable, decoder, salvage

_CODING = b"content-encoding"


async def body_of_answer(response: Response | None, raw: RawExchange | None, most: int) -> tuple[bytes, str | None]:
    """The first ``most`` bytes of the body, and why these are not all, if they are not. Nothing if the answer is not to
    be stored, or has no body."""
    if raw is None:
        return b"", None
    if response is not None and response.body is not None:
        if response.truncated is None:
            return _bounded(response.body, None, most)
        return _bounded(response.body or raw.body, raw.truncated or Truncation.UNSPECIFIED, most)
    if not _codings(raw.head):
        return _bounded(raw.body, raw.truncated, most)
    return await asyncio.to_thread(decoded_body, raw, most)  # a small body may become a long one


def decoded_body(raw: RawExchange, most: int) -> tuple[bytes, str | None]:
    """The same of an answer that was kept as it came."""
    codings = _codings(raw.head)
    return _decoded(raw, codings, most) if codings else _bounded(raw.body, raw.truncated, most)


def _bounded(body: bytes, truncated: Truncation | None, most: int) -> tuple[bytes, str | None]:
    return (body[:most], Truncation.LENGTH) if len(body) > most else (body, truncated)


def _decoded(raw: RawExchange, codings: str, most: int) -> tuple[bytes, str | None]:
    """What could be decoded, up to a fault. If that is nothing, or nobody knows a coding, all is left as it came."""
    body, truncated, limit = bytearray(), raw.truncated, max(most, len(raw.body))
    try:
        decode, _ = decoder(codings, limit)
    except Undecodable:  # too many codings, or an unknown one among others
        decode = None
    if decode is None:
        return _bounded(raw.body, truncated, most)
    try:
        for piece in decode.pieces(raw.body):
            body += piece
            if len(body) > most:
                break
        else:
            if truncated is None:
                decode.end()
                truncated = None if decode.short is None else Truncation.UNSPECIFIED
    except Overlong:
        truncated = Truncation.LENGTH
    except Undecodable:
        found, whole = salvage(codings, raw.body, limit)
        body[:] = found
        truncated = truncated or (None if whole else Truncation.UNSPECIFIED)
    if not body and truncated is not None:
        return _bounded(raw.body, truncated, most)
    return _bounded(bytes(body), truncated, most)


def _codings(head: bytes) -> str:
    """The content codings that the headers of an answer name."""
    lines = [line.partition(b":") for line in head.replace(b"\r\n", b"\n").split(b"\n")[1:]]
    values = [value.strip() for name, _, value in lines if name.strip().lower() == _CODING]
    return b", ".join(values).decode("latin-1")
