"""Parquet files of a crawl, written when it ends, for ``--parquet``. A crawl without them does not load this module."""

from __future__ import annotations

from pathlib import Path

from crawler.base.settings.parts import Settings
from crawler.cli.exit_codes import UsageError
from crawler.cli.export import check_parquet, export_parquet
from crawler.inspect.export.beside import ExportError
from crawler.inspect.export.parquet import MissingLibraryError, check_library
from crawler.job.stored_errors import DAMAGE
from crawler.web.extract.text_pool import missing_library


def check(job: Path, out: Path, settings: Settings) -> None:
    """Raise UsageError if the files could not be written when the crawl ends."""
    text = missing_library() if settings.text.extractor == "trafilatura" else None
    try:
        check_library()
    except MissingLibraryError as error:
        if text is not None:  # one line for both
            needs, commands = zip(*(line.split(": ") for line in (text, str(error))), strict=True)
            raise UsageError(f"{', '.join(needs)}: {' && '.join(commands)}") from error
    check_parquet(job, out)


def write(job: Path, out: Path) -> tuple[bool, str]:
    """Write the files. Returns whether they were written, and a line about it."""
    try:
        return True, export_parquet(job, out)
    except (ExportError, OSError, *DAMAGE) as error:
        return False, f"crawler: the Parquet files were not written: {' '.join(str(error).split())}"
