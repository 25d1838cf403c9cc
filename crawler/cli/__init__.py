"""The command line: arguments in, exit code out."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from crawler import __version__
from crawler.cli.exit_codes import Exit, UsageError
from crawler.progress.say import say
from crawler.settings import nearest

__all__ = ["COMMANDS", "CommandParser", "command_parser", "main"]

# The text of `--help` for each command. A command is the module of that name; its `add_options` takes the command's
# parser and sets ``run``. Only the module of the given command is imported: a tool in a pipe must not wait for
# everything that a crawl needs.
COMMANDS = {
    "crawl": "start a crawl, or resume the one in the job directory",
    "stats": "seen-set and frontier statistics of a job, running or not",
    "explain": "everything a job knows about one URL",
    "hosts": "the hosts of a job, running or not: state, pending, next time, why",
    "dashboard": "the live page of a job, running or not",
    "top": "the live page of a job, on a terminal",
    "tail": "follow the records of a job, each printed once",
    "add": "add URLs to a job, running or not",
    "retry": "visit finished URLs of a job again, running or not",
    "priority": "give pending URLs of a job another class, running or not",
    "reload": "have the running crawl read its configuration again",
    "verify": "check every checksum and cross-count of a job",
    "repair": "repair a damaged job",
    "report": "write one HTML page about a job, running or not, to be handed on",
    "export": "write a job, running or not, as Parquet files, or its web archive as CDXJ or WACZ",
    "backup": "copy a job, running or not, to a directory; later only what is new",
    "restore": "make a job from a backup",
    "forget": "remove URLs from the seen-set of a stopped job",
    "config": "the default configuration with its comments; files for systemd, Prometheus and Grafana",
    "canon": "canonicalise URLs from standard input",
    "dedup": "print the URLs, or lines, of standard input that are new",
    "filter": "build, merge and inspect seen-set files",
    "plan": "compare the kinds of seen-set for a number of URLs",
    "bench": "run a benchmark on this machine",
    "demo": "crawl real pages offline, served by the program itself, with the dashboard",
}


class CommandParser(argparse.ArgumentParser):
    """Reports bad usage in one line. ``commands`` holds the parsers of the commands, by name."""

    commands: Mapping[str, argparse.ArgumentParser] = {}

    def add_subparsers(self, **options: Any) -> Any:
        made = super().add_subparsers(**options)
        self.commands = made.choices
        return made

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message} (see {self.prog} --help)")


def main(words: Sequence[str] | None = None, loaded: Callable[[], object] = bool) -> int:
    """Run a command and return the exit code. ``loaded`` is called between the last import and the command,
    except for a command that exits at once if it is interrupted until it has its own handlers (``quits_at_once``)."""
    words = list(sys.argv[1:] if words is None else words)
    try:
        _check_text(words)
        words = _with_command(_with_dashes(words))
        arguments = _parsed(words)
        if not arguments.quits_at_once:
            loaded()
        return int(arguments.run(arguments))
    except UsageError as error:
        say(sys.stderr, f"crawler: error: {error}")
        return Exit.USAGE
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has left. The interpreter must not try to flush the rest.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.FAILED
    except OSError as error:
        say(sys.stderr, f"crawler: error: {' '.join(str(error).split())}")
        return Exit.FAILED


def _parsed(words: list[str]) -> argparse.Namespace:
    parser = command_parser(*(word for word in words[:1] if word in COMMANDS))
    arguments, left = parser.parse_known_args(words)
    if left:
        outputs = getattr(arguments, "output", ())
        if outputs and _are_outputs(left):
            raise UsageError(f"commas separate the names of --output: --output {','.join([*outputs, *left])}")
        parser.error(f"unrecognized arguments: {' '.join(left)}")
    return arguments


def _are_outputs(words: list[str]) -> bool:
    from crawler.cli.options import OUTPUT_NAMES  # noqa: PLC0415, not every command needs it

    return set(words) <= set(OUTPUT_NAMES)


def _check_text(words: list[str]) -> None:
    """Raise UsageError for bytes that are not UTF-8: neither the job's store nor its output could name such a file."""
    for word in words:
        try:
            word.encode("utf-8")
        except UnicodeEncodeError:
            raise UsageError(f"the argument {word!r} is not UTF-8: rename the file or directory") from None


def _with_dashes(words: list[str]) -> list[str]:
    """Return the words with each list such as ``-,links`` joined to its flag: alone it would be taken for a flag."""
    joined: list[str] = []
    for word in words:
        if word.startswith("-,") and joined and joined[-1].startswith("--") and "=" not in joined[-1]:
            joined[-1] += f"={word}"
        else:
            joined.append(word)
    return joined


def _with_command(words: list[str]) -> list[str]:
    """Return the words, with ``crawl`` in front unless the first is a command. Raises UsageError for a near miss."""
    if not words or words[0] in COMMANDS or words[0] in ("-h", "--help", "--version"):
        return words
    first = words[0]
    names_file = "/" in first or "." in first  # as no command does
    if not names_file and not first.startswith("-") and not Path(first).exists():
        hint = nearest(first, COMMANDS)
        if hint:
            raise UsageError(f"{first!r} is neither a command nor a seeds file{hint}")
    return ["crawl", *words]


def command_parser(*names: str) -> CommandParser:
    """Return a parser of the named commands, which knows no other command: making a parser takes time. If none is
    named, return one that knows all commands, each only by its line of ``--help``."""
    parser = CommandParser(
        prog="crawler",
        description="A streaming web crawler that loses nothing and says how far its seen-set can be trusted.",
        epilog="`crawler SEEDS` is `crawler crawl SEEDS`.",
    )
    parser.add_argument("--version", action="version", version=f"crawler {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for name in names or COMMANDS:
        text = COMMANDS[name]
        command = commands.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")
        if names:
            command.set_defaults(quits_at_once=False)
            import_module(f"crawler.cli.{name}").add_options(command)
    return parser
