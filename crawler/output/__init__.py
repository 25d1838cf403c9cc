"""The output: writing and reading the records of finished URLs."""

from crawler.output.jsonl import JsonlOutput, OutputError, lines_of
from crawler.output.record_reader import Record, entry_of, record_of, visits_of

__all__ = ["JsonlOutput", "OutputError", "Record", "entry_of", "lines_of", "record_of", "visits_of"]
