"""The command line: arguments in, exit code out."""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import sys
import threading
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from typing import NoReturn

from crawler import __version__
from crawler.base.faults import Failure, UserFault
from crawler.base.native_switch import native_wanted
from crawler.base.printable import one_line
from crawler.base.queued_stream import wait_for_reader
from crawler.base.say import say, say_json, turn_away, watched
from crawler.base.settings.load import nearest
from crawler.cli.command_parser import CommandParser
from crawler.cli.exit_codes import Exit, FailedError, UsageError
from crawler.cli.help_text import Formatter, overview, short_usage
from crawler.service.ending_signals import quit_at_once

__all__ = ["COMMANDS", "command_parser", "main"]

# The commands, grouped as in `--help`. The module with a command's name defines `add_options`, which adds the command's
# flags to its parser and sets ``run``. Only the given command's module is imported, so that a tool in a pipe does not
# wait for a crawl's imports.
GROUPS = {
    "crawl": {
        "crawl": "start a crawl, or resume the one in the job directory",
        "check": "list a site's broken links and the pages that contain them",
        "work": "add a worker to a partitioned crawl, on this machine or another",
        "demo": "crawl real pages offline, with the dashboard",
        "mcp": "let an agent crawl, search and read (Model Context Protocol)",
    },
    "inspect a job, running or not": {
        "stats": "statistics of the seen-set and the frontier of a job",
        "dashboard": "the live page of a job",
        "top": "the live page of a job, in the terminal",
        "tail": "follow the records of a job, each printed once",
        "hosts": "the hosts of a job: state, pending URLs, next request, reason",
        "sql": "answer an SQL query about the pages and links of a job",
        "explain": "everything a job knows about one URL",
        "report": "write a shareable HTML page about a job",
        "audit": "find a job's rule violations in a server's access logs",
        "retract": "list the pages that a job holds but that may no longer be used",
        "export": "write a job as CSV, Parquet, Markdown, CDXJ or WACZ",
    },
    "steer a job, running or not": {
        "add": "add URLs to a job",
        "retry": "visit finished URLs of a job again",
        "priority": "change the priority class of pending URLs of a job",
        "text": "extract text, Markdown and structured data again from the stored pages of a stopped job",
        "reload": "have the running crawl read its configuration again",
        "forget": "remove URLs from the seen-set of a stopped job",
    },
    "keep a job": {
        "backup": "copy a job, running or not; later backups copy only new data",
        "restore": "create a job from a backup",
        "split": "split a crawl in a store into more partitions",
        "verify": "check all checksums and counts of a job",
        "repair": "repair a damaged job",
    },
    "without a job": {
        "identity": "create the keys that sign requests, and check the published ones",
        "config": "the default configuration with its comments; files for systemd, Prometheus and Grafana",
        "canon": "canonicalise URLs from standard input",
        "dedup": "print the URLs or lines of standard input that are new",
        "filter": "build, merge and inspect seen-set files",
        "plan": "compare the kinds of seen-set for a number of URLs",
        "bench": "measure a crawl of a synthetic web on this machine",
        "completion": "print the completion script for bash, zsh or fish",
    },
}
COMMANDS = {name: text for group in GROUPS.values() for name, text in group.items()}
_CRAWL = "crawl.json"  # file in the directory of a partitioned crawl
_BUCKET = "bucket.json"  # file in the directory of a crawl that lives in a store
_OWN_WORDS = ("crawl", "check", "demo")  # commands that report faults of a directory themselves
_INTERRUPTED = 2.0  # seconds that readers get to read the remaining output after an interruption
_ENGINE = "--engine"
_OF_ALL_MACHINES = ("stats", "top")  # commands that can show a whole crawl on several machines
_HELP = ("-h", "--help")
_VERSION = ("-V", "--version")
_OF_THE_PROGRAM = (*_HELP, *_VERSION)


def main(words: Sequence[str] | None = None, loaded: Callable[[bool, bool], object] = max) -> int:
    """Run a command and return the exit code. Calls ``loaded(quits_at_once, serves)`` after the last import.
    ``quits_at_once`` is True if an interruption ends the command at once until the command has installed its own
    handlers. ``serves`` is True if a slow reader of standard error must not delay the command."""
    code = _run(words, loaded)
    most = _INTERRUPTED if code == Exit.INTERRUPTED else math.inf
    faults: list[OSError] = []
    # A thread flushes the streams, because the main thread could not handle signals while a reader blocks its write.
    flushing = threading.Thread(target=_flush, args=(faults,), daemon=True)
    try:
        wait_for_reader(sys.stderr, most)
        flushing.start()
        flushing.join(min(most, threading.TIMEOUT_MAX))
    except KeyboardInterrupt:
        quit_at_once()  # a normal exit would flush again
    if flushing.is_alive():
        quit_at_once()
    for fault in faults:
        turn_away(sys.stdout)
        if not isinstance(fault, BrokenPipeError):
            say(sys.stderr, f"crawler: error: {fault}")
            wait_for_reader(sys.stderr, most)
        return code or Exit.FAILED
    return code


def _flush(faults: list[OSError]) -> None:
    """Flush the standard streams, and add the errors to ``faults``: the interpreter would print tracebacks for them at
    exit."""
    try:
        sys.stdout.flush()
        with watched(sys.stderr):
            sys.stderr.flush()
    except OSError as error:
        faults.append(error)


def _run(words: Sequence[str] | None, loaded: Callable[[bool, bool], object]) -> int:
    words = list(sys.argv[1:] if words is None else words)
    try:
        _check_text(words)
        _check_environment()
        words = _with_command(_with_dashes(words))
        if not words:
            say(sys.stderr, short_usage())
            return Exit.USAGE
        if words[0] in _HELP:
            say(sys.stdout, overview(GROUPS, whole=words[1:] == ["all"]))
            return Exit.OK
        if words[0] in _VERSION and words[1:] == ["--verbose"]:
            from crawler.web.browser.engines import installed  # noqa: PLC0415, only this option needs them

            named = [f"browser {each.label} ({each.path})" for each in installed()] or ["no browser"]
            say(sys.stdout, "\n".join([f"crawler {__version__}", *named]))
            return Exit.OK
        arguments = _parsed(words)
        _check_takes(words[0], arguments)
        perform = _performing(words[0], arguments)
        loaded(arguments.quits_at_once, arguments.quits_at_once or arguments.serves)
        return int(perform(arguments))
    except UserFault as error:
        return _failed(words, f"error: {one_line(str(error))}", Exit.USAGE)
    except FailedError as error:
        return _failed(words, str(error))
    except Failure as error:
        return _failed(words, f"error: {error}")
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    except BrokenPipeError:
        turn_away(sys.stdout)  # the reader of our output has closed it
        return Exit.FAILED
    except OSError as error:
        return _failed(words, f"error: {' '.join(str(error).split())}")


def _failed(words: list[str], text: str, code: Exit = Exit.FAILED) -> int:
    """Report an error in one line, and with ``--json`` also as a JSON object. Returns the exit code."""
    say(sys.stderr, f"crawler: {text}")
    if any(word.partition("=")[0] == "--json" for word in words):
        with contextlib.suppress(OSError):
            say_json({"error": text.removeprefix("error: "), "exit": int(code)})
    return code


def _parsed(words: list[str]) -> argparse.Namespace:
    by_engine = any(word == _ENGINE or word.startswith(f"{_ENGINE}=") for word in words)
    parser = command_parser(*(word for word in words[:1] if word in COMMANDS), by_engine=by_engine)
    arguments, left = parser.parse_known_args(words)
    if left:
        outputs = getattr(arguments, "output", ())
        if outputs and _are_outputs(left):
            raise UsageError(f"separate the names of --output with commas: --output {','.join([*outputs, *left])}")
        named = next((each for each in ("seeds", "query") if hasattr(arguments, each)), "urls")
        if not hasattr(arguments, named) or any(word.startswith("-") and word != "-" for word in left):
            _refuse(parser, words[0], arguments, left)
        setattr(arguments, named, getattr(arguments, named) + left)  # argparse stops at the first flag
    return arguments


def _check_takes(command: str, arguments: argparse.Namespace) -> None:
    """Raise UsageError if a command for one job was given a partitioned crawl."""
    job = getattr(arguments, "job", None)
    if arguments.takes_crawl or command in _OWN_WORDS or not isinstance(job, os.PathLike):
        return
    if not os.path.isfile(os.path.join(job, _CRAWL)):
        return
    instead = f"name one of its partitions, such as {os.path.join(job, 'partitions', '00')}"
    raise UsageError(f"{job} holds a partitioned crawl, but `crawler {command}` takes one job: {instead}")


def _performing(command: str, arguments: argparse.Namespace) -> Callable[[argparse.Namespace], int]:
    """Return the function that runs the command. It is ``by_address.run`` if the user may have given the address of a
    store instead of a directory, or if the directory may hold only a part of a stored crawl."""
    given = [getattr(arguments, name, None) for name in ("job", "dir", "jobs")]
    job = given[0] if isinstance(given[0], os.PathLike) else None
    is_stored = job is not None and all(os.path.isfile(os.path.join(job, name)) for name in (_CRAWL, _BUCKET))
    if ":" not in str([str(each) for each in given]) and not is_stored:
        run: Callable[[argparse.Namespace], int] = arguments.run
        return run
    from crawler.cli import by_address  # noqa: PLC0415, few commands need it

    return partial(by_address.run, command)


def _refuse(parser: CommandParser, command: str, arguments: argparse.Namespace, left: list[str]) -> NoReturn:
    """Raise UsageError for unknown arguments. The error names the first unknown flag and the valid flag closest to
    it."""
    own = parser.commands.get(command)
    flags = [word for word in left if word.startswith("-") and word != "-"]
    if isinstance(own, CommandParser) and flags:
        own.error(f"unknown flag {flags[0].partition('=')[0]}{own.flag_like(flags[0])}")
    if hasattr(arguments, "job") and all(map(os.path.isdir, left)):
        whole = "; for a crawl on several machines, --engine URL --crawl NAME shows all of it"
        hint = whole if command in _OF_ALL_MACHINES else ""
        own_words = f"`crawler {command}` takes one directory, but {left[0]} is a second one"
        raise UsageError(f"{own_words}: run the command once for each{hint}")
    parser.error(f"unrecognized arguments: {' '.join(left)}")


def _are_outputs(words: list[str]) -> bool:
    from crawler.cli.options import OUTPUT_NAMES  # noqa: PLC0415, not every command needs it

    return set(words) <= set(OUTPUT_NAMES)


def _check_text(words: list[str]) -> None:
    """Raise UsageError for a word that is not UTF-8, because neither the job's store nor its output can contain such a
    name."""
    for word in words:
        try:
            word.encode("utf-8")
        except UnicodeEncodeError:
            raise UsageError(f"the argument {word!r} is not UTF-8: rename the file or directory") from None


def _check_environment() -> None:
    """Raise UsageError for an invalid value of one of our environment variables, before any code relies on it."""
    try:
        native_wanted()
    except ValueError as error:
        raise UsageError(str(error)) from None


def _with_dashes(words: list[str]) -> list[str]:
    """Return the words with each list such as ``-,links`` joined to its flag, because argparse would take a separate
    list for a flag."""
    joined: list[str] = []
    for word in words:
        if word.startswith("-,") and joined and joined[-1].startswith("--") and "=" not in joined[-1]:
            joined[-1] += f"={word}"
        else:
            joined.append(word)
    return joined


def _with_command(words: list[str]) -> list[str]:
    """Return the words, with ``crawl`` in front unless the first is a command. Raises UsageError for a near miss."""
    if not words or words[0] in COMMANDS or words[0] in _OF_THE_PROGRAM:
        return words
    first = words[0]
    if first == "help" and not os.path.exists(first):
        return ["--help", "all"] if words[1:2] == ["all"] else [*words[1:2], "--help"]
    names_file = "/" in first or "." in first  # no command's name contains either of them
    if not names_file and not first.startswith("-") and not os.path.exists(first):
        hint = nearest(first, [*COMMANDS, "help"])
        if hint:
            raise UsageError(f"{first!r} is neither a command nor a seeds file{hint}")
    return ["crawl", *words]


def command_parser(*names: str, by_engine: bool = False) -> CommandParser:
    """Return a parser of the named commands only, because building a parser takes time. Without names, the parser only
    lists all commands for ``--help``. ``by_engine`` is True if ``--engine``, not a directory, names the crawl."""
    parser = CommandParser(prog="crawler")
    parser.add_argument(
        "--version", "-V", action="version", version=f"crawler {__version__}", help="with --verbose, also list browsers"
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for name in names or COMMANDS:
        text = COMMANDS[name]
        command = commands.add_parser(
            name, help=text, description=f"{text[0].upper()}{text[1:]}.", formatter_class=Formatter
        )
        if names:
            command.by_engine = by_engine
            command.set_defaults(
                quits_at_once=False, serves=False, takes_crawl=False, all_commands=partial(command_parser, *COMMANDS)
            )
            import_module(f"crawler.cli.{name}").add_options(command)
    return parser
