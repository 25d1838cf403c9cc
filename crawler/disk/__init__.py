"""Files as the durable parts use them, and the ways in which they can fail."""

from crawler.disk.failpoints import POINTS, failpoint
from crawler.disk.faulty_disk import Fault, FaultyDisk, PowerCutError
from crawler.disk.files import Appender, Disk, DiskFile, RealDisk, replace_file, write_file

__all__ = [
    "POINTS",
    "Appender",
    "Disk",
    "DiskFile",
    "Fault",
    "FaultyDisk",
    "PowerCutError",
    "RealDisk",
    "failpoint",
    "replace_file",
    "write_file",
]
