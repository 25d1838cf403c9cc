"""``crawler export DIR``: writes a job in the formats of other programs."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from crawler.cli.damaged_job import guarded
from crawler.cli.exit_codes import Exit, UsageError
from crawler.export.beside import ExportError
from crawler.export.parquet import MissingLibraryError, Written, write_parquet
from crawler.metrics import counted
from crawler.progress.say import say


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Write what a job, running or not, has found in a format of other programs. Only records that no crash can "
        "undo are written. An earlier export in OUT is replaced when the new one is complete."
    )
    parser.add_argument("job", type=Path, metavar="DIR")
    formats = parser.add_mutually_exclusive_group(required=True)
    formats.add_argument(
        "--parquet", type=Path, metavar="OUT", help="Parquet files of pages, links and hosts, in the directory OUT"
    )
    parser.set_defaults(run=guarded(run))


def run(arguments: argparse.Namespace) -> int:
    try:
        written = write_parquet(arguments.job, arguments.parquet)
    except (ExportError, MissingLibraryError) as error:
        raise UsageError(str(error)) from error
    except OSError as error:
        say(sys.stderr, f"crawler: error: nothing was exported: {' '.join(str(error).split())}")
        return Exit.FAILED
    print(_text(arguments.parquet, written))
    return Exit.OK


def _text(out: Path, written: Written) -> str:
    rows = [counted(number, _NOUNS[table]) for table, number in written.rows.items()]
    text = f"{out}: {', '.join(rows)}; {written.size:,} bytes"
    if written.without_links:
        text += f"\nthe links of {counted(written.without_links, 'page')} are missing: their files are not in the job"
    return text


_NOUNS = {"pages": "record", "links": "link", "hosts": "host"}
