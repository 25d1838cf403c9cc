"""Whether the environment lets the program use its compiled module.

Apart from ``native``, whose import fails where the module is not used.
"""

from __future__ import annotations

import os

VARIABLE = "CRAWLER_NATIVE"
_ON = frozenset({"", "on", "1", "yes", "true"})
_OFF = frozenset({"off", "0", "no", "false"})


def native_wanted() -> bool:
    """Raises ValueError for a word that is neither: somebody who means to switch the module off must not measure it."""
    word = os.environ.get(VARIABLE, "")
    plain = word.strip().lower()
    if plain not in _ON | _OFF:
        raise ValueError(f"{VARIABLE} in the environment is {word!r}: it must be on or off")
    return plain in _ON
