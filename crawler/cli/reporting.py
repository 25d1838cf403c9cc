"""Shows a run in progress, and reports how it ended."""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from crawler.base.carrier.verbs import CarrierError
from crawler.base.disk import DisplacedError, private_opener
from crawler.base.faults import UserFault
from crawler.base.say import say, say_json
from crawler.base.settings.load import Source
from crawler.base.settings.parts import HookSettings, Settings
from crawler.cli.damaged_job import changing, job_error_text
from crawler.cli.exit_codes import Exit, FailedError, UsageError
from crawler.engine.lifecycle import Stop
from crawler.job.bucket.objects import BucketDown
from crawler.job.crawl_file import holds_crawl
from crawler.job.directory import holds_job
from crawler.service.facade import Result
from crawler.service.progress.last_lines import ending

if TYPE_CHECKING:
    from crawler.engine.hooks.loaded import Hooks
    from crawler.service.progress.live_line import Progress

NO_HOOKS = HookSettings()


def _progress_view(force: bool) -> Progress:
    """Return the view of the crawl on standard error; with ``force`` it is drawn even without a terminal."""
    from crawler.service.progress.live_line import Progress  # noqa: PLC0415, a quiet crawl draws nothing

    return Progress(sys.stderr, force=force)


def hooks_of(settings: Settings) -> Hooks | None:
    """Return the user functions named by the settings. Raises CodeError, even though ``build_settings`` has loaded the
    same code: loading a module again may give another result."""
    if settings.hooks == NO_HOOKS:
        return None
    from crawler.engine.hooks.loaded import Hooks, load_hooks  # noqa: PLC0415, as above

    return Hooks(settings, load_hooks(settings.hooks, Source("command line")))


def report_end(result: Result, directory: Path, quiet: bool, fail_on_limit: bool, drained: bool = False) -> int:
    """Report how a run ended, and return the exit code. The result has no ``stats`` if the run ended before it had a
    job. ``drained``: True if the workers in the directory were asked to leave the crawl."""
    if not quiet and result.stats:
        say(sys.stderr, ending(result, directory, goes_on=not drained))
    if result.unstored:
        return Exit.FAILED
    match result.reason:
        case Stop.INTERRUPTED if drained:
            return Exit.OK
        case Stop.INTERRUPTED:
            return Exit.INTERRUPTED
        case Stop.MIN_FREE:
            return Exit.LIMIT
        case Stop.FINISHED | Stop.MAX_TIME if result.no_seed is not None:
            say(sys.stderr, f"crawler: {result.no_seed}")
            return Exit.FAILED
        case Stop.MAX_PAGES | Stop.MAX_TIME | Stop.READER_LEFT if fail_on_limit:
            return Exit.LIMIT
        case Stop.CODE:
            return Exit.FAILED
        case _:
            return Exit.OK


def writes_after(arguments: argparse.Namespace, settings: Settings) -> bool:
    """Return True if exports are written when the run has ended."""
    return arguments.parquet is not None or "wacz" in settings.output.keep


def finish(arguments: argparse.Namespace, settings: Settings, result: Result, code: int) -> int:
    """Write the exports and the JSON object, if wanted, when a run has ended. Returns the exit code of a run that would
    end with ``code``."""
    if result.stats and writes_after(arguments, settings):
        from crawler.cli import after_run  # noqa: PLC0415, most crawls write no exports

        code = after_run.write(arguments.job, settings, arguments.parquet, code, quiet=arguments.quiet)
    if arguments.json:
        stopped_early = not result.stats and code in (Exit.LIMIT, Exit.INTERRUPTED)
        error = result.reason if stopped_early else result.no_seed
        try:
            say_json({"job": str(arguments.job), "exit": int(code), "error": error, **result.stats})
        except OSError as fault:
            say(sys.stderr, f"crawler: error: {fault}")
            return code or Exit.FAILED
    return code


@contextlib.contextmanager
def shown_run(arguments: argparse.Namespace, engine: str = "", hint: str = "") -> Iterator[Progress | None]:
    """A context for one run in ``arguments.job``. Yields the run's view, which also shows log lines, or None if the
    user wants no view. An error that ends the run early becomes a UsageError or a FailedError of one line. ``engine``:
    the carrier of the crawl, if any; ``hint``: what the user can do if the carrier cannot be reached."""
    view = None if arguments.quiet else _progress_view(arguments.progress)
    show_log(partial(say, sys.stderr) if view is None else view.say)
    directory: Path = arguments.job
    began = holds_any(directory)
    try:
        with changing(directory, job_error_text):
            yield view
    except (UserFault, FailedError):
        raise
    except BucketDown as error:
        raise FailedError(f"error: {error}: run the same command when it is available") from error
    except CarrierError as error:
        raise UsageError(f"cannot reach {engine}: {error}{hint}") from error
    except DisplacedError as error:
        raise FailedError(f"stopped: {error}") from error
    except Exception as error:  # a bug must not look like the end of a crawl
        saved = began or holds_any(directory)
        kept = way_on(directory) if saved else "nothing was started"
        raise FailedError(f"stopped: {trouble_text(error, directory)}; {kept}") from error


def way_on(directory: Path) -> str:
    """Return a line that says how to resume a job or crawl that has failed."""
    if os.access(directory, os.W_OK):
        return "progress is saved: run the same command to resume"
    return f"{directory} is not writable: make it writable, and run the same command to resume"


def holds_any(directory: Path) -> bool:
    """Return True if the directory holds a job or a crawl, and False if it holds neither or cannot be read."""
    try:
        return holds_job(directory) or holds_crawl(directory)
    except OSError:
        return False


def trouble_text(error: Exception, directory: Path) -> str:
    """Return the error as one line. Writes the traceback of a bug to a file in the directory, for the bug report."""
    text = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, OSError):
        return text
    path = directory / "crash.txt"
    details = "".join(traceback.format_exception(error))
    try:
        with open(path, "w", encoding="utf-8", opener=private_opener) as stream:
            stream.write(details)
    except OSError:
        # The file cannot be written: a traceback on the screen is better than none.
        return f"{type(error).__name__}: {text}; details:\n{details}"
    return f"{type(error).__name__}: {text}; details in {path}"


def show_log(show: Callable[[str], None]) -> None:
    """Pass log lines to a function that shows them."""
    logging.basicConfig(level=logging.WARNING, format="%(message)s", handlers=[LogLines(show)])


class LogLines(logging.Handler):
    """Passes log lines to ``show``, which prints them above the live view, if there is one."""

    def __init__(self, show: Callable[[str], None]) -> None:
        super().__init__()
        self._show = show

    def emit(self, record: logging.LogRecord) -> None:
        self._show(self.format(record))
