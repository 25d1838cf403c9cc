"""Lets a process of this program start another process with the same package, wherever the package was loaded from.

``python -m crawler`` in a checkout finds the package in the working directory. A process that it starts does not look
there (``-P``), so that no other file there can shadow a module. This file is therefore run by its path: ``python -P
.../crawler/base/same_program.py MODULE ARGUMENT...`` loads the package around it and runs the module as ``python -m``
does.
"""

from __future__ import annotations

import importlib.util
import os
import runpy
import sys


def words_of(module: str = "crawler") -> list[str]:
    """Return the command that runs a module of this package; the caller appends the module's arguments."""
    return [sys.executable, "-P", os.path.abspath(__file__), module]  # symbolic links are not resolved


def _run() -> None:
    _, module, *arguments = sys.argv
    package = os.path.dirname(os.path.dirname(__file__))
    # Lets processes that inherit this path find the package. The entry is last, so that it shadows no other module.
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
