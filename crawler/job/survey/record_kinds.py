"""Classifies records for reports on what went wrong."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from crawler.job.records import Outcome

_UNFETCHED = frozenset((Outcome.FAILED.value, Outcome.EXCLUDED.value))
_FETCHED, _SOFT404 = Outcome.FETCHED.value, Outcome.SOFT404.value


def is_broken(record: Mapping[str, object]) -> bool:
    """True if the server's response for the URL is not a page: 4xx, 5xx, or a soft 404."""
    outcome, status = record["outcome"], record.get("status")
    return outcome == _SOFT404 or (outcome == _FETCHED and isinstance(status, int) and status >= 400)


def is_unfetched(record: Mapping[str, object]) -> bool:
    """True if the server sent no response, or no request was sent."""
    return record["outcome"] in _UNFETCHED


def time_of(value: object) -> int | None:
    """Return milliseconds since 1970 for a number of seconds or an RFC 3339 time; None if invalid."""
    try:
        if isinstance(value, str):
            moment = datetime.fromisoformat(value)
            # A time without a zone would be interpreted in the time zone of this machine.
            return None if moment.tzinfo is None else round(moment.timestamp() * 1000)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return round(datetime.fromtimestamp(value, UTC).timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        pass
    return None


def clipped(text: str, most: int) -> str:
    """Return ``text``, shortened to at most ``most`` characters; an ellipsis marks the cut."""
    return text if len(text) <= most else text[: most - 1] + "\N{HORIZONTAL ELLIPSIS}"
