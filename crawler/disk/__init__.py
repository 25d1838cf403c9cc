"""Files as the durable parts use them, and the ways in which they can fail."""

from crawler.disk.crashpoints import POINTS, reach
from crawler.disk.faulty import Fault, FaultyDisk, PowerCutError
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
    "reach",
    "replace_file",
    "write_file",
]
