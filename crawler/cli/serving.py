"""Serves a page of the dashboard until a signal stops the server."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from msgspec.structs import replace

from crawler.base.clock import SteadyClock
from crawler.base.say import say
from crawler.base.settings.parts import DashboardSettings
from crawler.cli.browser import open_in_browser
from crawler.cli.exit_codes import UsageError
from crawler.cli.interruptible import run_interruptible
from crawler.service.dashboard.access import Access
from crawler.service.dashboard.live_server import Dashboard, LiveServer
from crawler.service.dashboard.token import TOKEN, access_of, spoken_of
from crawler.service.ending_signals import ending_signals
from crawler.service.file_source import JobSource
from crawler.service.shown_source import ShownSource
from crawler.service.source import Source

Tell = Callable[[str], object]
_print: Tell = partial(print, flush=True)


def keep_open(job: Path, settings: DashboardSettings, address: str, quiet: bool) -> None:
    """Serve the page of a crawl that has ended, at the address that the page had during the crawl, until a signal
    arrives."""
    tell: Tell = bool if quiet else partial(say, sys.stderr)
    tell("the crawl has released the job; its page stays open until Ctrl-C")
    gc.unfreeze()  # lets the collector free the run's objects
    there = replace(settings, listen=urlsplit(address).netloc)
    source, access = JobSource(job, SteadyClock()), access_of(settings, job)
    run_interruptible(lambda: serve_page(source, there, access, None, tell))


async def serve_page(
    source: Source, settings: DashboardSettings, access: Access, opens: Path | None, tell: Tell = _print
) -> None:
    """Serve the page of one job until a signal stops the server."""
    token = TOKEN if (source.directory / TOKEN).exists() else None
    async with contextlib.aclosing(ShownSource(source, {"token_file": token})) as page:
        board = Dashboard(settings, page.feed, page.routes, access)
        await until_signalled(board, settings, access, asyncio.create_task(page.keep()), opens, tell)


async def until_signalled(
    server: LiveServer,
    settings: DashboardSettings,
    access: Access,
    keeping: asyncio.Task[None],
    opens: Path | None,
    tell: Tell = _print,
) -> None:
    """Serve until a signal stops the server, or until ``keeping`` fails. Calls ``tell`` with the link. If ``opens`` is
    given, also opens the link in a browser, by way of a file in the directory ``opens``. Raises UsageError, and the
    errors of ``keeping``."""
    try:
        address = await server.start()
    except OSError as error:
        keeping.cancel()
        raise UsageError(
            f"cannot serve the page at {settings.listen}: {error.strerror}; choose another port"
        ) from error
    tell(spoken_of(settings, access, address))
    if opens is not None:
        open_in_browser(access.link(address), opens)
    loop = asyncio.get_running_loop()
    with ending_signals(lambda _: loop.call_soon_threadsafe(keeping.cancel)):
        try:
            with contextlib.suppress(asyncio.CancelledError):
                await keeping
        finally:
            await server.stop()
