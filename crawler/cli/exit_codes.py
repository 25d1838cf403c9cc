"""What can be wrong with what the user gave, and how the program ends."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """The exit codes."""

    OK = 0
    FAILED = 1
    USAGE = 2
    LIMIT = 3
    INTERRUPTED = 130


class UsageError(Exception):
    """Bad usage, configuration or input; the text is one line that says what, and what to do."""
