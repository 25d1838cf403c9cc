"""Renders pages in a process of its own: module names come in on standard input, one a line; pages go to
files.

Run as ``python -I pydoc_child.py FOLDER``. Each name is answered by the same name on standard output once
``FOLDER/NAME.html`` stands complete under its final name; the file is empty when this Python has no such
module. Isolated mode and a bare environment are the caller's duty: a page shows ``os.environ`` and
``sys.path`` as they are here.
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
    # What an imported module prints must not be taken for an answer.
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
