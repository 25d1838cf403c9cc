"""The errors of filters, and checks of numeric parameters."""

from __future__ import annotations

import operator
from typing import Any, SupportsIndex

from crawler.base.faults import UserFault

JSON = None | bool | int | float | str | list[Any] | dict[str, Any]


class FilterError(UserFault, ValueError):
    """Invalid parameters, or stored parts that do not fit together. The message is one line for the user."""


class NoMemoryError(FilterError):
    """There is not enough free memory for a filter. Stored data is not damaged."""


class FullError(FilterError):
    """A fixed-size filter has no room for the keys. None of them was added."""


class HashMismatchError(FilterError):
    """Two filters cannot be united, because they use different hashes."""


class AbsentKeyError(FilterError):
    """A key to be forgotten is not in the filter."""


class CannotForgetError(FilterError):
    """This kind of seen-set cannot forget keys."""


def whole_number(number: SupportsIndex, what: str) -> int:
    """Return ``number``, of any integer type, as an ``int``. Raises ``FilterError`` for anything else."""
    try:
        return operator.index(number)
    except TypeError:
        raise FilterError(f"{what} must be an integer, not {number!r}") from None


def real_number(number: float) -> float:
    """Return ``number`` as a plain ``float`` or ``int``, so that it can be stored. Raises ``FilterError`` otherwise."""
    try:
        return number if isinstance(number, int) else float(number)
    except (TypeError, ValueError):
        raise FilterError(f"not a number: {number!r}") from None
