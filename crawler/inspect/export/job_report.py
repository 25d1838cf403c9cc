"""Creates the report of a job: reads its records once, its statistics and its hosts, and writes one HTML file.
``LastRecords`` finds the records that describe the current state of each URL.
"""

from __future__ import annotations

import itertools
import json
import re
from array import array
from collections.abc import Iterable
from operator import itemgetter
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt

from crawler.base.clock import SteadyClock
from crawler.inspect.crawl_partitions import crawl_partitions
from crawler.inspect.crawl_reader import hosts_of, stats_of
from crawler.inspect.export.beside import file_made_beside, free_file
from crawler.inspect.export.report_page import MARK, Report, report_page
from crawler.inspect.host_table import HostsAsked
from crawler.inspect.record_stream import final_lines, final_records
from crawler.job.history_file import load_history
from crawler.job.identity import read_identity
from crawler.job.metrics.history import History
from crawler.job.output import Record
from crawler.job.records import JournalError
from crawler.job.survey.survey import BROKEN_KINDS, COLUMNS, Survey
from crawler.job.survey.top_rows import TopRows

_START = re.compile(rb'\{"url":("(?:[^"\\]|\\.)*"),"status":')


class LastRecords:
    """Finds the last record of each URL; records are numbered from 1. Takes 8 bytes of memory for each record, and 150
    for each URL with several records."""

    def __init__(self, lines: Iterable[bytes]) -> None:
        """``lines``: the lines of all records, in order. Raises JournalError for a line that is not a record."""
        hashes = array("q")
        for line in lines:
            start = _START.match(line)
            if start is None:
                raise JournalError(f"line {len(hashes) + 1} is not a record; run `crawler verify`")
            hashes.append(hash(json.loads(start[1])))
        self.count = len(hashes)
        keys = np.frombuffer(hashes, np.int64)
        several = _repeated(keys)
        those = np.isin(keys, several)
        # If a key occurs more than once, its last record number replaces the earlier ones.
        self._last = dict(zip(keys[those].tolist(), (np.flatnonzero(those) + 1).tolist(), strict=True))

    def is_last(self, number: int, record: Record) -> bool:
        """Return True if the record with that number is the last one of its URL."""
        # Python hashes strings with a secret of this process, so nobody can forge collisions.
        return not self._last or self._last.get(hash(record["url"]), number) == number


def _repeated(keys: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the keys that occur more than once."""
    ordered = np.sort(keys)
    return np.unique(ordered[1:][ordered[1:] == ordered[:-1]])


HOSTS = 100  # maximum length of the list of hosts with the most pages
FAILING = 25  # maximum length of the list of hosts with the most failures
_LISTED = (HostsAsked("fetched", limit=HOSTS), HostsAsked("failed", limit=FAILING))
_PLACES = 20_000  # maximum number of hosts that are counted exactly


class Reported(NamedTuple):
    """The figures of a report: the number of URLs counted, the number of broken ones, and the report's size in
    bytes."""

    urls: int
    broken: int
    size: int


def write_report(directory: Path, out: Path) -> Reported:
    """Write the report of the job or crawl in ``directory``, running or not, to the file ``out``. Raises ExportError,
    JobError, OSError, and the errors of reading a damaged job; an earlier report is then unchanged."""
    dict(crawl_partitions(directory).each(read_identity))
    out = free_file(out, directory, _is_report)
    report = gather(directory)
    data = report_page(report).encode("utf-8")
    with file_made_beside(out) as part:
        (part / out.name).write_bytes(data)
    return Reported(report.survey.urls, report.survey.total(*BROKEN_KINDS), len(data))


def _is_report(stream: BinaryIO) -> bool:
    return MARK.encode("ascii") in stream.read(len(MARK) + 100)


def gather(directory: Path) -> Report:
    """Collect the data for the report of a job or crawl. Raises JobError, OSError, and the errors of reading a damaged
    job."""
    made_at = SteadyClock()()
    stats, hosts = stats_of(directory), _hosts(directory)
    survey = Survey(hosts=TopRows(_PLACES, len(COLUMNS)))
    dict(crawl_partitions(directory).each(lambda job: _count(job, survey)))
    kept = list(dict(crawl_partitions(directory).each(lambda job: load_history(job, made_at))).values())
    figures = kept[0].figures if len(kept) == 1 else History.pooled([each.figures for each in kept])
    events = sorted((event for each in kept for event in each.events.after(0)), key=itemgetter("time"))
    series = figures.series()["all"]
    return Report(directory.absolute().name, made_at, stats, survey, hosts, series if series["t"] else {}, events)


def _count(job: Path, survey: Survey) -> None:
    """Count the last records of a job's URLs."""
    last = LastRecords(line for _, line in final_lines(job))
    # A running crawl may have finished more URLs since the first pass: their records are left out.
    for number, (record, _) in enumerate(itertools.islice(final_records(job), last.count), 1):
        if last.is_last(number, record):
            survey.add(record, last=True)


def _hosts(directory: Path) -> list[dict[str, Any]]:
    """Return the rows of the hosts with the most pages, and the rows of the hosts with the most failures."""
    found: dict[str, dict[str, Any]] = {}
    for asked in _LISTED:
        rows = hosts_of(directory, asked).rows
        found |= {row["host"]: row for row in rows if asked.sort == "fetched" or row["failed"]}
    return list(found.values())
