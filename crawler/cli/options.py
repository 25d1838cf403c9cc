"""The options of a crawl, and how flags and the TOML file become settings."""

from __future__ import annotations

import argparse
import contextlib
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from crawler.base.settings.leaving import secret_reference
from crawler.base.settings.load import Source, check_tables, choices_of, nearest, one_table_each
from crawler.base.settings.parts import KEPT, PURPOSES, Settings
from crawler.base.units import BYTES, SECONDS, Quantity
from crawler.cli.exit_codes import UsageError
from crawler.cli.pattern_files import PatternFiles
from crawler.cli.toml_lines import FileSource

MutableTables = dict[str, dict[str, Any]]

DEFAULT_JOB = Path("crawl-job")
STDOUT = "-"  # the output that is not a file of the job
OUTPUT_NAMES = (*KEPT, STDOUT)
_PATTERNS = "may be repeated; @FILE: patterns from a file"


def output_names(text: str) -> list[str]:
    """Parse the value of ``--output``. Raises ArgumentTypeError, whose text follows the name of the flag."""
    names = _names(text) if text.strip() else []
    if "" in names:
        raise argparse.ArgumentTypeError("a name is missing next to a comma; to keep nothing: --output ''")
    if "pages" in names:
        raise argparse.ArgumentTypeError("pages.jsonl is always written: name other outputs to keep")
    return _known(names, OUTPUT_NAMES)


def purposes(text: str) -> list[str]:
    """Parse a list of purposes. Raises ArgumentTypeError."""
    return _known(_names(text), PURPOSES)


def _names(text: str) -> list[str]:
    return list(dict.fromkeys(name.strip() for name in text.split(",")))


def _known(names: list[str], known: Sequence[str]) -> list[str]:
    for name in names:
        if name not in known:
            hint = nearest(name.lower(), known)
            raise argparse.ArgumentTypeError(f"unknown {name!r}{hint}; known: {', '.join(known)}")
    return names


def add_allowed(parser: argparse.ArgumentParser) -> None:
    """Add the flag that leaves out pages that refuse one of the given uses."""
    text = "leave out URLs that now refuse one of these uses (`consent` of their records)"
    parser.add_argument("--allowed", type=purposes, default=[], metavar="NAME,...", help=text)


def quantity(kind: Quantity) -> Callable[[str], float]:
    """Return a function that parses a time or a size for argparse."""

    def read(text: str) -> float:
        with contextlib.suppress(ValueError):
            if (value := kind.read(text)) >= 0:
                return value
        raise argparse.ArgumentTypeError(f"expected {kind.expected}, not {text!r}")

    return read


_DEFAULTS = Settings()
_COUNT: dict[str, Any] = {"type": int, "metavar": "N"}
_TIME: dict[str, Any] = {"type": quantity(SECONDS), "metavar": "TIME"}
_SIZE: dict[str, Any] = {"type": quantity(BYTES), "metavar": "SIZE"}
_EACH: dict[str, Any] = {"action": "append"}
_SWITCH: dict[str, Any] = {"action": "store_true"}


def _flag(place: str, help: str, **options: Any) -> tuple[str, str, dict[str, Any]]:
    """Return the flag of a setting: its table, its key, and the arguments for argparse. Without ``options``, it is a
    setting with choices. The default replaces ``{}`` in ``help``."""
    table, _, key = place.partition(".")
    options = options or {"choices": choices_of(table, key)}
    return table, key, {**options, "help": help.format(getattr(getattr(_DEFAULTS, table), key))}


# Group of `--help` -> flag -> (table, key, argparse arguments), in the order of the help. A flag that is not given
# leaves the configuration unchanged.
_OF_GROUPS = {
    "what to crawl": {
        "--scope": _flag("crawl.scope", "what belongs to the crawl ({})"),
        "--hops-outside": _flag("crawl.hops_outside", "follow links that leave the scope for N hops ({})", **_COUNT),
        "--embedded": _flag("links.embedded", "fetch embedded resources, such as images, in scope or anywhere ({})"),
        "--include": _flag("scope.include", f"follow only matching links; {_PATTERNS}", metavar="PATTERN", **_EACH),
        "--exclude": _flag("scope.exclude", f"skip matching links; {_PATTERNS}", metavar="PATTERN", **_EACH),
        "--known": _flag(
            "crawl.known",
            "do not admit links to URLs in this older seen-set; may be repeated",
            metavar="FILE|JOB",
            **_EACH,
        ),
        "--browser": _flag(
            "browser.when",
            "render pages that seem to need scripts in a browser",
            action="store_const",
            const="signs",
        ),
        "--purpose": _flag(
            "purpose.uses",
            f"drop pages that refuse one of these uses: {', '.join(PURPOSES)}",
            type=purposes,
            metavar="NAME,...",
        ),
        "--order": _flag("crawl.order", "which URLs are fetched first ({})"),
        "--recrawl": _flag(
            "recrawl.enabled", "revisit finished pages, each at its own pace; the crawl ends only at a limit", **_SWITCH
        ),
    },
    "when to stop": {
        "--max-pages": _flag("crawl.max_pages", "stop after N fetched URLs in this job", **_COUNT),
        "--max-depth": _flag("crawl.max_depth", "follow at most N links from a seed", **_COUNT),
        "--max-time": _flag("crawl.max_time", "stop this run after this time, such as 5m", **_TIME),
        "--fail-on-limit": _flag(
            "crawl.fail_on_limit", "exit with code 3 if --max-pages or --max-time ends the run", **_SWITCH
        ),
        "--min-free": _flag("durability.min_free", "stop if the job's disk has less than this free ({})", **_SIZE),
    },
    "politeness": {
        "--contact": _flag(
            "fetch.contact", "how to reach the operator; added to the User-Agent", metavar="URL-OR-MAIL"
        ),
        "--user-agent": _flag("fetch.user_agent", "starts with a product token, as in name/1.0", metavar="TEXT"),
        "--delay": _flag("politeness.delay", "time between two requests to a host ({} s)", **_TIME),
        "--per-host": _flag("politeness.per_host", "concurrent requests to a host ({})", **_COUNT),
        "--host-key": _flag("politeness.host_key", "group of hosts that shares one delay and the request slots ({})"),
        "--rate": _flag("politeness.rate", "requests per second in total (no limit)", type=float, metavar="N"),
        "--concurrency": _flag("crawl.concurrency", "URLs in flight ({})", **_COUNT),
        "--ignore-robots": _flag("robots.ignore", "do not fetch or obey robots.txt", **_SWITCH),
        "--retry-retired": _flag("politeness.retry_retired", "retry hosts that an earlier run retired", **_SWITCH),
    },
    "network": {
        "--allow-private": _flag("fetch.allow_private", "fetch loopback and private addresses", **_SWITCH),
        "--allow-network": _flag(
            "fetch.allow_networks", "fetch addresses in this network; may be repeated", metavar="NET", **_EACH
        ),
        "--proxy": _flag(
            "fetch.proxy", "fetch through a proxy; `direct`: use none, not even the environment's", metavar="URL"
        ),
    },
    "seen-set": {
        "--seen": _flag("seen.kind", "kind of seen-set; `crawler plan` compares them ({})"),
        "--fpp": _flag("seen.fpp", "bound on the seen-set's false-positive probability ({})", type=float, metavar="P"),
        "--capacity": _flag("seen.capacity", "URLs in the first slice ({})", **_COUNT),
        "--hash": _flag("seen.hash", "hash of URLs: blake2b, which pages cannot forge, or the faster mmh3 ({})"),
        "--ledger": _flag(
            "seen.ledger",
            "confirm on disk URLs that the seen-set reports as seen, so that no page is skipped by mistake (on; "
            "--no-ledger saves about 30 bytes of disk per URL)",
            action=argparse.BooleanOptionalAction,
        ),
    },
    "outputs": {
        "--output": _flag(
            "output.keep",
            f"outputs to keep besides page records: {', '.join(KEPT)} (wacz: warc, and at the end DIR/archive.wacz, "
            "which takes the same space again, or twice that while replaced); -: also write records to standard output",
            type=output_names,
            metavar="NAME,...",
        ),
        "--on-page": _flag(
            "hooks.on_page",
            "call your function with each page (see hooks in --config)",
            metavar="MODULE:FUNCTION",
        ),
    },
    "where the crawl is kept": {
        "--store": _flag(
            "crawl.store",
            "keep the crawl in object storage or a shared directory, so that it survives the loss of this disk: "
            "s3://BUCKET/PREFIX, gs://, az://, file:/PATH",
            metavar="ADDRESS",
        ),
    },
    "several processes": {
        "--partitions": _flag(
            "partitions.processes", "crawl with N processes, in partitions that they share", **_COUNT
        ),
        "--partition-count": _flag("partitions.count", "partitions of a new crawl (2 a worker)", type=int, metavar="V"),
        "--workers": _flag("partitions.workers", "wait for N workers before sharing out a new crawl", **_COUNT),
        "--engine": _flag(
            "partitions.engine", "share the crawl with other machines through the server at this URL", metavar="URL"
        ),
        "--crawl": _flag("partitions.crawl", "the name of the crawl on that server", metavar="NAME"),
    },
    "dashboard": {
        "--dashboard": _flag("dashboard.listen", "serve the live page at this address", metavar="[HOST:]PORT"),
        "--dashboard-token-file": _flag(
            "dashboard.token_file",
            "file with the token that the live page asks for (default: a generated one in DIR)",
            metavar="FILE",
        ),
        "--notify": _flag(
            "notify.url",
            "post to this webhook when the crawl ends, pauses or needs attention; also env:NAME, file:PATH",
            metavar="URL",
        ),
    },
}
# The most common flags, shown first in `--help`.
_FIRST = ("job", "output", "max-pages", "scope", "include", "exclude", "delay", "contact", "dashboard", "config")
FLAGS = {flag: made for flags in _OF_GROUPS.values() for flag, made in flags.items()}


def add_flags(group: argparse._ActionsContainer, *flags: str) -> None:
    """Add flags without defaults: the parsed arguments have no attribute for a flag that the user does not give."""
    for flag in flags:
        group.add_argument(flag, **{"default": argparse.SUPPRESS, **FLAGS[flag][2]})


def add_printing(parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    """Add the flags that choose what a run prints, and return their group."""
    group = parser.add_argument_group("terminal output")
    shown = group.add_mutually_exclusive_group()
    shown.add_argument("--quiet", action="store_true", help="no progress, only warnings and errors")
    shown.add_argument("--progress", action="store_true", help="show the live view even without a terminal")
    return group


def add_crawl_options(parser: argparse.ArgumentParser, *, job: Path | None = DEFAULT_JOB) -> None:
    """Add every option of a crawl, in groups."""
    parser.usage = parser.usage or "%(prog)s [FLAG...]"
    no_settings: dict[str, dict[str, Any]] = {
        "--job": {"default": job, "metavar": "DIR", "help": f"state and output (default: {job})"},
        "--config": {"metavar": "FILE", "help": "settings in TOML; flags override them"},
    }
    group = parser.add_argument_group("common flags")
    first = [f"--{name}" for name in _FIRST]
    for flag in first:
        if flag in no_settings:
            group.add_argument(flag, type=Path, **no_settings[flag])
        else:
            add_flags(group, flag)
    for title, flags in _OF_GROUPS.items():
        group = parser.add_argument_group(title)
        add_flags(group, *(flag for flag in flags if flag not in first))
        if title == "outputs":
            group.add_argument(
                "--parquet",
                type=Path,
                metavar="OUT",
                help="when the run ends, write Parquet files of the job to the directory OUT, replacing it",
            )
        if title == "dashboard":
            group.add_argument(
                "--open", action="store_true", help="open the live page in a browser (without --dashboard: a free port)"
            )
            group.add_argument(
                "--keep-open", action="store_true", help="keep the live page open after the run until Ctrl-C"
            )
    add_printing(parser).add_argument(
        "--json", action="store_true", help="print the result or the error as one JSON object on standard output"
    )


def whole_number(text: str) -> int:
    """Parse a whole number of at most nine digits."""
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number")
    return int(text)


class Giver(Struct, frozen=True):
    """Names the origin of flags in messages. ``place`` is the origin of all flags; ``of_flag(flag)`` returns the origin
    of one flag."""

    place: str
    of_flag: Callable[[str], str]


COMMAND_LINE = Giver("command line", "command line, {}".format)


def settings_tables(
    arguments: argparse.Namespace, read: Callable[[Path], bytes] = Path.read_bytes, giver: Giver = COMMAND_LINE
) -> tuple[MutableTables, Source]:
    """Return the unchecked tables of the TOML file, overridden by the flags, and the origin of each value. Raises
    UsageError."""
    given = {}
    for flag, (table, key, _) in FLAGS.items():
        name = flag.removeprefix("--").replace("-", "_")
        if name in vars(arguments):
            given[flag] = (table, key, getattr(arguments, name))
    if "--output" in given:
        kept = [name for name in arguments.output if name != STDOUT]
        if kept or STDOUT not in arguments.output:
            given["--output"] = (*given["--output"][:2], kept)
        else:
            del given["--output"]  # `-` alone does not choose outputs to keep
    return lay_flags_over(arguments.config, given, read, giver)


def lay_flags_over(
    config: Path | None,
    given: Mapping[str, tuple[str, str, Any]],
    read: Callable[[Path], bytes] = Path.read_bytes,
    giver: Giver = COMMAND_LINE,
) -> tuple[MutableTables, Source]:
    """Return the tables of a TOML file, overridden by the ``given`` flags, and the source that knows where each value
    came from.

    ``given`` maps a flag to (table, key, value). The keys are not checked. ``read`` returns the content of a file.
    Raises UsageError.
    """
    tables: MutableTables = {}
    flags = {(table, key): giver.of_flag(flag) for flag, (table, key, _) in given.items()}
    source: Source = FileSource(giver.place, "", flags)
    files = PatternFiles(read)
    if config is not None:
        tables, text = _read(config, read)
        for table, key, _ in given.values():
            tables.get(table, {}).pop(key, None)
        tables = files.expand(tables, config.parent, FileSource(str(config), text, {}))
        source = FileSource(str(config), text, flags)
    for table, key, value in given.values():
        tables.setdefault(table, {})[key] = files.expand(value, Path(), source, table, key)
    return tables, files.source(source)


def _read(path: Path, read: Callable[[Path], bytes]) -> tuple[MutableTables, str]:
    try:
        data = read(path)
    except FileNotFoundError:
        raise UsageError(f"configuration file {path} does not exist") from None
    except OSError as error:
        raise UsageError(f"cannot read configuration file {path}: {error.strerror}") from error
    try:
        text = data.decode("utf-8").replace("\r\n", "\n")
        tables = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        # The fault is bad syntax, bytes that are not text, a number with thousands of digits, or thousands of nested
        # brackets.
        raise UsageError(f"configuration file {path}: {error}") from error
    check_tables(tables, FileSource(f"configuration file {path}", text, {}))
    return one_table_each(tables), text


# -- the command line of a crawl, as words that start it again ---------------------------------------------------------


def words_of(arguments: argparse.Namespace) -> tuple[str, ...]:
    """Return the given flags as words of a command line, without the flag for the job's directory, and without the URL
    of a webhook (which may be a secret) unless the flag only refers to it, as ``env:NAME`` does."""
    given = vars(arguments)
    words = list[str]()
    for flag, (_, _, options) in FLAGS.items():
        name = flag.removeprefix("--").replace("-", "_")
        if name in given and (flag != "--notify" or secret_reference(given[name]) is not None):
            words += flag_words(flag, given[name], options)
    words += [f"--{name}={given[name]}" for name in ("config", "parquet") if given.get(name) is not None]
    return tuple(words)


def flag_words(flag: str, value: Any, options: Mapping[str, Any]) -> list[str]:
    """Return the words for a flag with this value. ``options`` are the flag's arguments for argparse in ``FLAGS``."""
    match options.get("action"):
        case "store_true":
            return [flag] if value else []
        case "append":
            return [f"{flag}={each}" for each in value]
    if flag == "--output":
        value = ",".join(name for name in value if name != STDOUT)
        return [f"{flag}={value}"] if value else []
    return [f"{flag}={value}"]
