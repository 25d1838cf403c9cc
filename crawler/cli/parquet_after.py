"""Parquet files of a crawl, written when it ends, for ``--parquet``. A crawl without them does not load this module."""

from __future__ import annotations

from pathlib import Path

from crawler.cli.exit_codes import UsageError
from crawler.cli.export import check_parquet, export_parquet
from crawler.inspect.export.beside import ExportError
from crawler.inspect.export.parquet import MissingLibraryError, check_library
from crawler.job.stored_errors import DAMAGE


def check(job: Path, out: Path) -> None:
    """Raise UsageError if the files could not be written when the crawl ends."""
    try:
        check_library()
    except MissingLibraryError as error:
        raise UsageError(str(error)) from error
    check_parquet(job, out)


def write(job: Path, out: Path) -> tuple[bool, str]:
    """Write the files. Returns whether they were written, and a line about it."""
    try:
        return True, export_parquet(job, out)
    except (ExportError, OSError, *DAMAGE) as error:
        return False, f"crawler: the Parquet files were not written: {' '.join(str(error).split())}"
