"""How a process of this program starts another one with the package that it has itself, wherever that is from.

``python -m crawler`` in a checkout finds the package in the working directory. A process that it starts does not look
there (``-P``), so that no other file there takes the place of a module. So this file is run, by its path: ``python -P
.../crawler/base/same_program.py MODULE ARGUMENT...`` loads the package around it and runs the module as ``python -m``
does.
"""

from __future__ import annotations

import importlib.util
import os
import runpy
import sys


def words_of(module: str = "crawler") -> list[str]:
    """The words of a command that runs a module of this package; its arguments come behind them."""
    return [sys.executable, "-P", os.path.abspath(__file__), module]  # a link stays one


def _run() -> None:
    _, module, *arguments = sys.argv
    package = os.path.dirname(os.path.dirname(__file__))
    # For processes that are started with the path of this one. At its end, the package is all that is found there.
    sys.path.append(os.path.dirname(package))
    spec = importlib.util.spec_from_file_location("crawler", f"{package}/__init__.py")
    assert spec is not None
    assert spec.loader is not None
    sys.modules["crawler"] = loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    _run()
