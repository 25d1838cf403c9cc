"""Reads from the environment whether to use the compiled module.

It is separate from ``native``, whose import fails if the compiled module is not used.
"""

from __future__ import annotations

import os

VARIABLE = "CRAWLER_NATIVE"
_ON = frozenset({"", "on", "1", "yes", "true"})
_OFF = frozenset({"off", "0", "no", "false"})


def native_wanted() -> bool:
    """Return True unless the environment switches the module off.

    Raises ValueError for an unknown word: a user who mistypes "off" must not measure the compiled module.
    """
    word = os.environ.get(VARIABLE, "")
    plain = word.strip().lower()
    if plain not in _ON | _OFF:
        raise ValueError(f"{VARIABLE} in the environment is {word!r}: it must be on or off")
    return plain in _ON
