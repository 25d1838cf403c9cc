"""Text that is safe on a terminal, whatever it contains.

Names, messages and URLs come from the web, and arguments from files and pipes. Written as they are, control characters
move the cursor, change the title or answer for the keyboard; bidirectional controls make a line read as another one.
"""

from __future__ import annotations

from typing import Any, TextIO, cast

from crawler.base.named_stream import NamedStream

_KEPT = str.maketrans("", "", "\n\t")


def printable(text: str) -> str:
    """Return the text with everything but lines of printable characters (``str.isprintable``) and tabs as escapes, such
    as ``\\x1b``."""
    if text.translate(_KEPT).isprintable():
        return text
    return "".join(char if char.isprintable() or char in "\n\t" else ascii(char)[1:-1] for char in text)


def one_line(text: str) -> str:
    """Return the text as one line of printable characters: a name in it may hold a line feed."""
    return printable(text).replace("\n", "\\n").replace("\t", "\\t")


class PrintableStream:
    """A text stream that writes ``printable`` text to another one, and is that one in everything else."""

    def __init__(self, stream: TextIO | NamedStream) -> None:
        self.terminal = cast("TextIO", stream)

    def write(self, text: str) -> int:
        self.terminal.write(printable(text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.terminal, name)


def terminal(stream: TextIO) -> TextIO:
    """Return the stream itself behind a ``PrintableStream``, for what draws with escape sequences of its own. It must
    make each foreign text ``printable``."""
    return stream.terminal if isinstance(stream, PrintableStream) else stream
