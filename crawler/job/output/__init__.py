"""The output: writing and reading the records of finished URLs."""

from crawler.job.output.appended_file import AppendedFile, OutputError
from crawler.job.output.outputs import Outputs
from crawler.job.output.record_reader import Record, entry_of, record_of, visits_of
from crawler.job.output.record_text import lines_of

__all__ = ["AppendedFile", "OutputError", "Outputs", "Record", "entry_of", "lines_of", "record_of", "visits_of"]
