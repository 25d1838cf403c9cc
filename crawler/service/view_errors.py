"""The errors of views that cannot answer a request, worded for the client."""

from __future__ import annotations

from pathlib import Path

from crawler.base.faults import UserFault


class Unavailable(UserFault):
    """No running crawl can answer the request. The error's text is one line for the client."""


class Unreadable(Exception):
    """The job cannot be read. The text is one line for the client, without paths of this machine."""


def unreadable(directory: Path, error: Exception) -> Unreadable:
    """Return the error without the path of the job, which the client need not know."""
    return Unreadable(f"The job cannot be read: {fault_text(directory, error)}")


def fault_text(directory: Path, error: Exception) -> str:
    """Return the error with file names relative to the job's directory."""
    return str(error).replace(f"{directory}/", "").replace(str(directory), "the job's directory")
