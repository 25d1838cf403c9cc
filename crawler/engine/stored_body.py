"""The body of an answer in the form that outputs store: after content decoding."""

from __future__ import annotations

import asyncio

from crawler.web.fetch import RawExchange, Response, Truncation
from crawler.web.fetch.content_coding import Overlong, Undecodable, decoder, salvage

_CODING = b"content-encoding"


async def body_of_answer(response: Response | None, raw: RawExchange | None, most: int) -> tuple[bytes, str | None]:
    """Return the first ``most`` bytes of the body, and the reason if that is not all of it. The body is empty if the
    answer is not to be stored or has none."""
    if raw is None:
        return b"", None
    if response is not None and response.body is not None:
        if response.truncated is None:
            return _bounded(response.body, None, most)
        return _bounded(response.body or raw.body, raw.truncated or Truncation.UNSPECIFIED, most)
    if not _codings(raw.head):
        return _bounded(raw.body, raw.truncated, most)
    return await asyncio.to_thread(decoded_body, raw, most)  # a small body may decode to a long one


def decoded_body(raw: RawExchange, most: int) -> tuple[bytes, str | None]:
    """Return the same for an answer that was kept as received."""
    codings = _codings(raw.head)
    return _decoded(raw, codings, most) if codings else _bounded(raw.body, raw.truncated, most)


def _bounded(body: bytes, truncated: Truncation | None, most: int) -> tuple[bytes, str | None]:
    return (body[:most], Truncation.LENGTH) if len(body) > most else (body, truncated)


def _decoded(raw: RawExchange, codings: str, most: int) -> tuple[bytes, str | None]:
    """Decode the body up to the first error. If nothing can be decoded, or a coding is unknown, return it as
    received."""
    body, truncated, limit = bytearray(), raw.truncated, max(most, len(raw.body))
    try:
        decode, _ = decoder(codings, limit)
    except Undecodable:  # too many codings, or an unknown coding
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
    """Return the content codings from the headers of an answer."""
    lines = [line.partition(b":") for line in head.replace(b"\r\n", b"\n").split(b"\n")[1:]]
    values = [value.strip() for name, _, value in lines if name.strip().lower() == _CODING]
    return b", ".join(values).decode("latin-1")
