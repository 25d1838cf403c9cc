"""The program's help overview: its commands in groups, and examples."""

from __future__ import annotations

import argparse
import shutil
import textwrap
from collections.abc import Iterable, Mapping

ABOUT = "A streaming web crawler that loses nothing."
FIRST = ("crawl", "check", "sql", "export", "stats", "explain", "demo")  # commands for new users

EXAMPLES = (
    ("crawler https://example.org/ --output markdown", "a site as Markdown files; run again to resume"),
    ("crawler check https://example.org/", "its broken links, with the pages that contain them"),
    ("crawler https://example.org/ --browser", "a site whose pages are built by scripts"),
    ("crawler seeds.txt --job news --dashboard 8080", "a list of URLs, and the live page"),
)
CRAWL_EXAMPLES = (
    ("crawler https://example.org/ --max-pages 100 --contact you@example.org", "the first 100 pages of a site"),
    ("crawler seeds.txt.gz --job news --scope domain --output links --contact you@example.org", "many sites"),
    ("sort -u more.txt | crawler - --job news --contact you@example.org", "resume it with more URLs"),
)

_INDENT = 2
_MOST = 100  # characters per line: longer lines are hard to read
_LEAST = 30
_BESIDE = 50  # minimum characters per line for texts next to names


class Formatter(argparse.HelpFormatter):
    """Wraps paragraphs, and leaves indented lines, such as examples, unchanged."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=30, width=width())

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        lines = text.splitlines()
        return "\n".join(
            indent + line if line.startswith(" ") or not line else textwrap.fill(line, width, initial_indent=indent)
            for line in lines
        )


def width() -> int:
    """Return the maximum length of a help line on this terminal."""
    return max(_LEAST, min(_MOST, shutil.get_terminal_size().columns - 2))


def examples(given: Iterable[tuple[str, str]]) -> str:
    """Return the examples as paragraphs: each states its purpose, then shows the command on one line, ready to be
    copied."""
    lines = ["examples:"]
    for command, purpose in given:
        lines += [
            *textwrap.wrap(f"# {purpose}", width(), initial_indent="  ", subsequent_indent="  # "),
            f"  {command}",
        ]
    return "\n".join(lines)


def overview(groups: Mapping[str, Mapping[str, str]], *, whole: bool = False) -> str:
    """Return the text of `crawler --help`, which fits on a screen of 80 columns: examples, and the commands for new
    users. With ``whole``, return the text of `crawler help all`: all commands in groups."""
    wide = width()
    lines = ["usage: crawler URL|FILE|-|COMMAND... [FLAG...]", "", *textwrap.wrap(ABOUT, wide), "", examples(EXAMPLES)]
    if not whole:
        known = {name: text for commands in groups.values() for name, text in commands.items()}
        groups = {"common commands": {name: known[name] for name in FIRST if name in known}}
    for title, commands in groups.items():
        lines += ["", f"{title}:"]
        for name, text in commands.items():
            lines += _entry(name, text, wide)
    first = "`crawler --version` prints the version." if whole else "`crawler help all` lists all commands."
    end = f"{first} `crawler help COMMAND` describes one."
    return "\n".join([*lines, "", *textwrap.wrap(end, wide)])


def short_usage() -> str:
    """Return the output of `crawler` without arguments."""
    lines = [
        "usage: crawler URL|FILE|-|COMMAND... [FLAG...]",
        "",
        *(f"  {command}" for command, _ in EXAMPLES[:2]),
        "",
        *textwrap.wrap("`crawler demo` needs no network. See `crawler --help` for more.", width()),
    ]
    return "\n".join(lines)


def _entry(name: str, text: str, wide: int) -> list[str]:
    """Return the lines of a name with its text next to it, or below it on a narrow terminal."""
    if wide < _BESIDE:
        return [f"    {name}", *textwrap.wrap(text, wide, initial_indent=" " * 6, subsequent_indent=" " * 6)]
    return textwrap.wrap(text, wide, initial_indent=f"    {name:<12}", subsequent_indent=" " * 16)
