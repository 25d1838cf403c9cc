"""The compiled module that belongs to this source.

Importing this raises ImportError where ``crawler._native`` was not built, since there was no compiler; where the
environment has ``CRAWLER_NATIVE=off``; and where it was built from other sources, as after an update of a checkout. The
code in Python then does the work. Raises ValueError if ``CRAWLER_NATIVE`` is neither on nor off.
"""

from __future__ import annotations

from crawler.base.native_switch import VARIABLE, native_wanted

if native_wanted():
    from crawler import _native as compiled
else:
    raise ImportError(f"{VARIABLE}=off")

# As in ``native/module.c``. Both grow with every change of what the module offers.
INTERFACE = 2

if getattr(compiled, "INTERFACE", 0) != INTERFACE:
    raise ImportError("crawler._native was built from other sources: python setup.py build_ext --inplace")

__all__ = ["INTERFACE", "compiled"]
