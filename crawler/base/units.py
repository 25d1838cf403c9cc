"""Times and sizes as people write them: a number, or with units, as in ``1.5h``, ``1m30s`` or ``64KB``. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal

from msgspec import Struct

_TIMES = {"ms": "0.001", "s": "1", "m": "60", "h": "3600", "d": "86400", "w": "604800"}
_PART = r"([0-9]{1,15}(?:\.[0-9]{1,15})?) ?([A-Za-z]+)"
_WITH_UNIT, _WITH_UNITS = re.compile(_PART), re.compile(f"{_PART}( ?{_PART})*")


class Quantity(Struct, frozen=True, eq=False):
    """The quantity that a number in the settings stands for. ``expected`` describes valid input in messages; ``units``
    contains the factor of each unit. A size is a whole number of bytes, and its units are case-insensitive: MB and mb
    are the same."""

    expected: str
    units: Mapping[str, Decimal]
    is_size: bool = False

    def read(self, text: str) -> float:
        """Return the number that a string stands for; an int if the quantity is a size. Raises ValueError."""
        if (_WITH_UNIT if self.is_size else _WITH_UNITS).fullmatch(text) is None:  # no unit, or invalid
            return int(text) if self.is_size else float(text)
        value = Decimal(0)
        for number, name in _WITH_UNIT.findall(text):
            unit = self.units.get(name.lower() if self.is_size else name)
            if unit is None:
                raise ValueError(f"{text!r} has no known unit")
            value += Decimal(number) * unit
        return round(value) if self.is_size else float(value)


def _times(unit: str) -> dict[str, Decimal]:
    """Return the units of time with their factors, so that the given unit has the factor 1."""
    return {name: Decimal(seconds) / Decimal(_TIMES[unit]) for name, seconds in _TIMES.items()}


_AS_TIME = "or with a unit, as in 500ms, 30s, 1m30s, 2h, 1d or 1w"
SECONDS = Quantity(f"a number of seconds, {_AS_TIME}", _times("s"))
HOURS = Quantity(f"a number of hours, {_AS_TIME}", _times("h"))
BYTES = Quantity(
    "a whole number of bytes, or with a unit, as in 64KB, 10MB, 2GB or 1GiB (KB is 1000 bytes, KiB 1024)",
    {
        "b": Decimal(1),
        **{f"{prefix}b": Decimal(1000) ** power for power, prefix in enumerate("kmgtp", 1)},
        **{f"{prefix}ib": Decimal(1024) ** power for power, prefix in enumerate("kmgtp", 1)},
    },
    is_size=True,
)
