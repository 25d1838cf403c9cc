"""``crawler completion``: prints the shell script that completes commands, flags, values, files and directories."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator

import shtab

from crawler.base.say import say
from crawler.cli.exit_codes import Exit
from crawler.cli.options import add_crawl_options

SHELLS = ("bash", "zsh", "fish")

# The kinds of values, by their names in the help.
_DIRECTORIES = frozenset({"DIR", "FROM", "TO"})
_FILES = frozenset({"FILE", "OUT", "OUT.wacz", "IN", "SEEDS", "LIST", "FILE|JOB", "GUAVA"})


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.description = "Print the completion script of a shell."
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = (
        "examples:\n"
        "  crawler completion bash > ~/.local/share/bash-completion/completions/crawler\n"
        "  crawler completion zsh > ~/.zfunc/_crawler    # a directory in $fpath\n"
        "  crawler completion fish > ~/.config/fish/completions/crawler.fish"
    )
    parser.add_argument("shell", choices=SHELLS)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    parser = arguments.all_commands()
    add_crawl_options(parser)  # `crawl` may be omitted, so its flags belong to the program too
    for action in _actions(parser):
        names = action.metavar if isinstance(action.metavar, str) else ""
        if names in _DIRECTORIES:
            action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]
        elif names in _FILES:
            action.complete = shtab.FILE  # type: ignore[attr-defined]
    say(sys.stdout, shtab.complete(parser, arguments.shell).rstrip())
    return Exit.OK


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for each in action.choices.values():
                yield from _actions(each)
