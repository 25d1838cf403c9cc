"""The compiled module that belongs to this source.

Importing this raises ImportError where ``crawler._native`` was not built, since there was no compiler; where the
environment has ``CRAWLER_NATIVE=off``; and where it was built from other sources, as after an update of a checkout. The
code in Python then does the work.
"""

from __future__ import annotations

from crawler import _native as compiled

# As in ``native/module.c``. Both grow with every change of what the module offers.
INTERFACE = 1

if getattr(compiled, "INTERFACE", 0) != INTERFACE:
    raise ImportError("crawler._native was built from other sources: python setup.py build_ext --inplace")

__all__ = ["INTERFACE", "compiled"]
