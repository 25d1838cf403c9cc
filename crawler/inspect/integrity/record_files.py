"""Checks the files of records as files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from crawler.inspect.integrity.finding import Detail, Finding, Kind
from crawler.job.output.record_text import Fault, FileFault, file_faults

MOVED = frozenset({Kind.FILE_LOST, Kind.FILE_CUT})  # faults that change the offsets of later records
_KINDS = {
    Fault.LOST: Kind.FILE_LOST,
    Fault.CUT: Kind.FILE_CUT,
    Fault.FRAME: Kind.FRAME_DAMAGED,
    Fault.TABLE: Kind.TABLE_LOST,
}


def file_findings(pages: Path) -> Iterator[Finding]:
    """Yield the faults of the files. Raises OSError."""
    for each in file_faults(pages):
        yield Finding(_KINDS[each.fault], each.path.name, _details(each))


def _details(fault: FileFault) -> dict[str, Detail]:
    match fault.fault:
        case Fault.CUT:
            return {"offset": fault.offset}
        case Fault.FRAME:
            return {"offset": fault.offset, "bytes": fault.size}
    return {}


def is_broken(pages: Path) -> bool:
    """True if records are unreadable. Raises OSError."""
    return next(file_faults(pages), None) is not None
