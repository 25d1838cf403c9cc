"""The errors of the user's input, and the exit codes."""

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
    """What was asked for has failed. The text says so, for standard error."""


class UsageError(UserFault):
    """Bad usage, configuration or input. The text is one line that says what is wrong and what to do."""
