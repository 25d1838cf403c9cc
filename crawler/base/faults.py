"""What the errors are of which a user reads one line, and nothing else."""

from __future__ import annotations


class UserFault(Exception):
    """What the user gave, or what is there, cannot be used. The text is one line for the user; the exit code is 2."""


class Failure(Exception):
    """A command failed although what it was given can be used. The text is one line for the user; the exit code is
    1."""
