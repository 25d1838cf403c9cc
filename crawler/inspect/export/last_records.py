"""Which of the records of a URL say how it is now."""

from __future__ import annotations

import json
import re
from array import array
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from crawler.job.output import Record
from crawler.job.records import JournalError

_START = re.compile(rb'\{"url":("(?:[^"\\]|\\.)*"),"status":(304,)?')


class LastRecords:
    """Which records are the last of their URLs, by their numbers from 1, and which are the last that say what is there:
    if that was found unchanged (304), an earlier one. Takes 9 bytes for each record, and 300 for each URL that has
    several."""

    def __init__(self, lines: Iterable[bytes]) -> None:
        """``lines`` are those of all records, in order. Raises JournalError for a line that is not a record."""
        hashes, told = array("q"), bytearray()
        for line in lines:
            start = _START.match(line)
            if start is None:
                raise JournalError(f"line {len(hashes) + 1} is not a record; run `crawler verify`")
            hashes.append(hash(json.loads(start[1])))
            told.append(start[2] is None)
        self.count = len(hashes)
        keys = np.frombuffer(hashes, np.int64)
        several = _repeated(keys)
        self._last = _last(keys, np.arange(1, self.count + 1), several)
        tells = np.frombuffer(told, np.bool_)
        self._telling = _last(keys[tells], np.flatnonzero(tells) + 1, several)

    def is_last(self, number: int, record: Record) -> bool:
        """Whether it is the last record of its URL."""
        # Python hashes texts with a secret of the process, so nobody can make two URLs equal.
        return not self._last or self._last.get(hash(record["url"]), number) == number

    def tells(self, number: int, record: Record) -> bool:
        """Whether it is the last record of its URL that says what is there."""
        return not self._telling or self._telling.get(hash(record["url"]), number) == number


def _repeated(keys: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The keys that are there several times."""
    ordered = np.sort(keys)
    return np.unique(ordered[1:][ordered[1:] == ordered[:-1]])


def _last(
    keys: npt.NDArray[np.int64], numbers: npt.NDArray[np.int64], several: npt.NDArray[np.int64]
) -> dict[int, int]:
    """The last number of each of the keys in ``several``."""
    those = np.isin(keys, several)
    return dict(zip(keys[those].tolist(), numbers[those].tolist(), strict=True))  # a later one replaces an earlier one
