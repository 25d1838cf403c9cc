"""The files of records as files: what is wrong with them, and what can be mended of that."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from crawler.base.disk import Disk
from crawler.inspect.integrity.change import Change, Done, Tell
from crawler.inspect.integrity.finding import Detail, Finding, Kind
from crawler.job.output.record_text import COMPRESSED, Fault, FileFault, file_faults
from crawler.job.output.seekable_zstd import FRAME, PlainReader, SeekableWriter

MOVED = frozenset({Kind.FILE_LOST, Kind.FILE_CUT})  # the text behind them is not where it was
_KINDS = {
    Fault.LOST: Kind.FILE_LOST,
    Fault.CUT: Kind.FILE_CUT,
    Fault.FRAME: Kind.FRAME_DAMAGED,
    Fault.TABLE: Kind.TABLE_LOST,
}


def file_findings(pages: Path) -> Iterator[Finding]:
    """What is wrong with the files. Raises OSError."""
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
    """Whether records cannot be read. Raises OSError."""
    return any(each.fault is not Fault.TABLE for each in file_faults(pages))


def write_tables(pages: Path, disk: Disk, tell: Tell) -> None:
    """Compress the files again that have no table; the text stays the same. Raises OSError."""
    for each in list(file_faults(pages)):
        if each.fault is Fault.TABLE:
            _compress_again(each.path, disk)
            tell(Change(Done.TABLE_WRITTEN, {"file": each.path.name}))


def _compress_again(path: Path, disk: Disk) -> None:
    part = path.with_name(f"{path.stem}{COMPRESSED}.part")
    reader, file = PlainReader(open(path, "rb")), disk.open(part, create=True)  # noqa: SIM115  # closed with the reader
    try:
        file.truncate(0)
        writer = SeekableWriter(file.append)
        frame, at = b"", 0
        while piece := reader.read(FRAME - len(frame), at):
            frame, at = frame + piece, at + len(piece)
            if len(frame) == FRAME:
                writer.add(frame)
                frame = b""
        if frame:
            writer.add(frame)
        writer.end()
        file.sync()
    finally:
        reader.close()
        file.close()
    disk.replace(part, path)
    disk.sync_directory(path.parent)
