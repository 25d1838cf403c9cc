"""Files as the durable parts use them, and the ways in which they can fail."""

from crawler.disk.failpoints import POINTS, failpoint
from crawler.disk.faulty_disk import Fault, FaultyDisk, PowerCutError
from crawler.disk.files import Appender, Disk, DiskFile, RealDisk, replace_file, write_file
from crawler.disk.full import FULL, no_room

__all__ = [
    "FULL",
    "POINTS",
    "Appender",
    "Disk",
    "DiskFile",
    "Fault",
    "FaultyDisk",
    "PowerCutError",
    "RealDisk",
    "failpoint",
    "no_room",
    "replace_file",
    "write_file",
]
