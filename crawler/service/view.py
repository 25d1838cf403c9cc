"""Why nobody can answer for a crawl, in words for those who look at it."""

from __future__ import annotations

from pathlib import Path

from crawler.base.faults import UserFault


class Unavailable(UserFault):
    """No running crawl can answer. The text is one line for the client."""


class Unreadable(Exception):
    """The job cannot be read. The text is one line for the client, without paths of this machine."""


def unreadable(directory: Path, error: Exception) -> Unreadable:
    """The error without the path of the job: the viewer need not own the machine."""
    return Unreadable(f"The job cannot be read: {fault_text(directory, error)}")


def fault_text(directory: Path, error: Exception) -> str:
    """The error with names of files relative to the job's directory."""
    return str(error).replace(f"{directory}/", "").replace(str(directory), "the job's directory")
