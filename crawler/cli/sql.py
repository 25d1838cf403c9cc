"""``crawler sql DIR "SELECT ..."``: answers a query about a job."""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import textwrap
from collections.abc import Iterator, Sequence
from decimal import Decimal

from rich.cells import cell_len, set_cell_size

from crawler.base.printable import one_line
from crawler.base.say import say
from crawler.cli.damaged_job import guarded, say_defaults
from crawler.cli.exit_codes import Exit, UsageError
from crawler.cli.export import missing_text, print_csv
from crawler.cli.options import add_allowed
from crawler.cli.subject import add_subject
from crawler.inspect.export.csv_file import csv_pieces
from crawler.inspect.export.sql_query import READ, Answer, answers, columns_of_table, lack_of
from crawler.inspect.export.tables import KEPT, Source

_ABOUT = {
    "records": "each visit of each URL, as in pages.jsonl",
    "pages": "each URL, as its last visit found it; the columns of records",
    **{table: f"the rows of the output {table}" for table in KEPT},
    "hosts": "each host",
}
_EXAMPLE = "SELECT status, count(*) FROM pages GROUP BY ALL ORDER BY ALL"
_WIDEST = 100  # maximum characters of a cell
_MEASURED = 1000  # only the first rows determine the column widths


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Answer an SQL query (in DuckDB's dialect) about a job, running or not. Without a query: list the tables and "
        "their columns. Long cells are cut in tables, but not with --csv and --json."
    )
    add_subject(parser)
    parser.add_argument(
        "query", nargs="*", metavar="QUERY", help='such as "SELECT ... FROM pages"; - reads it from stdin'
    )
    forms = parser.add_mutually_exclusive_group()
    forms.add_argument("--csv", dest="form", action="store_const", const="csv", help="print CSV")
    forms.add_argument("--json", dest="form", action="store_const", const="json", help="print one JSON object per row")
    add_allowed(parser)
    parser.set_defaults(run=guarded(run))


def run(arguments: argparse.Namespace) -> int:
    if len(arguments.query) > 1:
        raise UsageError("the query must be one argument: put it in quotes")
    source = Source(arguments.job, arguments.allowed)
    if not arguments.query:
        print(_listing(source))
        return Exit.OK
    say_defaults(arguments.job)
    made = answers(source, _query(*arguments.query), as_json=arguments.form == "json")
    for number, answer in enumerate(made):
        _print(answer, arguments.form, first=number == 0)
    for line in missing_text(source.without):
        say(sys.stderr, line)
    return Exit.OK


def _query(word: str) -> str:
    try:
        return sys.stdin.buffer.read().decode("utf-8") if word == "-" else word
    except UnicodeDecodeError as error:
        raise UsageError("the query on standard input is not UTF-8") from error


def _listing(source: Source) -> str:
    made = []
    for table, about in _ABOUT.items():
        made.append(f"{table}: {about}")
        if table in READ and not source.keeps(READ[table]):
            made.append(f"  ({lack_of(table)})")
        elif table in READ:
            columns = ", ".join(
                f"{name} {kind}".removesuffix(" VARCHAR") for name, kind in columns_of_table(source, table)
            )
            made.append(textwrap.fill(columns, 100, initial_indent="  ", subsequent_indent="  "))
    return "\n".join([*made, f'\nColumns without a type are VARCHAR. For example: "{_EXAMPLE}"'])


def _print(answer: Answer, form: str | None, *, first: bool) -> None:
    if form == "json":
        for (text,) in answer.rows:
            print(json.dumps(json.loads(text or "null", parse_constant=lambda name: None), separators=(",", ":")))
    elif form == "csv":
        print_csv(csv_pieces(answer.names, (_typed(answer, row) for row in answer.rows)))
    else:
        print("" if first else "\n", end="")
        for line in _aligned(answer):
            print(line)


def _typed(answer: Answer, row: Sequence[str | None]) -> dict[str, str | Decimal | None]:
    """Return a row for CSV. Numbers become Decimal, so that the CSV writer does not take a negative number for a
    formula."""
    cells = zip(answer.names, answer.numbers, row, strict=True)
    return {name: Decimal(value) if number and value is not None else value for name, number, value in cells}


def _aligned(answer: Answer) -> Iterator[str]:
    """Yield the lines of a table. Cells have no terminal control characters."""
    rows = ([_cell(value or "") for value in row] for row in answer.rows)
    head, first = [_cell(name) for name in answer.names], list(itertools.islice(rows, _MEASURED))
    widths = [max(map(cell_len, column)) for column in zip(head, *first, strict=True)]
    for row in itertools.chain([head, ["-" * width for width in widths]], first, rows):
        cells = zip(row, widths, answer.numbers, strict=True)
        yield "  ".join(_padded(cell, width, number) for cell, width, number in cells).rstrip()


def _cell(value: str) -> str:
    cell = one_line(value[: _WIDEST + 1])
    return cell if cell_len(cell) <= _WIDEST else f"{set_cell_size(cell, _WIDEST - 1)}\N{HORIZONTAL ELLIPSIS}"


def _padded(cell: str, width: int, right: bool) -> str:
    space = " " * (width - cell_len(cell))
    return f"{space}{cell}" if right else f"{cell}{space}"
