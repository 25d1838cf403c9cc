"""The edge: words of the command line in, exit code out."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from crawler.cli import add, bench, canon, crawl, dedup, demo, filter, follow, forget, look, plan, repair
from crawler.cli.errors import Exit, UsageError
from crawler.progress import say
from crawler.settings import nearest

__all__ = ["COMMANDS", "main"]

COMMANDS = (
    "crawl",
    "stats",
    "explain",
    "hosts",
    "tail",
    "add",
    "verify",
    "repair",
    "canon",
    "bench",
    "demo",
    "forget",
    "dedup",
    "filter",
    "plan",
)


class _Parser(argparse.ArgumentParser):
    """Bad usage is one line."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message} (see {self.prog} --help)")


def main(words: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code."""
    words = list(sys.argv[1:] if words is None else words)
    try:
        _check_text(words)
        arguments = _parser().parse_args(_with_command(words))
        return int(arguments.run(arguments))
    except UsageError as error:
        say(sys.stderr, f"crawler: error: {error}")
        return Exit.USAGE
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    except BrokenPipeError:
        # Who read our output has enough; the interpreter must not try to flush the rest.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.FAILED
    except OSError as error:
        say(sys.stderr, f"crawler: error: {' '.join(str(error).split())}")
        return Exit.FAILED


def _check_text(words: list[str]) -> None:
    """Raises UsageError for bytes that are no UTF-8: neither the job's store nor its output could name such a file."""
    for word in words:
        try:
            word.encode("utf-8")
        except UnicodeEncodeError:
            raise UsageError(f"the argument {word!r} is not UTF-8: give the file or directory another name") from None


def _with_command(words: list[str]) -> list[str]:
    """The words with ``crawl`` put in front where the first is no command. Raises UsageError for a near miss."""
    if not words or words[0] in COMMANDS or words[0] in ("-h", "--help", "--version"):
        return words
    first = words[0]
    if not first.startswith("-") and not Path(first).exists():
        hint = nearest(first, COMMANDS)
        if hint:
            raise UsageError(f"{first!r} is neither a command nor a seeds file{hint}")
    return ["crawl", *words]


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="crawler",
        description="A streaming web crawler that loses nothing and says how far its seen-set can be trusted.",
        epilog="`crawler SEEDS` is `crawler crawl SEEDS`.",
    )
    parser.add_argument("--version", action="version", version="crawler 0.1.0")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    crawl.add_parser(commands)
    look.add_parsers(commands)
    follow.add_parsers(commands)
    add.add_parser(commands)
    repair.add_parser(commands)
    forget.add_parser(commands)
    canon.add_parser(commands)
    dedup.add_parser(commands)
    filter.add_parser(commands)
    plan.add_parser(commands)
    bench.add_parser(commands)
    demo.add_parser(commands)
    return parser
