"""``crawler export DIR``: exports a job to formats that other programs read."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from crawler import __version__
from crawler.base.clock import SteadyClock
from crawler.base.figures import counted
from crawler.cli.damaged_job import guarded, say_defaults
from crawler.cli.exit_codes import Exit, FailedError, UsageError
from crawler.cli.options import add_allowed
from crawler.cli.subject import add_subject
from crawler.inspect.export.beside import SourceError
from crawler.inspect.export.csv_file import record_pieces, write_records
from crawler.inspect.export.markdown_export import write_markdown
from crawler.inspect.export.tables import Source, Written, write_parquet
from crawler.inspect.export.web_archive import write_index, write_package
from crawler.inspect.record_stream import Purposes


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Write the results of a job, running or not, in a format that other programs read. Only records that no crash "
        "can undo are written. OUT appears when it is complete, and replaces an earlier export; no other file is ever "
        "replaced. A directory of Markdown files is updated instead."
    )
    add_subject(parser)
    formats = parser.add_mutually_exclusive_group(required=True)
    formats.add_argument(
        "--parquet",
        type=Path,
        metavar="OUT",
        help="Parquet files of pages, links, text, structured data and hosts, in the directory OUT",
    )
    formats.add_argument(
        "--csv", type=Path, metavar="OUT", help="the records as one table, in the file OUT; - prints it"
    )
    formats.add_argument(
        "--markdown",
        type=Path,
        metavar="OUT",
        help="the Markdown of pages that `--output markdown` kept, one file per page, in the directory OUT; run "
        "again to update it",
    )
    formats.add_argument("--cdxj", type=Path, metavar="OUT", help="the index of the web archive, in the file OUT")
    formats.add_argument("--wacz", type=Path, metavar="OUT.wacz", help="the web archive and its index as one file")
    add_allowed(parser)
    parser.set_defaults(run=guarded(run))


def run(arguments: argparse.Namespace) -> int:
    if arguments.allowed and (arguments.cdxj or arguments.wacz):
        raise UsageError("--allowed cannot filter the files of a web archive; crawl with --purpose instead")
    say_defaults(arguments.job)
    if str(arguments.csv) == "-":
        print_csv(record_pieces(Source(arguments.job, arguments.allowed)))
        return Exit.OK
    try:
        text = _export(arguments)
    except (OSError, SourceError) as error:
        raise FailedError(f"error: nothing was exported: {' '.join(str(error).split())}") from error
    print(text)
    return Exit.OK


def _text(out: Path, written: Written) -> str:
    rows = [counted(number, _NOUNS.get(table, table.removesuffix("s"))) for table, number in written.rows.items()]
    text = f"{out}: {', '.join(rows)}; {written.size:,} bytes"
    return "\n".join([text, *missing_text(written.without)])


def missing_text(without: Mapping[str, int]) -> Iterator[str]:
    """Yield a line for each table that lacks some of the pages."""
    for table, pages in without.items():
        if pages:
            yield (
                f"{counted(pages, 'page')} without {table}: the files are not in the job, or the pages were finished "
                "without that output"
            )


def print_csv(pieces: Iterable[bytes]) -> None:
    """Print CSV: without control characters on a terminal, unchanged elsewhere."""
    for piece in pieces:
        if sys.stdout.isatty():
            print(piece.decode("utf-8").replace("\r\n", "\n"), end="")
        else:
            sys.stdout.buffer.write(piece)
    sys.stdout.flush()


def export_parquet(job: Path, out: Path, allowed: Purposes = ()) -> str:
    """Write the job as Parquet files, and return a summary. Raises the errors of ``write_parquet``."""
    return _text(out, write_parquet(job, out, allowed))


def export_wacz(job: Path, out: Path, spare: int = 0) -> str:
    """Write the web archive as one file, and return a summary. Raises the errors of ``write_package``."""
    packed = write_package(job, out, __version__, SteadyClock()(), spare)
    found = f"{counted(packed.pages, 'page')}, {counted(packed.captures, 'capture')}"
    return f"{out}: {found} in {counted(packed.files, 'WARC file')}; {packed.size:,} bytes"


def _export(arguments: argparse.Namespace) -> str:
    """Write the export, and return a summary."""
    job: Path = arguments.job
    if arguments.parquet is not None:
        return export_parquet(job, arguments.parquet, arguments.allowed)
    if arguments.csv is not None:
        return f"{arguments.csv}: {write_records(job, arguments.csv, arguments.allowed):,} bytes"
    if arguments.markdown is not None:
        made = write_markdown(job, arguments.markdown, arguments.allowed)
        return f"{arguments.markdown}: {counted(made.files, 'file')}; {made.bytes:,} bytes"
    if arguments.cdxj is not None:
        index = write_index(job, arguments.cdxj)
        found = f"{counted(index.captures, 'capture')} in {counted(index.files, 'WARC file')}"
        return f"{arguments.cdxj}: {found}; {index.size:,} bytes"
    return export_wacz(job, arguments.wacz)


_NOUNS = {"pages": "record", "structured": "structured row"}
