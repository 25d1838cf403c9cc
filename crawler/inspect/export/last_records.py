"""Finds the records that describe the current state of each URL."""

from __future__ import annotations

import json
import re
from array import array
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from crawler.job.output import Record
from crawler.job.records import JournalError

_START = re.compile(rb'\{"url":("(?:[^"\\]|\\.)*"),"status":')


class LastRecords:
    """The numbers, from 1, of the records that are the last of their URLs. Takes 8 bytes for each record, and 150 for
    each URL with several records."""

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
        # Of equal keys, a later one replaces an earlier one.
        self._last = dict(zip(keys[those].tolist(), (np.flatnonzero(those) + 1).tolist(), strict=True))

    def is_last(self, number: int, record: Record) -> bool:
        """Return True if it is the last record of its URL."""
        # Python hashes texts with a secret of the process, so collisions cannot be forged.
        return not self._last or self._last.get(hash(record["url"]), number) == number


def _repeated(keys: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the keys that occur more than once."""
    ordered = np.sort(keys)
    return np.unique(ordered[1:][ordered[1:] == ordered[:-1]])
