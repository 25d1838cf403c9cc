"""``crawler dashboard DIR``: serves the live page of a job, running or not."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import signal
from pathlib import Path

from crawler.cli.damaged_job import guarded
from crawler.cli.exit_codes import Exit, UsageError
from crawler.clock import SteadyClock
from crawler.dashboard import Access, Dashboard, Feed, access_of, keep_token, spoken_of
from crawler.job.stored_errors import DAMAGE
from crawler.service.api import Api
from crawler.service.attach import AttachedView, WatchedJob
from crawler.service.survey_api import SurveyApi
from crawler.settings import DashboardSettings


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", type=Path, metavar="DIR")
    parser.add_argument(
        "--listen",
        default="0",
        metavar="[HOST:]PORT",
        help="serve the page at this address (default: a free port on this machine)",
    )
    parser.set_defaults(run=guarded(run))


def run(arguments: argparse.Namespace) -> int:
    view = WatchedJob(arguments.job, SteadyClock())
    if view.live is not None and view.live.dashboard is not None:
        print(f"the crawl already serves its dashboard: {view.live.dashboard}")
        return Exit.OK
    settings = DashboardSettings(listen=arguments.listen)
    try:
        access = access_of(settings, arguments.job)
    except ValueError as error:
        raise UsageError(str(error)) from error
    try:
        assert access.token is not None
        keep_token(settings, arguments.job, access.token)
    except OSError:
        # Another user's job: its crawl cannot be controlled, but it can still be watched on this machine.
        access = access if access.to_look else Access()
    asyncio.run(_serve(view, settings, access))
    return Exit.OK


async def _serve(view: WatchedJob, settings: DashboardSettings, access: Access) -> None:
    """Serve the page until SIGINT or SIGTERM."""
    clock, loop = SteadyClock(), asyncio.get_running_loop()
    attached = AttachedView(view, clock, DAMAGE)
    survey = view.survey()
    feed = Feed(lambda: view.stats(clock()), clock, view.course, survey.news)
    about = SurveyApi(attached, survey, feed)
    routes = [*Api(attached, clock).routes(), *about.routes()]
    board = Dashboard(settings, feed, routes, access)
    try:
        address = await board.start()
    except OSError as error:
        raise UsageError(
            f"cannot serve the page at {settings.listen}: {error.strerror}; choose another port"
        ) from error
    for line in spoken_of(settings, access, address):
        print(line, flush=True)
    keeping = asyncio.create_task(attached.keep())
    counting = asyncio.create_task(survey.keep())
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, keeping.cancel)
    try:
        with contextlib.suppress(asyncio.CancelledError):
            await keeping
    finally:
        counting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await counting
        await board.stop()
        await about.close()
        await attached.close()
