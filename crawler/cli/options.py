"""The options of a crawl, and how flags and the TOML file become settings."""

from __future__ import annotations

import argparse
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from crawler.base.settings.load import SettingsError, Source, check_tables, nearest, one_table_each
from crawler.base.settings.parts import EMBEDDED, HOST_KEYS, KEPT, ORDERS, SCOPES, SEEN_HASHES, SEEN_KINDS
from crawler.cli.exit_codes import UsageError
from crawler.cli.pattern_files import PatternFiles
from crawler.cli.toml_lines import FileSource

MutableTables = dict[str, dict[str, Any]]

DEFAULT_JOB = Path("crawl-job")
STDOUT = "-"  # the output that is no file of the job
OUTPUT_NAMES = (*KEPT, STDOUT)


def output_names(text: str) -> list[str]:
    """Return the value of ``--output``. Raises ArgumentTypeError, whose text follows the name of the flag."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name == "pages":
            raise argparse.ArgumentTypeError("pages.jsonl is always written: name what else is to be kept")
        if name not in OUTPUT_NAMES:
            known = ", ".join(OUTPUT_NAMES)
            raise argparse.ArgumentTypeError(f"unknown {name!r}{nearest(name.lower(), OUTPUT_NAMES)}; known: {known}")
    return names


# flag -> (table, key, argparse arguments). A flag that is not given leaves the configuration as it is.
FLAGS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "--max-pages": (
        "crawl",
        "max_pages",
        {"type": int, "metavar": "N", "help": "stop after N fetched URLs in this job"},
    ),
    "--max-depth": ("crawl", "max_depth", {"type": int, "metavar": "N", "help": "links from a seed"}),
    "--max-time": ("crawl", "max_time", {"type": float, "metavar": "SECONDS", "help": "stop this run after this time"}),
    "--scope": ("crawl", "scope", {"choices": SCOPES, "help": "what belongs to the crawl (host)"}),
    "--hops-outside": (
        "crawl",
        "hops_outside",
        {"type": int, "metavar": "N", "help": "follow links that leave the scope for N hops (0)"},
    ),
    "--embedded": (
        "links",
        "embedded",
        {"choices": EMBEDDED, "help": "fetch what pages embed, such as images, in scope or anywhere (off)"},
    ),
    "--include": (
        "scope",
        "include",
        {
            "action": "append",
            "metavar": "PATTERN",
            "help": "follow only matching links; may be repeated; @FILE: patterns from a file",
        },
    ),
    "--exclude": (
        "scope",
        "exclude",
        {
            "action": "append",
            "metavar": "PATTERN",
            "help": "skip matching links; may be repeated; @FILE: patterns from a file",
        },
    ),
    "--order": ("crawl", "order", {"choices": ORDERS, "help": "which URLs go first (breadth)"}),
    "--concurrency": ("crawl", "concurrency", {"type": int, "metavar": "N", "help": "URLs in flight (64)"}),
    "--per-host": (
        "politeness",
        "per_host",
        {"type": int, "metavar": "N", "help": "requests to a host at a time (1)"},
    ),
    "--delay": (
        "politeness",
        "delay",
        {"type": float, "metavar": "SECONDS", "help": "seconds between two requests to a host (1.0)"},
    ),
    "--host-key": (
        "politeness",
        "host_key",
        {"choices": HOST_KEYS, "help": "what shares one delay and one set of request slots (host)"},
    ),
    "--retry-retired": (
        "politeness",
        "retry_retired",
        {"action": "store_true", "help": "give hosts that an earlier run retired another chance"},
    ),
    "--rate": (
        "politeness",
        "rate",
        {"type": float, "metavar": "N", "help": "requests per second in total (no limit)"},
    ),
    "--user-agent": ("fetch", "user_agent", {"metavar": "TEXT", "help": "product token first, as in name/1.0"}),
    "--contact": (
        "fetch",
        "contact",
        {"metavar": "URL-OR-MAIL", "help": "where to reach the operator; added to the User-Agent"},
    ),
    "--seen": (
        "seen",
        "kind",
        {"choices": SEEN_KINDS, "help": "kind of seen-set; `crawler plan` compares them (scalable)"},
    ),
    "--fpp": (
        "seen",
        "fpp",
        {"type": float, "metavar": "P", "help": "bound on the seen-set's false-positive probability (0.001)"},
    ),
    "--capacity": ("seen", "capacity", {"type": int, "metavar": "N", "help": "URLs in the first slice (1048576)"}),
    "--hash": (
        "seen",
        "hash",
        {
            "choices": SEEN_HASHES,
            "help": "hash of URLs: blake2b, which no page can forge, or the faster mmh3 (blake2b)",
        },
    ),
    "--known": (
        "crawl",
        "known",
        {
            "action": "append",
            "metavar": "FILE|JOB",
            "help": "do not admit links to URLs that this older seen-set knows; may be repeated",
        },
    ),
    "--ledger": (
        "seen",
        "ledger",
        {
            "action": argparse.BooleanOptionalAction,
            "help": "confirm on disk what the seen-set calls seen, so that no page is skipped by mistake (on; "
            "--no-ledger saves about 30 bytes of disk a URL)",
        },
    ),
    "--proxy": (
        "fetch",
        "proxy",
        {"metavar": "URL", "help": "fetch through a proxy; `direct`: also not through one of the environment"},
    ),
    "--allow-private": (
        "fetch",
        "allow_private",
        {"action": "store_true", "help": "fetch loopback and private addresses"},
    ),
    "--allow-network": (
        "fetch",
        "allow_networks",
        {"action": "append", "metavar": "NET", "help": "fetch the addresses of this network; may be repeated"},
    ),
    "--ignore-robots": ("robots", "ignore", {"action": "store_true", "help": "do not ask for robots.txt"}),
    "--min-free": (
        "durability",
        "min_free",
        {"type": int, "metavar": "BYTES", "help": "stop when less space is free on the job's disk (0)"},
    ),
    "--recrawl": (
        "recrawl",
        "enabled",
        {"action": "store_true", "help": "revisit finished pages, each at its own pace; only a limit ends the crawl"},
    ),
    "--output": (
        "output",
        "keep",
        {
            "type": output_names,
            "metavar": "NAME,...",
            "help": f"keep more of pages than their records: {', '.join(KEPT)}; -: also write the records to "
            "standard output",
        },
    ),
    "--on-page": (
        "hooks",
        "on_page",
        {"metavar": "MODULE:FUNCTION", "help": "call this function of yours with each page (see hooks in --config)"},
    ),
    "--partitions": (
        "partitions",
        "processes",
        {"type": int, "metavar": "N", "help": "crawl with N processes, in partitions that they share"},
    ),
    "--partition-count": (
        "partitions",
        "count",
        {"type": int, "metavar": "V", "help": "partitions of a new crawl (16)"},
    ),
    "--workers": (
        "partitions",
        "workers",
        {"type": int, "metavar": "N", "help": "wait for N workers before a new crawl is shared out"},
    ),
    "--engine": (
        "partitions",
        "engine",
        {"metavar": "URL", "help": "share the crawl with workers elsewhere, by what is at this URL"},
    ),
    "--crawl": ("partitions", "crawl", {"metavar": "NAME", "help": "the name of the crawl there"}),
    "--replicas": (
        "partitions",
        "replicas",
        {"type": int, "metavar": "N", "help": "replicas of each partition, with other workers (1)"},
    ),
    "--dashboard": ("dashboard", "listen", {"metavar": "[HOST:]PORT", "help": "serve the live page at this address"}),
    "--dashboard-token-file": (
        "dashboard",
        "token_file",
        {
            "metavar": "FILE",
            "help": "file with the token that the live page asks for (default: a generated one in DIR)",
        },
    ),
}


# The groups of `--help`, with the flags in the order in which they are shown.
GROUPS: dict[str, tuple[str, ...]] = {
    "what to crawl": (
        "--scope",
        "--hops-outside",
        "--embedded",
        "--include",
        "--exclude",
        "--known",
        "--order",
        "--recrawl",
    ),
    "when to stop": ("--max-pages", "--max-depth", "--max-time", "--min-free"),
    "politeness": (
        "--contact",
        "--user-agent",
        "--delay",
        "--per-host",
        "--host-key",
        "--rate",
        "--concurrency",
        "--ignore-robots",
        "--retry-retired",
    ),
    "network": ("--allow-private", "--allow-network", "--proxy"),
    "seen-set": ("--seen", "--fpp", "--capacity", "--hash", "--ledger"),
    "outputs": ("--output", "--on-page"),
    "several processes": ("--partitions", "--partition-count", "--workers", "--engine", "--crawl", "--replicas"),
    "dashboard": ("--dashboard", "--dashboard-token-file"),
}


def add_crawl_options(parser: argparse.ArgumentParser, *, job: Path | None = DEFAULT_JOB) -> None:
    """Add every option of a crawl, in groups."""
    parser.usage = parser.usage or "%(prog)s [FLAG...]"
    group = parser.add_argument_group("job")
    group.add_argument("--job", type=Path, default=job, metavar="DIR", help=f"state and output (default: {job})")
    group.add_argument("--config", type=Path, metavar="FILE", help="settings in TOML; flags override them")
    for title, flags in GROUPS.items():
        group = parser.add_argument_group(title)
        for flag in flags:
            _, _, arguments = FLAGS[flag]
            group.add_argument(flag, **{"default": argparse.SUPPRESS, **arguments})
        if title == "outputs":
            group.add_argument(
                "--parquet",
                type=Path,
                metavar="OUT",
                help="when the run has ended, write Parquet files of the job to the directory OUT, which it replaces",
            )
        if title == "dashboard":
            group.add_argument(
                "--open", action="store_true", help="open the live page in a browser (without --dashboard: a free port)"
            )
            group.add_argument(
                "--keep-open", action="store_true", help="when the run has ended, keep the live page up until Ctrl-C"
            )
    shown = parser.add_argument_group("what it prints").add_mutually_exclusive_group()
    shown.add_argument("--quiet", action="store_true", help="no progress, only warnings and errors")
    shown.add_argument("--progress", action="store_true", help="show the live view even without a terminal")


def whole_number(text: str) -> int:
    """Return the value of an option that counts."""
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number")
    return int(text)


class Giver(Struct, frozen=True):
    """Who gives flags, for messages. ``place`` is where they are, ``of_flag`` where one of them is."""

    place: str
    of_flag: Callable[[str], str]


COMMAND_LINE = Giver("command line", "command line, {}".format)


def settings_tables(
    arguments: argparse.Namespace, read: Callable[[Path], bytes] = Path.read_bytes, giver: Giver = COMMAND_LINE
) -> tuple[MutableTables, Source]:
    """Return the TOML file's tables with the flags over them, unchecked, and where each value came from. Raises
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
            del given["--output"]  # it says nothing about what is kept
    return lay_flags_over(arguments.config, given, read, giver)


def given_flag(arguments: argparse.Namespace, place: tuple[str, str], giver: Giver) -> str | None:
    """Return the flag that set the table's key, as it was given; None if none did."""
    for flag, (table, key, _) in FLAGS.items():
        name = flag.removeprefix("--")
        if (table, key) == place and name.replace("-", "_") in vars(arguments):
            if giver is not COMMAND_LINE:
                return giver.of_flag(flag)
            return f"--no-{name}" if getattr(arguments, name.replace("-", "_")) is False else flag
    return None


def lay_flags_over(
    config: Path | None,
    given: Mapping[str, tuple[str, str, Any]],
    read: Callable[[Path], bytes] = Path.read_bytes,
    giver: Giver = COMMAND_LINE,
) -> tuple[MutableTables, Source]:
    """Return the tables of a TOML file with the ``given`` flags over them, and the source that knows where each value
    came from.

    ``given`` maps a flag to (table, key, value). The keys are not checked. ``read`` returns the content of
    a file. Raises UsageError."""
    tables: MutableTables = {}
    flags = {(table, key): giver.of_flag(flag) for flag, (table, key, _) in given.items()}
    source = Source(giver.place) if giver is COMMAND_LINE else FileSource(giver.place, "", flags)
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
        # A syntax error, bytes that are not text, a number with thousands of digits, or thousands of nested brackets.
        raise UsageError(f"configuration file {path}: {error}") from error
    try:
        check_tables(tables, FileSource(f"configuration file {path}", text, {}))
    except SettingsError as error:
        raise UsageError(str(error)) from error
    return one_table_each(tables), text
