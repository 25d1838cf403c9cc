"""Error reports of commands that cannot read a job."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from crawler.base.carrier.verbs import CarrierError, CarrierRefusedError
from crawler.base.memory import is_limited
from crawler.base.say import say
from crawler.base.settings.load import SettingsError
from crawler.cli.exit_codes import FailedError, UsageError
from crawler.inspect.crawl_partitions import crawl_partitions
from crawler.job.checkpoint.envelope import EnvelopeError, UnknownVersionError
from crawler.job.directory import JobError
from crawler.job.run_settings import read_run
from crawler.job.store.rocks import StoreDamagedError
from crawler.job.stored_errors import DAMAGE
from crawler.seen.filters import NoMemoryError


def job_error_text(error: Exception) -> str:
    """Return the error line for a user of ``crawler crawl``, who chooses the directory with ``--job``."""
    if isinstance(error, JobError) and error.new_job:
        return f"{error.fault}, or start a new job with --job"
    return str(error)


def stopped_text(directory: Path, error: Exception) -> str:
    """Return the message for a job that a command has found to be damaged while changing it."""
    return (
        f"stopped: {directory} is damaged: {error}; nothing else was changed: `crawler verify {directory}` lists the "
        f"damage, `crawler repair {directory}` repairs it"
    )


@contextlib.contextmanager
def changing(directory: Path, words: Callable[[Exception], str] = str) -> Iterator[None]:
    """A context for changing a job or a crawl. It converts errors about damage or a lack of memory to FailedError, and
    errors about an unusable directory to UsageError with the text ``words(error)``."""
    try:
        yield
    except NoMemoryError as error:
        first = "raise the limit (ulimit -v)" if is_limited() else "free some memory"
        raise FailedError(f"stopped: {error}; progress is saved: {first} and run the same command again") from error
    except (JobError, EnvelopeError, CarrierRefusedError) as error:
        raise UsageError(words(error)) from error
    except (StoreDamagedError, *DAMAGE) as error:
        raise FailedError(stopped_text(directory, error)) from error


def failed(job: Path, error: str) -> FailedError:
    """Return an error whose text is one line that names the job."""
    text = " ".join(error.split())
    return FailedError(f"error: {text if text.startswith(str(job)) else f'{job}: {text}'}")


def say_defaults(job: Path) -> None:
    """If the settings of the last run cannot be read, report in one line on standard error that the defaults are used.
    Raises JobError, SettingsError."""
    for directory in crawl_partitions(job).jobs:
        fault = read_run(directory).fault
        if fault is not None:
            say(sys.stderr, f"{directory}: {fault}: the defaults are used instead of the settings of the last run")


def guarded(command: Callable[[argparse.Namespace], int]) -> Callable[[argparse.Namespace], int]:
    """Wrap a command so that it reports in one line if ``arguments.job`` holds no readable job, or if the crawl at
    ``arguments.engine`` cannot be read."""

    def run(arguments: argparse.Namespace) -> int:
        try:
            return command(arguments)
        except (JobError, UnknownVersionError):
            raise  # these errors do not mean damage
        except CarrierError as error:
            raise UsageError(f"cannot reach {arguments.engine}: {error}") from error
        except (*DAMAGE, SettingsError) as error:
            raise failed(arguments.job, str(error)) from error

    return run
