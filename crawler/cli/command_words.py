"""The command line of a crawl, as words that start it again."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from crawler.base.settings.leaving import secret_reference
from crawler.cli.options import FLAGS, STDOUT
from crawler.engine.run import Run
from crawler.job.last_command import LastCommand, write_command


def words_of(arguments: argparse.Namespace) -> tuple[str, ...]:
    """Return the given flags as words of a command line, without the flag for the job's directory, and without the URL
    of a webhook (which may be a secret) unless it is a reference."""
    given = vars(arguments)
    words = list[str]()
    for flag, (_, _, options) in FLAGS.items():
        name = flag.removeprefix("--").replace("-", "_")
        if name in given and (flag != "--notify" or secret_reference(given[name]) is not None):
            words += flag_words(flag, given[name], options)
    words += [f"--{name}={given[name]}" for name in ("config", "parquet") if given.get(name) is not None]
    return tuple(words)


def flag_words(flag: str, value: Any, options: Mapping[str, Any]) -> list[str]:
    """Return the words for a flag with this value. ``options`` are those of the flag in ``FLAGS``."""
    match options.get("action"):
        case "store_true":
            return [flag] if value else []
        case "append":
            return [f"{flag}={each}" for each in value]
    if flag == "--output":
        value = ",".join(name for name in value if name != STDOUT)
        return [f"{flag}={value}"] if value else []
    return [f"{flag}={value}"]


def store_command(arguments: argparse.Namespace, run: Run) -> None:
    """Store the command of a run in its job, so that a dashboard can start it again. Raises OSError."""
    seeds = getattr(arguments, "seed_words", None)
    if seeds is None:
        return  # the demo: its site ends with the process
    command = LastCommand.of(seeds, words_of(arguments), Path.cwd(), run.job.directory)
    write_command(run.job.disk, run.job.directory, command)
