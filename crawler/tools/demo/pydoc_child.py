"""Renders pages in a process of its own: reads module names from standard input, one per line, and writes files.

Run it as ``python -I pydoc_child.py FOLDER``. It repeats each name on standard output once ``FOLDER/NAME.html`` is
complete. The file is empty if this Python has no such module. The caller must provide isolated mode and a bare
environment: a page shows ``os.environ`` and ``sys.path`` as they are here.
"""

from __future__ import annotations

import importlib
import os
import pydoc
import re
import sys
from pathlib import Path

SOURCE_LINK = re.compile(r'<a href="file:[^"]*">.*?</a>', re.DOTALL)


def render(name: str) -> str:
    try:
        module = importlib.import_module(name)
    except ImportError:
        return ""
    html = pydoc.html.page(pydoc.describe(module), pydoc.html.document(module, name))
    return SOURCE_LINK.sub("", html)


def main() -> None:
    folder = Path(sys.argv[1])
    # What an imported module prints must not be mistaken for an answer.
    answers = os.fdopen(os.dup(1), "w", encoding="ascii", buffering=1)
    os.dup2(2, 1)
    for line in sys.stdin:
        name = line.strip()
        page = folder / f"{name}.html"
        unfinished = folder / f"{name}.{os.getpid()}.part"
        unfinished.write_bytes(render(name).encode("utf-8", "xmlcharrefreplace"))
        unfinished.replace(page)
        answers.write(f"{name}\n")


if __name__ == "__main__":
    main()
