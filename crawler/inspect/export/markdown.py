"""Writes the Markdown of the pages of a job or crawl, running or not, to files. The same directory may be given again:
what came since is added."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from crawler.inspect.crawl_partitions import crawl_partitions, holds_crawl
from crawler.inspect.export.beside import ExportError, check_outside
from crawler.inspect.export.final_records import once_known
from crawler.inspect.export.kept_parts import ends_of_outputs
from crawler.inspect.record_stream import Tail
from crawler.job.crawl_file import read_crawl_file
from crawler.job.directory import PAGES
from crawler.job.identity import read_identity
from crawler.job.job_lock import lock_holder
from crawler.job.markdown_files import TEXT, Source, derive, name_of_job
from crawler.job.output import record_of
from crawler.job.output.reverse_reader import lines_backwards
from crawler.job.output.rotated_files import Size
from crawler.job.records import End, file_in_output, file_number


class Exported(NamedTuple):
    """How many files there are, and their bytes. ``missing``: how many files of the text output are not there."""

    size: Size
    missing: int


def write_markdown(directory: Path, out: Path) -> Exported:
    """Write the files to ``out``, or bring up to date those that are there. Raises ExportError, JobError, OSError and
    what reading a damaged job raises."""
    out = Path(os.path.abspath(out))
    check_outside(out, directory)
    if not out.parent.is_dir():
        raise ExportError(f"{out.parent} is not a directory: make it first")
    if holds_crawl(directory):
        jobs = {f"{each.number:02}": each.directory for each in crawl_partitions(directory).found}
        name = read_crawl_file(directory).id
    else:
        jobs, name = {"": directory}, name_of_job(read_identity(directory))
    sources = [Source(each, job, _final_end(job)) for each, job in jobs.items()]
    size = derive(out, name, sources)
    return Exported(size, sum(_missing(source) for source in sources))


def _final_end(job: Path) -> End:
    """The end of the rows that no crash cuts off."""
    if lock_holder(job) is None:
        return ends_of_outputs(job).get(TEXT.kind, End(0, 0))
    tail = Tail(job)
    for found in lines_backwards(job / PAGES, once_known(job, tail.end), whole=True):
        record = None if found is None else record_of(found[1])
        kept = (record or {}).get("kept")
        if isinstance(kept, dict) and TEXT.name in kept:
            number, start, length, _ = kept[TEXT.name]
            return End(file_number(TEXT.kind, number), start + length)
    return End(0, 0)


def _missing(source: Source) -> int:
    numbers = range(1, file_in_output(source.end.file) + 1)
    return sum(not TEXT.path(source.job, number).is_file() for number in numbers)
