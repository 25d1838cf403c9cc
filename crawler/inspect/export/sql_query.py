"""Answers SQL queries about a job, using DuckDB (the extra ``sql``). The tables that a query names are loaded into a
database in memory; data too large for memory is written to a temporary directory. The tables are read as for an export,
which distinguishes the torn end of a growing file from damage. A query can access only these tables: no files, no
network, no database settings.
"""

from __future__ import annotations

import contextlib
import json
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

from crawler.base.faults import UserFault
from crawler.base.memory import available_memory
from crawler.inspect.export.columns import OTHER, Column, Kind
from crawler.inspect.export.tables import TABLES, MissingLibraryError, Source, grouped

# The tables that can be read, and their names in an export; ``pages`` is a view of ``records``.
READ = {"records" if table == "pages" else table: table for table in TABLES}
# For each URL, the last record with content: a record with status 304 only confirms an earlier one.
_PAGES = """CREATE VIEW pages AS SELECT * FROM records WHERE record IN (
    SELECT coalesce(max(record) FILTER (status IS DISTINCT FROM 304), max(record)) FROM records GROUP BY url)"""
_CLOSED = (
    "SET enable_external_access = false",
    "SET python_enable_replacements = false",  # a query must not see the variables of this program
    "SET TimeZone = 'UTC'",
    "SET lock_configuration = true",
)
_MEMORY = 2**30  # maximum bytes of DuckDB's tables in memory; the rest goes to disk
_GROUP_ROWS, _GROUP_BYTES = 122_880, 2**25  # maximum numbers of rows and bytes added at once
_SHOWN = 1000  # rows fetched at once
_NAMED = re.compile(r'"table_name":"(\w+)"')
_NUMBER = re.compile(r"U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?|DOUBLE|FLOAT|DECIMAL\(.*\)")
_PLACE = re.compile(r"\s+LINE \d+: ")  # starts the lines in which DuckDB shows the place of a mistake
Wait = Callable[..., Any]  # calls a function with arguments, and returns its result


class QueryError(UserFault):
    """The query cannot be answered. The message is one line that gives the reason."""


class Answer(NamedTuple):
    """The result of a statement: the columns, which of them are numbers, and the rows, with each value as text."""

    names: Sequence[str]
    numbers: Sequence[bool]
    rows: Iterator[tuple[str | None, ...]]


def check_library() -> None:
    """Raise MissingLibraryError if a required library is not installed."""
    try:
        import duckdb  # noqa: F401, PLC0415, optional
        import pyarrow  # noqa: F401, PLC0415
    except ImportError as error:
        raise MissingLibraryError("crawler sql needs duckdb and pyarrow: pip install duckdb pyarrow") from error


def columns_of_table(source: Source, table: str) -> Iterator[tuple[str, str]]:
    """Yield the names and types of the columns of one of the readable tables."""
    for column in (*source.columns(READ[table]), Column(OTHER, Kind.TEXT)):
        yield column.name, column.kind.removesuffix(" (JSON)")


def lack_of(table: str) -> str:
    """Return a message for the user about a table that the job does not keep."""
    return f"this job keeps no table {table}: add {table} to --output, for pages crawled from then on"


def answers(source: Source, query: str, *, as_json: bool = False) -> Iterator[Answer]:
    """Yield the result of each statement of the query; with ``as_json``, each row is one JSON object. Each result must
    be read before the next one. Raises MissingLibraryError, QueryError, OSError, and the errors of reading a job."""
    check_library()
    with (
        tempfile.TemporaryDirectory(prefix="crawler-sql-") as spill,
        _database(spill) as database,
        ThreadPoolExecutor(1) as thread,
        _duckdb_errors(),
    ):
        wait = partial(_wait, thread, database)
        statements = database.extract_statements(query)
        if not statements:
            raise QueryError("the query is empty")
        tables = _prepare(database, source, query)
        if len(statements) == 1:
            _check(database, statements[0])
        for table in tables:
            for group in grouped(source.batches(READ[table]), _GROUP_ROWS, _GROUP_BYTES):
                database.from_arrow(group).insert_into(table)
        for statement in statements:
            relation = wait(_run, database, statement)
            if relation is not None:
                yield _answer(relation, as_json, wait)


@contextlib.contextmanager
def _database(spill: str) -> Iterator[Any]:
    import duckdb  # noqa: PLC0415, optional

    free = available_memory()
    most = _MEMORY if free is None else min(_MEMORY, free // 2)
    settings: dict[str, Any] = {"memory_limit": f"{most // 2**20}MiB", "temp_directory": spill}
    with duckdb.connect(":memory:", config=settings) as database:
        for each in _CLOSED:
            database.execute(each)
        yield database


@contextlib.contextmanager
def _duckdb_errors() -> Iterator[None]:
    """Translate DuckDB's errors into QueryError and OSError."""
    import duckdb  # noqa: PLC0415, optional

    try:
        yield
    except (duckdb.IOException, duckdb.OutOfMemoryException) as error:
        raise OSError(" ".join(str(error).split())) from error
    except duckdb.Error as error:
        raise QueryError(_one_line(error)) from error


def _one_line(error: Exception) -> str:
    return " ".join(_PLACE.split(str(error))[0].split()).removeprefix("Invalid Input Error: ")


def _wait(thread: ThreadPoolExecutor, database: Any, call: Callable[..., Any], *arguments: Any) -> Any:
    """Make a slow call in another thread, and return its result: in the main thread, DuckDB would delay Ctrl-C until
    the call ends."""
    future = thread.submit(call, *arguments)
    try:
        return future.result()
    except KeyboardInterrupt:
        database.interrupt()
        raise


def _prepare(database: Any, source: Source, query: str) -> list[str]:
    """Create the tables. Returns those named in the query, which the caller must fill."""
    tree = str(database.execute("SELECT json_serialize_sql($1)", [query]).fetchall()[0][0])
    exact = not json.loads(tree)["error"]  # DuckDB parses only queries; in other statements, any word may be a table
    named = {name.lower() for name in (_NAMED.findall(tree) if exact else re.findall(r"\w+", query))}
    wanted = []
    for table, exported in READ.items():
        columns = [(f'"{name}"', kind) for name, kind in columns_of_table(source, table)]
        lack = f"the table {table} was not read: name it in the query"
        if table in named or (table == "records" and "pages" in named):
            if source.keeps(exported):
                wanted.append(table)
                database.execute(f"CREATE TABLE {table} ({', '.join(map(' '.join, columns))})")
                continue
            lack = lack_of(table)
            if exact:
                raise QueryError(lack)
        # If a statement reads this table nonetheless, it must fail, rather than find the table empty.
        fails = f"error('{lack}')"
        made = ", ".join(f"CAST({fails} AS {kind}) AS {name}" for name, kind in columns)
        database.execute(f"CREATE VIEW {table} AS SELECT {made} WHERE {fails}")
    database.execute(_PAGES)
    return wanted


def _check(database: Any, statement: Any) -> None:
    """Check a query for mistakes before the tables are read."""
    import duckdb  # noqa: PLC0415, optional

    if statement.type == duckdb.StatementType.SELECT:
        with contextlib.suppress(duckdb.ParserException):  # a statement such as DESCRIBE has no plan
            database.execute(f"EXPLAIN {statement.query}").fetchall()


def _run(database: Any, statement: Any) -> Any:
    """Run a statement, and return the relation of its rows; return None if the statement is not a query."""
    import duckdb  # noqa: PLC0415, optional

    changes, returns = duckdb.ExpectedResultType.CHANGED_ROWS, duckdb.ExpectedResultType.QUERY_RESULT
    expected, several = statement.expected_result_type, statement.type == duckdb.StatementType.MULTI  # such as PIVOT
    if returns in expected and (several or changes not in expected):
        return database.sql(statement)
    database.execute(statement).fetchall()
    return None


def _answer(relation: Any, as_json: bool, wait: Wait) -> Answer:
    numbers = [_NUMBER.fullmatch(str(kind)) is not None for kind in relation.types]
    if as_json:
        relation = relation.set_alias("the_row").project("to_json(the_row)")
    else:
        relation = relation.project("CAST(COLUMNS(*) AS VARCHAR)")
    reader = wait(relation.to_arrow_reader, _SHOWN)
    return Answer(reader.schema.names, numbers, _rows(reader, wait))


def _rows(reader: Any, wait: Wait) -> Iterator[tuple[str | None, ...]]:
    try:
        while (batch := wait(next, reader, None)) is not None:
            yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)
    except OSError as error:  # Arrow raises OSError for any error of DuckDB
        raise QueryError(_one_line(error)) from error
