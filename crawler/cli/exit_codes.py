"""Errors in the user's input, and the exit codes."""

from __future__ import annotations

from enum import IntEnum

from crawler.base.faults import UserFault


class Exit(IntEnum):
    """The exit codes."""

    OK = 0
    FAILED = 1
    USAGE = 2
    LIMIT = 3
    INTERRUPTED = 130


class FailedError(Exception):
    """The requested action failed. The text describes the failure, for standard error."""


class UsageError(UserFault):
    """Bad usage, configuration or input. The text is one line that states the error and what to do."""
