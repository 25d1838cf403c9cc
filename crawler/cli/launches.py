"""Starts crawls from the dashboard of several jobs: existing ones with the command of their last run, and new ones.

    POST /api/jobs                  a new job: {"name": NAME, "seeds": [URL, ...], "settings": TOML or tables}
    POST /api/jobs/NAME/resume      resumes the crawl of a job, with the settings of its last run
    POST /api/jobs/NAME/duplicate   a new job with the seeds and settings of another one: {"name": NAME}

The dashboard's guard has already checked the token. The response is {"name": NAME, "text": the outcome}.

A new job may have every setting with a flag, except those that access files, code, logins or networks other than the
public one: having the page's token does not give a person the rights of this machine's user. All other settings come
from the configuration that the dashboard was given for new jobs.

Each crawl has its own process, which outlives the dashboard. It leads its own session, reads nothing, and writes to
``DIR/crawl.log``. The response waits until the crawl is running or has ended, so that a wrong setting is reported at
once, with the line that the crawl wrote.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import re
import shutil
import subprocess
import tomllib
from collections.abc import AsyncIterator, Awaitable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from aiohttp import web

from crawler.base.disk import make_private_directory, private_opener
from crawler.base.faults import UserFault
from crawler.base.printable import one_line
from crawler.base.same_program import words_of
from crawler.base.settings.load import settings_from
from crawler.base.settings.parts import Settings
from crawler.cli.command_parser import CommandParser
from crawler.cli.crawl import add_options, build_settings
from crawler.cli.exit_codes import Exit, UsageError
from crawler.cli.options import FLAGS, flag_words
from crawler.engine.seeds import SeedsError, read_urls
from crawler.inspect.crawl_partitions import holds_any
from crawler.job.checkpoint.envelope import EnvelopeError
from crawler.job.directory import DEMO, LAUNCH_LOG, LAUNCH_LOG_BEFORE, LAUNCH_SEEDS, is_free
from crawler.job.job_lock import lock_holder, locked, unlock
from crawler.job.last_command import STDIN, LastCommand, read_command
from crawler.job.live_status import read_live
from crawler.job.run_settings import read_run
from crawler.service.dashboard.guard import json_body
from crawler.service.progress.supervisor import environment_of_another
from crawler.service.watched_jobs import WatchedJobs
from crawler.url.urls.canonicaliser import Canonical, Canonicaliser
from crawler.url.urls.typed import completed

MOST_SEEDS = 10_000  # per request; a seeds file may give a job more
MOST_NAME = 64  # characters of a job's name
WAIT = 20.0  # seconds to wait for a crawl to run or end
_POLL = 0.1
_LOCK = ".lock"  # file in a directory of jobs, locked while one of them is started
_NAME = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,{MOST_NAME - 1}}}")
# Flags that a page may not set: they access files, code, addresses of this network, or the dashboard's port.
_NOT_FROM_A_PAGE = (
    *("--known", "--proxy", "--allow-private", "--allow-network", "--on-page", "--partitions", "--partition-count"),
    *("--workers", "--engine", "--crawl", "--dashboard", "--dashboard-token-file", "--notify"),
)
_SEND = 'Send {"name": NAME, "seeds": [URL, ...]}, and optionally "settings" in TOML or as tables.'


class LaunchError(UserFault):
    """A crawl cannot be started now. The text is one line."""


class Launcher:
    """Starts crawls, one at a time, each in its own process."""

    def __init__(self) -> None:
        self._one = asyncio.Lock()
        self._started: list[subprocess.Popen[bytes]] = []

    async def launch(self, job: Path, words: Sequence[str], place: Path) -> str:
        """Start ``crawler crawl WORDS`` for a job, whose directory exists, with ``place`` as working directory. Returns
        the outcome in one line. If the directory held nothing but files of a launch, and the crawl ends before it has
        created the job, the directory is removed. Raises LaunchError, including when the crawl is already running."""
        async with self._one:
            # ``poll`` also reaps processes that have ended.
            self._started = [each for each in self._started if each.poll() is None]
            log, is_new = job / LAUNCH_LOG, is_free(job)
            try:
                if lock_holder(job) is not None:
                    raise LaunchError("the crawl is running")
                process = await asyncio.to_thread(_start, ("crawl", f"--job={job}", *words), place, log)
                self._started.append(process)
                return await _outcome(process, job, log)
            except (LaunchError, OSError) as error:
                if is_new and holds_any(job):
                    return f"It has already ended: {error}"
                if is_new and lock_holder(job) is None:
                    await asyncio.to_thread(shutil.rmtree, job, ignore_errors=True)
                if isinstance(error, OSError):
                    raise LaunchError(f"cannot start the crawl: {error.filename or ''} {error.strerror}") from error
                raise


@contextlib.asynccontextmanager
async def alone(jobs: Path) -> AsyncIterator[None]:
    """A context that locks the directory: no other program that uses this lock creates jobs in it. Raises OSError."""
    while (lock := locked(jobs / _LOCK, os.O_CREAT)) is None:  # noqa: ASYNC110, another process has it
        await asyncio.sleep(_POLL)
    try:
        yield
    finally:
        unlock(lock)


class Launches:
    """Starts the crawls of ``jobs``. New jobs are created below ``new_jobs``, if given, with the configuration file
    ``config``."""

    def __init__(self, jobs: WatchedJobs, new_jobs: Path | None, config: Path | None) -> None:
        self._jobs = jobs
        self._new_jobs = new_jobs
        self._config = [] if config is None else [f"--config={config.absolute()}"]
        self._launcher = Launcher()

    def check_config(self) -> None:
        """Raise UserFault if no new job could be created with ``config``."""
        if self._new_jobs is not None:
            check_command(["https://example.org/", *self._config, f"--job={self._new_jobs / '.new'}"])

    def routes(self) -> list[web.RouteDef]:
        return [
            web.post("/api/jobs", self._api_start),
            web.post("/api/jobs/{job:[^/]+}/resume", self._api_resume),
            web.post("/api/jobs/{job:[^/]+}/duplicate", self._api_duplicate),
        ]

    async def _api_start(self, request: web.Request) -> web.Response:
        match await json_body(request):
            case {"name": str(name), "seeds": [*seeds], **more} if more.keys() <= {"settings"} and all(
                isinstance(each, str) for each in seeds
            ):
                if not 0 < len(seeds) <= MOST_SEEDS:
                    raise web.HTTPBadRequest(text=f"Name 1 to {MOST_SEEDS} seeds; add others with crawler add.")
                return await _answer(name, self.start(name, seeds, _tables(more.get("settings", {}))), 201)
        raise web.HTTPBadRequest(text=_SEND)

    async def _api_resume(self, request: web.Request) -> web.Response:
        name = request.match_info["job"]
        return await _answer(name, self.resume(name), 200)

    async def _api_duplicate(self, request: web.Request) -> web.Response:
        match await json_body(request):
            case {"name": str(new)}:
                return await _answer(new, self.duplicate(request.match_info["job"], new), 201)
        raise web.HTTPBadRequest(text='Send {"name": NAME} with the name of the new job.')

    async def start(self, name: str, seeds: Sequence[str], settings: Mapping[str, Any]) -> str:
        """Create a job and start its crawl. Raises UserFault."""
        directory = self._free(name)
        words = [*self._config, *_words(settings)]
        urls = checked_seeds(seeds)
        await asyncio.to_thread(check_command, [str(directory / LAUNCH_SEEDS), *words, f"--job={directory}"])
        return await self._begin(directory, urls, words, Path.cwd())

    async def resume(self, name: str) -> str:
        """Resume the crawl of a job, with the settings of its last run. Raises KeyError, LaunchError."""
        directory = self._jobs.job(name).directory
        command = command_of(directory)
        urls, files, gone = command.seeds_of(directory)
        seeds = [*urls, *map(str, files)] or [STDIN]  # the job knows which other seeds it has read
        text = await self._launcher.launch(directory, (*command.words, "--", *seeds), Path(command.directory))
        await self._jobs.look()
        return f"{text} A seeds file is gone: the crawl continues with the seeds already read." if gone else text

    async def duplicate(self, name: str, new: str) -> str:
        """Create a job with the seeds and settings of another job, and start the new job's crawl. Raises KeyError,
        UserFault."""
        source, directory = self._jobs.job(name).directory, self._free(new)
        command = command_of(source)
        urls, files, gone = command.seeds_of(source)
        if gone or not (urls or files) or STDIN in command.seeds:
            raise LaunchError("its seeds no longer exist, or came from standard input: start a new job with them")
        has_page = read_run(source).settings.dashboard.listen is not None
        page = ("--dashboard=0",) if has_page else ()  # the other job's port may be in use
        # The seeds are copied: the new job must not depend on the other job's files.
        seeds = itertools.chain(urls, *map(read_urls, files))
        return await self._begin(directory, seeds, (*command.words, *page), Path(command.directory))

    async def _begin(self, directory: Path, seeds: Iterable[str], words: Sequence[str], place: Path) -> str:
        """Create the directory of a new job and start its crawl there. Raises UserFault."""
        try:
            async with alone(directory.parent):
                self._free(directory.name)  # another program may just have created it
                await asyncio.to_thread(_make, directory, seeds)
                words = (*words, "--", str(directory / LAUNCH_SEEDS))
                text = await self._launcher.launch(directory, words, place)
        except OSError as error:
            raise LaunchError(f"cannot create the directory: {error.strerror}") from error
        await self._jobs.show(directory.name)
        return text

    def _free(self, name: str) -> Path:
        """Return the directory for a new job. Raises UserFault."""
        if self._new_jobs is None:
            raise web.HTTPForbidden(text="start the dashboard with --new-jobs DIR, in which new jobs are created")
        directory = directory_of(self._new_jobs.absolute(), name)
        if not is_free(directory) or lock_holder(directory) is not None:
            raise LaunchError("a directory of that name already exists: choose another name")
        return directory


def directory_of(jobs: Path, name: str) -> Path:
    """Return the directory of the job with this name, always inside ``jobs``. Raises UsageError for an invalid name."""
    if _NAME.fullmatch(name) is None:
        raise UsageError(
            f"a name has 1 to {MOST_NAME} letters, digits, dots, dashes or underscores; the first is a letter or digit"
        )
    return jobs / name


def command_of(directory: Path) -> LastCommand:
    """Return the command of a job's last run. Raises LaunchError if it cannot start the crawl again."""
    try:
        command = read_command(directory)
    except (EnvelopeError, OSError) as error:
        text = error.strerror if isinstance(error, OSError) else str(error)
        raise LaunchError(
            f"cannot read how this crawl was started: {text}; resume it on the command line once"
        ) from error
    if command is None and (directory / DEMO).exists():
        raise LaunchError("it is a demo, whose pages are served by crawler demo: resume it with that command")
    if command is None:
        raise LaunchError("it is unknown how this crawl was started: resume it on the command line once")
    if not Path(command.directory).is_dir():
        raise LaunchError("the directory in which this crawl was started is gone: resume it on the command line")
    return command


def start_fault(directory: Path) -> str | None:
    """Return why the crawl of a job cannot be started again; None if it can."""
    try:
        command_of(directory)
    except LaunchError as error:
        return str(error)
    return None


def _make(directory: Path, seeds: Iterable[str]) -> None:
    """Create the directory of a new job, and write its seeds there. If that fails, removes the directory and raises
    OSError, or SeedsError if the seeds cannot be read."""
    make_private_directory(directory, exist_ok=True)
    try:
        with open(directory / LAUNCH_SEEDS, "w", encoding="utf-8", opener=private_opener) as stream:
            stream.writelines(f"{seed}\n" for seed in seeds)
    except (OSError, SeedsError):
        shutil.rmtree(directory, ignore_errors=True)
        raise


def _start(words: Sequence[str], directory: Path, log: Path) -> subprocess.Popen[bytes]:
    """Start the process with a new log; the previous log is kept next to the new one. Raises OSError."""
    with contextlib.suppress(FileNotFoundError):
        log.replace(log.with_name(LAUNCH_LOG_BEFORE))
    with open(log, "xb", opener=private_opener) as stream:
        return subprocess.Popen(
            [*words_of(), *words],
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
            cwd=directory,
            env=environment_of_another(),
            start_new_session=True,
        )


async def _outcome(process: subprocess.Popen[bytes], job: Path, log: Path) -> str:
    deadline = asyncio.get_running_loop().time() + WAIT
    while asyncio.get_running_loop().time() < deadline:
        code = process.poll()
        if code in (Exit.OK, Exit.LIMIT):
            return "It has already ended, or had already reached a limit."
        if code is not None:
            line = last_line(log).replace(str(job), job.name)  # the page shows a job's name, not its path
            raise LaunchError(line or f"the crawl ended with code {code} without a message")
        with contextlib.suppress(OSError):
            if lock_holder(job) == process.pid and read_live(job) is not None:
                return "Started."
        await asyncio.sleep(_POLL)
    return f"It is still starting: see {LAUNCH_LOG} in its directory."


def last_line(log: Path) -> str:
    """Return the last line of a crawl's log, without the program's name."""
    with contextlib.suppress(OSError):
        lines = log.read_text("utf-8", "replace").strip().splitlines() or [""]
        return lines[-1].strip().removeprefix("crawler: ").removeprefix("error: ")
    return ""


def _words(settings: Mapping[str, Any]) -> list[str]:
    """Return the flags that give a crawl the settings that a page has sent. Raises UserFault."""
    settings_from(settings, "settings")
    flags = {(table, key): (flag, options) for flag, (table, key, options) in FLAGS.items()}
    words = list[str]()
    for table, values in settings.items():
        for key, value in values.items() if isinstance(values, Mapping) else [("", values)]:
            flag, options = flags.get((table, key), ("", {}))
            if not flag or flag in _NOT_FROM_A_PAGE:
                name = f"{table}.{key}" if key else f"[[{table}]]"
                raise UsageError(f"{name} cannot be set here: set it in the file that --config names")
            if value is False:
                raise UsageError(f"{table}.{key} can only be switched on here")
            if flag in ("--include", "--exclude") and any(each.startswith("@") for each in value):
                raise UsageError(f"{table}.{key} cannot name a file (@FILE) here: give the patterns themselves")
            words += flag_words(flag, value, options)
    return words


def checked_seeds(seeds: Sequence[str]) -> list[str]:
    """Return the seeds as canonical URLs. Raises UsageError."""
    canonicaliser, found = Canonicaliser(()), list[str]()
    for seed in seeds:
        url = canonicaliser.canonicalise(completed(seed) or seed.strip())
        if not isinstance(url, Canonical) or not seed.isprintable():  # a line feed would split the seed
            reason = "it contains control characters" if isinstance(url, Canonical) else url.reason
            raise UsageError(f"{seed[:200]!r} is not a valid seed: {reason}")
        found.append(url.href)
    return found


def check_command(words: Sequence[str]) -> Settings:
    """Check the command of a new crawl, as the crawl itself will, and return its settings. Raises UserFault."""
    parser = CommandParser(prog="crawler crawl", add_help=False)
    add_options(parser)
    return build_settings(parser.parse_args(list(words)))


def _tables(settings: Any) -> Mapping[str, Any]:
    """Return the settings in a request, which are tables or TOML, as tables. Raises HTTPBadRequest."""
    if isinstance(settings, str):
        try:
            return tomllib.loads(settings)
        except (ValueError, RecursionError) as error:
            raise web.HTTPBadRequest(text=f"The settings are not TOML: {error}.") from error
    if not isinstance(settings, dict):
        raise web.HTTPBadRequest(text=_SEND)
    return settings


async def _answer(name: str, started: Awaitable[str], status: int) -> web.Response:
    try:
        text = await started
    except KeyError:
        raise web.HTTPNotFound(text="This page shows no job of that name.") from None
    except UserFault as error:
        status = 409 if isinstance(error, LaunchError) else 400
        return web.json_response({"error": one_line(str(error))}, status=status)
    return web.json_response({"name": name, "text": text}, status=status)
