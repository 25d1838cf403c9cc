"""Decides from a URL's record whether links to it are broken."""

from __future__ import annotations

from enum import StrEnum
from http import HTTPStatus
from typing import NamedTuple

from crawler.job.output import Record
from crawler.job.records import Outcome

# Responses to crawlers and to clients that have not logged in: a browser may get another one.
_REFUSALS = frozenset({401, 402, 403, 407, 429, 999})
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_TOO_LONG = "(links.max_url_length)"  # end of the error of a valid redirect that was not followed
_BUSY = "its host answered 429 or 503"  # start of the error of a URL given up after too many of these
_OF_ROBOTS = "robots.txt could not be fetched: "


class Result(StrEnum):
    """The result of checking a URL."""

    BROKEN = "broken"
    UNCHECKED = "unchecked"  # it may exist, but the crawler could not check


class Verdict(NamedTuple):
    """The problem with a URL, and its reason."""

    result: Result
    reason: str


def verdict_of(record: Record) -> Verdict | None:
    """Return the problem that the record shows for its URL; None if there is none. A redirect that was followed returns
    None, because the record of its target decides."""
    status, error = record.get("status"), str(record.get("error") or "")
    match record["outcome"]:
        case Outcome.REDIRECT:
            if not error:
                return None
            return Verdict(Result.UNCHECKED if error.endswith(_TOO_LONG) else Result.BROKEN, error)
        case Outcome.FAILED:
            unseen = error.startswith("internal:") or _BUSY in error
            return Verdict(Result.UNCHECKED if unseen else Result.BROKEN, error.removeprefix(_OF_ROBOTS))
        case Outcome.SOFT404:
            return Verdict(Result.BROKEN, "soft 404: the host sends this page for paths that do not exist")
        case Outcome.BLOCKED | Outcome.EXCLUDED:
            return Verdict(Result.UNCHECKED, error)
    if not isinstance(status, int):
        return None
    if status in _REDIRECTS:
        return Verdict(Result.BROKEN, f"{_phrase(status)}, without a target")
    if status < HTTPStatus.BAD_REQUEST:
        return None
    # The user's own site should always answer. Other sites are often busy only for crawlers; leaves belong to them.
    refused = status in _REFUSALS or (status == HTTPStatus.SERVICE_UNAVAILABLE and record.get("embedded") is True)
    return Verdict(Result.UNCHECKED if refused else Result.BROKEN, _phrase(status))


def _phrase(status: int) -> str:
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)
