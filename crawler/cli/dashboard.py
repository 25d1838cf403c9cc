"""``crawler dashboard DIR...``: serves the live page of a job, running or not, or of several jobs on one page."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from crawler.base.clock import SteadyClock
from crawler.base.settings.parts import DashboardSettings, Settings
from crawler.cli.browser import open_in_browser
from crawler.cli.damaged_job import guarded, say_defaults
from crawler.cli.exit_codes import Exit, UsageError
from crawler.cli.interruptible import run_interruptible
from crawler.cli.launches import Launches, start_fault
from crawler.cli.serving import serve_page, until_signalled
from crawler.cli.subject import add_engine, at_engine, directory_or_address, subject_source
from crawler.inspect.crawl_partitions import holds_any
from crawler.job.metrics.events import Events
from crawler.service.api import Api
from crawler.service.commands import performing
from crawler.service.dashboard.access import Access
from crawler.service.dashboard.feed import Feed
from crawler.service.dashboard.job_list import JobList, Routes
from crawler.service.dashboard.live_server import JobPage, LiveServer
from crawler.service.dashboard.token import TOKEN, access_of, keep_token, token_from_file
from crawler.service.job_survey import JobSurvey
from crawler.service.run_view import RunView
from crawler.service.survey_api import SurveyApi
from crawler.service.watched_jobs import WatchedJobs, jobs_in


def add_options(parser: argparse.ArgumentParser) -> None:
    if not getattr(parser, "by_engine", False):
        parser.add_argument(
            "jobs",
            type=directory_or_address,
            nargs="*",
            metavar="DIR",
            help="a job, several jobs, or a directory that holds jobs; or the address of a store",
        )
    add_engine(parser)
    parser.add_argument(
        "--dashboard",
        "--listen",
        dest="listen",
        default="0",
        metavar="[HOST:]PORT",
        help="serve the page at this address (default: a free port on this machine)",
    )
    parser.add_argument(
        "--new-jobs", type=Path, metavar="DIR", help="let the page create new jobs below this directory, and show them"
    )
    parser.add_argument("--config", type=Path, metavar="FILE", help="settings in TOML for new jobs")
    parser.add_argument("--open", action="store_true", help="open the page in a browser")
    parser.set_defaults(run=run, serves=True, copied_at=None)


def run(arguments: argparse.Namespace) -> int:
    settings, new_jobs = DashboardSettings(listen=arguments.listen), arguments.new_jobs
    if at_engine(arguments):
        for flag in ("new_jobs", "config", "open"):
            if getattr(arguments, flag):
                raise UsageError(f"--{flag.replace('_', '-')} needs a directory")
        return guarded(partial(_run_one, settings=settings))(arguments)
    given: Sequence[Path] = arguments.jobs
    if arguments.config is not None and new_jobs is None:
        raise UsageError("--config applies to new jobs: give their directory with --new-jobs DIR")
    if new_jobs is None and len(given) == 1 and (holds_any(given[0]) or not jobs_in(given)):
        arguments.job = given[0]
        return guarded(partial(_run_one, settings=settings))(arguments)
    for directory in given:
        if directory != new_jobs and not jobs_in([directory]):
            raise UsageError(f"{directory} holds no job, and neither does any directory in it")
    if new_jobs is not None and not new_jobs.is_dir():
        raise UsageError(f"--new-jobs: {new_jobs} is not a directory")
    if not given and new_jobs is None:
        raise UsageError("name one or more jobs, or a directory that holds jobs")
    home = new_jobs or given[0]
    jobs = WatchedJobs([*given, *([] if new_jobs is None else [new_jobs])], SteadyClock(), start_fault)
    jobs.about = {"new_jobs": new_jobs is not None, "token_file": f"{home.resolve().name}/{TOKEN}"}
    launches = Launches(jobs, new_jobs, arguments.config)
    launches.check_config()
    opens = home if arguments.open else None
    run_interruptible(lambda: _serve_several(jobs, launches, settings, _access(settings, home), opens))
    return Exit.OK


def _run_one(arguments: argparse.Namespace, settings: DashboardSettings) -> int:
    """Serve the page of a job or a crawl. A crawl at an engine has no directory here, so only the printed link has the
    token."""
    directory: Path | None = None if at_engine(arguments) else arguments.job
    if directory is not None:
        say_defaults(directory)
    with subject_source(arguments) as source:
        if source.dashboard is not None and directory is not None:
            link = source.dashboard
            with contextlib.suppress(ValueError):  # the user chose the crawl's token, which is not printed
                link = Access(token_from_file(directory / TOKEN)).link(link)
            print(f"the crawl already serves its dashboard: {link}")
            if arguments.open:
                open_in_browser(link, directory).join()
            return Exit.OK
        source.copied_at = arguments.copied_at
        access, opens = _access(settings, directory), directory if arguments.open else None
        run_interruptible(lambda: serve_page(source, settings, access, opens))
    return Exit.OK


def _access(settings: DashboardSettings, directory: Path | None) -> Access:
    """Return the access rights, and keep their token in ``directory`` if possible. Raises UsageError."""
    try:
        access = access_of(settings, directory)
    except ValueError as error:
        raise UsageError(str(error)) from error
    if directory is not None:
        with contextlib.suppress(OSError):  # another user's job: only the printed link has the token
            keep_token(settings, directory, access.token)
    return access


async def _serve_several(
    jobs: WatchedJobs, launches: Launches, settings: DashboardSettings, access: Access, opens: Path | None
) -> None:
    """Serve the list of jobs, and the page of each job, until a signal stops the server."""
    clock = SteadyClock()
    nobody = RunView(lambda: None, performing(lambda: None, Events(), clock), Settings(), clock)
    nothing, feed = JobSurvey(Path(), lambda: None), Feed(dict, clock)
    about = SurveyApi(nobody, nothing, feed)
    listed = JobList(jobs, Routes([*JobPage(feed).routes(), *Api(nobody).routes(), *about.routes()]))
    await about.close()
    await nobody.close()
    server = LiveServer(settings, listed, [*listed.routes(), *launches.routes()], access)
    await until_signalled(server, settings, access, asyncio.create_task(jobs.keep()), opens)
