"""Where the records of finished URLs go."""

from crawler.output.jsonl import JsonlOutput, OutputError

__all__ = ["JsonlOutput", "OutputError"]
