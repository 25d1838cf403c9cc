"""Errors that are shown to the user as a single line."""

from __future__ import annotations


class UserFault(Exception):
    """The user's input, or an existing file or job, cannot be used.

    The text is one line for the user; the exit code is 2.
    """


class Failure(Exception):
    """A command has failed although its input is usable.

    The text is one line for the user; the exit code is 1.
    """
