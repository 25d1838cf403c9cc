"""Writes the Markdown of the pages of a job or crawl, running or not, to files. Writing to the same directory again
adds the new pages."""

from __future__ import annotations

import os
from pathlib import Path

from crawler.inspect.crawl_partitions import crawl_partitions
from crawler.inspect.export.beside import ExportError, check_outside
from crawler.inspect.export.kept_parts import ends_of_outputs
from crawler.inspect.record_stream import Purposes, Tail, once_known, refused
from crawler.job.crawl_file import read_crawl_file
from crawler.job.directory import PAGES
from crawler.job.identity import read_identity
from crawler.job.job_lock import lock_holder
from crawler.job.markdown_files import TEXT, derive, name_of_job
from crawler.job.output.record_reader import decoded
from crawler.job.output.reverse_reader import lines_backwards
from crawler.job.output.rotated_files import Size
from crawler.job.records import End, file_number


def write_markdown(directory: Path, out: Path, allowed: Purposes = ()) -> Size:
    """Write the files to the directory ``out``, or update them there. URLs that refuse a purpose in ``allowed`` are
    left out; a directory written for other purposes is not updated. Returns the number of files and their bytes. Raises
    ExportError, JobError, OSError, and the errors of reading a damaged job."""
    out = Path(os.path.abspath(out))
    check_outside(out, directory)
    if not out.parent.is_dir() or (os.path.lexists(out) and not out.is_dir()):
        raise ExportError(f"{out} cannot be created as a directory: use another one")
    crawl = crawl_partitions(directory)
    jobs = {"" if crawl.is_job else f"{each.number:02}": each.directory for each in crawl.found}
    name = name_of_job(read_identity(directory)) if crawl.is_job else read_crawl_file(directory).id
    ends = {each: _final_end(job) for each, job in jobs.items()}
    name += "".join(f" {purpose}" for purpose in sorted(allowed))
    left_out = refused(jobs.values(), allowed)
    return derive(out, name, {each: (jobs[each], end) for each, end in ends.items() if end is not None}, left_out)


def _final_end(job: Path) -> End | None:
    """Return the end of the rows of texts that no crash can undo; None if a running job has not reported this end
    yet."""
    if lock_holder(job) is None:
        return ends_of_outputs(job).get(TEXT.kind, End(0, 0))
    end = once_known(job, Tail(job).end)
    for found in lines_backwards(job / PAGES, end, whole=True):
        kept = {} if found is None else decoded(*found, PAGES).get("kept", {})
        if TEXT.name in kept:
            number, start, length, _ = kept[TEXT.name]
            return End(file_number(TEXT.kind, number), start + length)
    return None
