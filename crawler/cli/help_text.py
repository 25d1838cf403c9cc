"""What the program says about itself: its commands in groups, and examples."""

from __future__ import annotations

import argparse
import shutil
import textwrap
from collections.abc import Iterable, Mapping

ABOUT = "A streaming web crawler that loses nothing and says how far its seen-set can be trusted."

EXAMPLES = (
    ("crawler demo", "crawl a web that the program serves itself, and watch"),
    ("crawler https://example.org/ --contact you@example.org", "crawl a site; again: resume"),
    ("crawler seeds.txt --job news --dashboard 8080 --contact you@example.org", "a list of URLs, and the live page"),
    ("crawler seeds.txt --job big --partitions 4 --contact you@example.org", "a larger one, with four processes"),
)
CRAWL_EXAMPLES = (
    ("crawler https://example.org/ --max-pages 100 --contact you@example.org", "a site, its first 100 pages"),
    ("crawler seeds.txt.gz --job news --scope domain --output links --contact you@example.org", "many sites"),
    ("sort -u more.txt | crawler - --job news --contact you@example.org", "more URLs for it, and resume it"),
)

_INDENT = 2
_MOST = 100  # characters of a line: longer ones are hard to read
_LEAST = 30
_BESIDE = 50  # characters of a line from which texts stand beside names


class Formatter(argparse.HelpFormatter):
    """Fills paragraphs, and leaves indented lines, such as examples, as they are."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=30, width=width())

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        lines = text.splitlines()
        return "\n".join(
            indent + line if line.startswith(" ") or not line else textwrap.fill(line, width, initial_indent=indent)
            for line in lines
        )


def width() -> int:
    """Return the characters of a line of help on this terminal."""
    return max(_LEAST, min(_MOST, shutil.get_terminal_size().columns - 2))


def examples(given: Iterable[tuple[str, str]]) -> str:
    """Return examples as paragraphs: what each is for, and the command, unbroken so that it can be copied."""
    lines = ["examples:"]
    for command, purpose in given:
        lines += [
            *textwrap.wrap(f"# {purpose}", width(), initial_indent="  ", subsequent_indent="  # "),
            f"  {command}",
        ]
    return "\n".join(lines)


def overview(groups: Mapping[str, Mapping[str, str]]) -> str:
    """Return `crawler --help`: the commands in groups, and examples."""
    wide = width()
    lines = ["usage: crawler URL|FILE|-... [FLAG...]", "       crawler COMMAND [ARGUMENT...]", ""]
    lines += [*textwrap.wrap(ABOUT, wide), "", examples(EXAMPLES)]
    for title, commands in groups.items():
        lines += ["", f"{title}:"]
        for name, text in commands.items():
            lines += _entry(name, text, wide)
    end = (
        "`crawler COMMAND --help` lists the flags of a command, `crawler crawl --help` those of a crawl. The word "
        "`crawl` may be left out."
    )
    return "\n".join([*lines, "", *_entry("--version", "print the version", wide), "", *textwrap.wrap(end, wide), ""])


def short_usage() -> str:
    """Return what `crawler` without arguments says."""
    lines = [
        "usage: crawler URL|FILE|-... [FLAG...]",
        "",
        *(f"  {command}" for command, _ in EXAMPLES[:2]),
        "",
        *textwrap.wrap("`crawler demo` needs no network. `crawler --help` lists all commands.", width()),
    ]
    return "\n".join(lines)


def _entry(name: str, text: str, wide: int) -> list[str]:
    """A name with its text beside it, or below it on a narrow terminal."""
    if wide < _BESIDE:
        return [f"    {name}", *textwrap.wrap(text, wide, initial_indent=" " * 6, subsequent_indent=" " * 6)]
    return textwrap.wrap(text, wide, initial_indent=f"    {name:<12}", subsequent_indent=" " * 16)
