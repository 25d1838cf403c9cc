"""The compiled module that belongs to this source.

Importing it raises ImportError if ``crawler._native`` was not built because there was no compiler, if the environment
sets ``CRAWLER_NATIVE=off``, or if it was built from other sources, as after an update of a checkout. The Python code is
then used instead. Raises ValueError if ``CRAWLER_NATIVE`` is neither on nor off.
"""

from __future__ import annotations

from crawler.base.native_switch import VARIABLE, native_wanted

if native_wanted():
    from crawler import _native as compiled
else:
    raise ImportError(f"{VARIABLE}=off")

# Must match ``native/module.c``. Increase both numbers with every change to the module's interface.
INTERFACE = 2

if getattr(compiled, "INTERFACE", 0) != INTERFACE:
    raise ImportError("crawler._native was built from other sources: run python setup.py build_ext --inplace")

__all__ = ["INTERFACE", "compiled"]
