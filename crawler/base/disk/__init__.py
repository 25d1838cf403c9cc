"""Files as used by the durable parts, and their possible failures."""

from crawler.base.disk.expendable import FULL, PASSING, Expendable, no_room
from crawler.base.disk.failpoints import POINTS, failpoint
from crawler.base.disk.files import (
    CANNOT_LINK,
    Appender,
    Disk,
    DiskFile,
    DisplacedError,
    Place,
    ReadingDisk,
    RealDisk,
    is_at,
    replace_file,
    write_file,
)
from crawler.base.disk.regular import (
    PRIVATE_FILE,
    check_regular,
    make_private_directory,
    open_regular,
    private_opener,
    read_regular,
)

__all__ = [
    "CANNOT_LINK",
    "FULL",
    "PASSING",
    "POINTS",
    "PRIVATE_FILE",
    "Appender",
    "Disk",
    "DiskFile",
    "DisplacedError",
    "Expendable",
    "Place",
    "ReadingDisk",
    "RealDisk",
    "check_regular",
    "failpoint",
    "is_at",
    "make_private_directory",
    "no_room",
    "open_regular",
    "private_opener",
    "read_regular",
    "replace_file",
    "write_file",
]
