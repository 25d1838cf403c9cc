"""Makes any text safe to print on a terminal.

Names, messages and URLs may come from the web, and arguments from files and pipes. If such text is printed unchanged,
its control characters can move the cursor, change the title or send keyboard input; bidirectional controls can disguise
a line.
"""

from __future__ import annotations

from typing import Any, TextIO, cast

from crawler.base.named_stream import NamedStream

_KEPT = str.maketrans("", "", "\n\t")


def printable(text: str) -> str:
    """Escape all unprintable characters (``str.isprintable``) except line feeds and tabs, for example as ``\\x1b``."""
    if text.translate(_KEPT).isprintable():
        return text
    return "".join(char if char.isprintable() or char in "\n\t" else ascii(char)[1:-1] for char in text)


def one_line(text: str) -> str:
    """Return the text as one line of printable characters, even if a name in it contains a line feed."""
    return printable(text).replace("\n", "\\n").replace("\t", "\\t")


class PrintableStream:
    """A proxy for a text stream that makes all written text ``printable``."""

    def __init__(self, stream: TextIO | NamedStream) -> None:
        self.terminal = cast("TextIO", stream)

    def write(self, text: str) -> int:
        self.terminal.write(printable(text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.terminal, name)


def terminal(stream: TextIO) -> TextIO:
    """Return the stream behind a ``PrintableStream``, for code that writes its own escape sequences.

    That code must make all foreign text ``printable``.
    """
    return stream.terminal if isinstance(stream, PrintableStream) else stream
