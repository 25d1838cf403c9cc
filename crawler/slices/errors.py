"""What can be wrong with a filter."""

from __future__ import annotations

from typing import Any

JSON = None | bool | int | float | str | list[Any] | dict[str, Any]


class FilterError(ValueError):
    """Parameters that make no filter, or stored parts that do not fit together. One line for the user."""


class NoMemoryError(FilterError):
    """There is not enough free memory for a filter. What is stored is sound."""


class FullError(FilterError):
    """A filter of fixed size has no room for these keys. None of them was added."""


class AbsentKeyError(FilterError):
    """A key that should be forgotten is not in the filter."""


class CannotForgetError(FilterError):
    """The kind of seen-set cannot forget any key."""
