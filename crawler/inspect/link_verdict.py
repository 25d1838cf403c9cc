"""Whether the record of a URL says that links to it are broken."""

from __future__ import annotations

from enum import StrEnum
from http import HTTPStatus
from typing import NamedTuple

from crawler.job.output import Record
from crawler.job.records import Outcome

# Answers to crawlers and to whoever has not logged in: a browser may get another one.
_REFUSALS = frozenset({401, 402, 403, 407, 429, 999})
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_TOO_LONG = "(links.max_url_length)"  # how the error of a redirect ends that was valid, but not followed
_BUSY = "its host answered 429 or 503"  # too often to be asked on
_OF_ROBOTS = "robots.txt could not be fetched: "


class Result(StrEnum):
    """What is wrong with a URL."""

    BROKEN = "broken"
    UNCHECKED = "unchecked"  # it may be there: the crawler could not see


class Verdict(NamedTuple):
    """What is wrong with a URL, and why."""

    result: Result
    reason: str


def verdict_of(record: Record) -> Verdict | None:
    """What the record says of its URL; None if nothing is wrong. Of a redirect that was followed, that is for the
    record of its target to say."""
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
    # A site of one's own is to be there. Others are often busy only for crawlers; leaves are theirs.
    refused = status in _REFUSALS or (status == HTTPStatus.SERVICE_UNAVAILABLE and record.get("embedded") is True)
    return Verdict(Result.UNCHECKED if refused else Result.BROKEN, _phrase(status))


def _phrase(status: int) -> str:
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)
