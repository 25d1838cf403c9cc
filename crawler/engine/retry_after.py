"""The Retry-After header: for how many seconds a server asks the crawler to wait. Pure."""

from __future__ import annotations

from datetime import UTC
from email.utils import parsedate_to_datetime


def parse_retry_after(text: str | None, now: float, sent: str | None = None) -> float | None:
    """Return the seconds to wait from a Retry-After header, or None if it is not valid.

    The value is a number of seconds or an HTTP date (RFC 9110, 10.2.3). A date is compared with the date of the answer
    (``sent``), which uses the server's clock too, because ours may be off."""
    if text is None:
        return None
    text = text.strip()
    if text.isascii() and text.isdigit():
        # This exceeds any limit. Parsing a hostile header with int() would be slow, and with float() infinite.
        return float(text) if len(text) < 12 else 1e12
    until = _moment(text)
    if until is None:
        return None
    begin = None if sent is None else _moment(sent)
    return max(0.0, until - (now if begin is None else begin))


def _moment(text: str) -> float | None:
    """Return an HTTP date in seconds since 1970, or None if it is not valid."""
    try:
        moment = parsedate_to_datetime(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None
