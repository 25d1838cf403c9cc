"""Writes exports when a run has ended or has been stopped: the web archive as one file, for the output ``wacz``, and
Parquet files, for ``--parquet``. A crawl without them does not load this module.

Each export contains the whole job and replaces the previous export. If the new one cannot be written, or the user
interrupts it, the previous one is kept.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple, NoReturn

from crawler.base.say import say
from crawler.base.settings.parts import Settings
from crawler.cli.exit_codes import Exit
from crawler.cli.export import export_parquet, export_wacz
from crawler.inspect.export.beside import ExportError, SourceError
from crawler.inspect.export.tables import check_place
from crawler.inspect.export.web_archive import ARCHIVE, package_place
from crawler.job.directory import JobError
from crawler.job.stored_errors import DAMAGE
from crawler.service.ending_signals import ending_signals

_FAULTS = (ExportError, SourceError, JobError, OSError, *DAMAGE)


class _Export(NamedTuple):
    """``check`` and ``write`` take the directory of the job and the place ``out``. ``write`` returns a line that
    describes the export."""

    out: Path
    check: Callable[[Path, Path], object]
    write: Callable[[Path, Path], str]


def _wanted(job: Path, settings: Settings, parquet: Path | None) -> list[_Export]:
    wanted = []
    if "wacz" in settings.output.keep:
        write = partial(export_wacz, spare=settings.durability.min_free)
        wanted.append(_Export(job / ARCHIVE, package_place, write))
    if parquet is not None:
        wanted.append(_Export(parquet, check_place, export_parquet))
    return wanted


def check(job: Path, settings: Settings, parquet: Path | None) -> None:
    """Raise ExportError or MissingLibraryError if an export could not be written when the run ends."""
    for out, check, _ in _wanted(job, settings, parquet):
        if out.parent == job and not job.is_dir():
            continue  # the run creates this directory
        check(job, out)


def write(job: Path, settings: Settings, parquet: Path | None, code: int, *, quiet: bool) -> int:
    """Write all exports, and return the exit code of a run that would end with ``code`` without them. Ctrl-C skips the
    exports that are left."""
    try:
        with ending_signals(_interrupt):
            for out, _, export in _wanted(job, settings, parquet):
                if not quiet:
                    say(sys.stderr, f"writing {out}; press Ctrl-C to skip it")
                try:
                    text = export(job, out)
                except _FAULTS as error:
                    say(sys.stderr, f"crawler: {out} was not written: {' '.join(str(error).split())}")
                    code = code or Exit.FAILED
                else:
                    if not quiet:
                        say(sys.stderr, text)
    except KeyboardInterrupt:
        say(sys.stderr, "crawler: interrupted: the rest was not written; earlier exports are kept")
        return Exit.INTERRUPTED
    return code


def _interrupt(_: int) -> NoReturn:
    raise KeyboardInterrupt
