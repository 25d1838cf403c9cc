"""Where the records of finished URLs go."""

from crawler.output.jsonl import JsonlOutput, OutputError, lines_of

__all__ = ["JsonlOutput", "OutputError", "lines_of"]
