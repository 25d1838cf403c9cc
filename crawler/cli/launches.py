"""What the dashboard of several jobs starts: crawls with the command of their last run, and new jobs.

A new job may have the settings that a flag has, but for those that reach for files, code, logins or other networks than
the public one: whoever has the token of the page is not thereby the user of this machine. Everything else is in the
configuration that the dashboard was given for new jobs.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from crawler.base.disk import make_private_directory, private_opener
from crawler.base.settings import SettingsError, settings_from
from crawler.cli.command_words import flag_words
from crawler.cli.crawl import add_options, build_settings
from crawler.cli.exit_codes import UsageError
from crawler.cli.options import FLAGS
from crawler.engine.seeds import SeedsError, read_lines
from crawler.inspect.job_reader import job_stats
from crawler.job.directory import LAUNCH_SEEDS, JobError, holds_job
from crawler.job.job_lock import lock_holder
from crawler.job.last_command import STDIN
from crawler.job.run_settings import read_run
from crawler.job.stored_errors import DAMAGE
from crawler.seen.filters import FilterError
from crawler.service.launching import Launcher, LaunchError, command_of
from crawler.service.watched_jobs import WatchedJobs
from crawler.url.urls import Canonical, Canonicaliser, completed

MOST_NAME = 64  # characters
_NAME = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,{MOST_NAME - 1}}}")
# What a page may not set: it would reach for files, code, addresses of this network, or the port of the dashboard.
_NOT_FROM_A_PAGE = frozenset(
    (
        "--known",
        "--proxy",
        "--allow-private",
        "--allow-network",
        "--on-page",
        "--partitions",
        "--partition-count",
        "--workers",
        "--engine",
        "--crawl",
        "--dashboard",
        "--dashboard-token-file",
    )
)


class Launches:
    """Starts the crawls of ``jobs``. New ones are made below ``new_jobs``, if that is given, with ``config``."""

    def __init__(self, jobs: WatchedJobs, new_jobs: Path | None, config: Path | None) -> None:
        self._jobs = jobs
        self._new_jobs = new_jobs
        self._config = config
        self._launcher = Launcher()

    def check_config(self) -> None:
        """Raises UsageError if no new job could be made with ``config``."""
        if self._new_jobs is None or self._config is None:
            return
        try:
            _check(["https://example.org/", f"--config={self._config.absolute()}", f"--job={self._new_jobs / '.new'}"])
        except LaunchError as error:
            raise UsageError(str(error)) from error

    async def start(self, name: str, seeds: Sequence[str], settings: Mapping[str, Any]) -> str:
        """Make a job and start its crawl. Raises LaunchError."""
        directory = self._free(name)
        words = ([] if self._config is None else [f"--config={self._config.absolute()}"]) + _words(settings)
        urls = _checked_seeds(seeds)
        await asyncio.to_thread(_check, [str(directory / LAUNCH_SEEDS), *words, f"--job={directory}"])
        return await self._begin(directory, urls, (str(directory / LAUNCH_SEEDS), *words), Path.cwd())

    async def resume(self, name: str) -> str:
        """Let the crawl of a job go on, with the settings of its last run. Raises KeyError, LaunchError."""
        directory = self._jobs.job(name).directory
        command = command_of(directory)
        urls, files, gone = command.seeds_of(directory)
        seeds = [*urls, *map(str, files)] or [STDIN]  # the job knows what it has read of the others
        job = f"--job={directory}"
        text = await self._launcher.launch(
            directory, ("crawl", *command.words, job, "--", *seeds), Path(command.directory)
        )
        await self._jobs.look()
        return f"{text} A file of its seeds is gone: it goes on with those that it has read." if gone else text

    async def duplicate(self, name: str, new: str) -> str:
        """Make a job with the seeds and settings of another one, and start its crawl. Raises KeyError, LaunchError."""
        source, directory = self._jobs.job(name).directory, self._free(new)
        command = command_of(source)
        urls, files, gone = command.seeds_of(source)
        if gone or not (urls or files) or STDIN in command.seeds:
            raise LaunchError(
                "its seeds are not there any more, or came from standard input: start a new job with them"
            )
        page = () if not _has_dashboard(source) else ("--dashboard=0",)  # the port of the other one may be taken
        own = [str(directory / LAUNCH_SEEDS)] if files else []  # the new job depends on no file of the other one
        lines = itertools.chain.from_iterable(map(read_lines, files)) if files else None
        return await self._begin(directory, lines, (*command.words, *page, "--", *urls, *own), Path(command.directory))

    async def _begin(self, directory: Path, seeds: Iterable[str] | None, words: Sequence[str], place: Path) -> str:
        """Make the directory of a new job and start its crawl there. A crawl that ends with an error before it has
        fetched a page leaves no trace: its name is free again."""
        try:
            await asyncio.to_thread(_make, directory, seeds)
        except FileExistsError:
            raise LaunchError("there is a directory of that name: choose another one") from None
        except OSError as error:
            raise LaunchError(f"the directory cannot be made: {error.strerror}") from error
        except SeedsError as error:
            raise LaunchError(str(error)) from error
        try:
            text = await self._launcher.launch(directory, ("crawl", f"--job={directory}", *words), place)
        except LaunchError as error:
            if await asyncio.to_thread(_remove_traces, directory):
                raise
            text = f"It has ended already: {error}"
        await self._jobs.show(directory.name)
        return text

    def _free(self, name: str) -> Path:
        """Return the directory for a new job. Raises LaunchError."""
        if self._new_jobs is None:
            raise LaunchError("start the dashboard with --new-jobs DIR: new jobs are made there", 403)
        if _NAME.fullmatch(name) is None:
            raise LaunchError(
                "a name has 1 to 64 letters, digits, dots, dashes or underscores, a letter or digit first", 400
            )
        directory = self._new_jobs.absolute() / name
        if directory.exists() or directory.is_symlink():
            raise LaunchError("there is a directory of that name: choose another one")
        return directory


def _make(directory: Path, seeds: Iterable[str] | None) -> None:
    """Make the directory of a new job, with its seeds if there are any. Raises OSError, SeedsError if they cannot be
    read; then there is no such directory."""
    make_private_directory(directory)
    if seeds is None:
        return
    try:
        with open(directory / LAUNCH_SEEDS, "x", encoding="utf-8", opener=private_opener) as stream:
            stream.writelines(f"{seed}\n" for seed in seeds)
    except (OSError, SeedsError):
        _remove_traces(directory)
        raise


def _has_dashboard(directory: Path) -> bool:
    with contextlib.suppress(JobError, SettingsError):
        return read_run(directory).settings.dashboard.listen is not None
    return False


def _words(settings: Mapping[str, Any]) -> list[str]:
    """Return the flags for settings from a page. Raises LaunchError."""
    try:
        settings_from(settings, "settings")
    except SettingsError as error:
        raise LaunchError(str(error), 400) from error
    flags = {(table, key): (flag, options) for flag, (table, key, options) in FLAGS.items()}
    words = list[str]()
    for table, values in settings.items():
        for key, value in values.items() if isinstance(values, Mapping) else [("", values)]:
            flag, options = flags.get((table, key), ("", {}))
            if not flag or flag in _NOT_FROM_A_PAGE:
                name = f"{table}.{key}" if key else f"[[{table}]]"
                raise LaunchError(f"{name} cannot be set here: set it in the file that --config names", 400)
            if value is False:
                raise LaunchError(f"{table}.{key} can only be switched on here", 400)
            if flag in ("--include", "--exclude") and any(each.startswith("@") for each in value):
                raise LaunchError(f"{table}.{key} cannot name files here: write the patterns", 400)
            words += flag_words(flag, value, options)
    return words


def _checked_seeds(seeds: Sequence[str]) -> list[str]:
    """Return the seeds without blanks around them. Raises LaunchError."""
    canonicaliser = Canonicaliser(())
    for seed in seeds:
        url = canonicaliser.canonicalise(completed(seed) or seed.strip())
        if not isinstance(url, Canonical) or not seed.isprintable():  # a line feed would make two of it
            reason = "it has control characters" if isinstance(url, Canonical) else url.reason
            raise LaunchError(f"{seed[:200]!r} is no seed: {reason}", 400)
    return [seed.strip() for seed in seeds]


def _check(words: Sequence[str]) -> None:
    """Check the command of a new crawl, as the crawl itself will. Raises LaunchError."""
    parser = _Parser(prog="crawler crawl", add_help=False)
    add_options(parser)
    try:
        build_settings(parser.parse_args(list(words)))
    except (UsageError, FilterError) as error:
        raise LaunchError(" ".join(str(error).split()), 400) from error


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(message)


def _remove_traces(directory: Path) -> bool:
    """Remove what was made for a crawl that has fetched nothing, so that its name is free again. False if there is more
    to keep than what it was given."""
    if lock_holder(directory) is not None or (holds_job(directory) and _has_fetched(directory)):
        return False
    shutil.rmtree(directory, ignore_errors=True)
    return True


def _has_fetched(job: Path) -> bool:
    """Whether there may be a page in a job."""
    try:
        return bool(job_stats(job)["pages_fetched"])
    except (JobError, OSError, *DAMAGE):
        return True
